/* fuzz_gguf.c - libFuzzer entry: the GGUF reader on any bytes. What it accepts is used in full: every value, string, name and tensor element
 * is read, so that the address sanitizer sees a place that lies outside the file. */
#include <ggml.h>
#include <gguf.h>

#include <stdlib.h>
#include <string.h>

#define MAX_ELEMENTS (1 << 20) /* of a tensor that is read as floats; a tensor fits its file, so this only bounds the time */

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size);

static volatile uint64_t sink; /* keeps the reads */

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}

static void read_key(const struct gguf_context * gguf, int64_t i) {
    size_t n_bytes = 0;
    const uint8_t * raw = gguf_get_raw(gguf, i, &n_bytes);
    for (size_t b = 0; b < n_bytes; b++) {
        sink += raw[b];
    }
    sink += strlen(gguf_get_key(gguf, i));
    require(gguf_find_key(gguf, gguf_get_key(gguf, i)) == i);
    switch (gguf_get_kv_type(gguf, i)) {
        case GGUF_TYPE_STRING: sink += strlen(gguf_get_val_str(gguf, i)); break;
        case GGUF_TYPE_BOOL: sink += gguf_get_val_bool(gguf, i); break;
        case GGUF_TYPE_UINT32: sink += gguf_get_val_u32(gguf, i); break;
        case GGUF_TYPE_UINT64: sink += gguf_get_val_u64(gguf, i); break;
        case GGUF_TYPE_ARRAY:
            for (size_t s = 0; gguf_get_arr_type(gguf, i) == GGUF_TYPE_STRING && s < gguf_get_arr_n(gguf, i); s++) {
                sink += strlen(gguf_get_arr_str(gguf, i, s));
            }
            break;
        default: break;
    }
}

static void read_tensor(const struct gguf_context * gguf, const uint8_t * data, size_t size, int64_t i, const struct ggml_tensor * record) {
    const char * name = gguf_get_tensor_name(gguf, i);
    size_t at = gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, i), n_bytes = gguf_get_tensor_size(gguf, i);
    require(gguf_find_tensor(gguf, name) == i && strcmp(record->name, name) == 0);
    require(at <= size && n_bytes <= size - at && n_bytes == ggml_nbytes(record));
    int64_t n = ggml_nelements(record);
    const struct ggml_type_traits * traits = ggml_get_type_traits(gguf_get_tensor_type(gguf, i));
    float * values = n <= MAX_ELEMENTS && traits->to_float ? malloc((size_t) n * sizeof *values) : NULL;
    if (values) {
        void * block = malloc(n_bytes); /* a file's tensors are aligned in memory, the fuzzer's bytes need not be */
        require(block != NULL);
        memcpy(block, data + at, n_bytes);
        traits->to_float(block, values, n);
        sink += values[n - 1] > 0;
        free(block);
    }
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    char error[512] = "";
    struct ggml_context * tensors = NULL;
    struct gguf_init_params params = { .no_alloc = true, .ctx = &tensors };
    struct gguf_context * gguf = gguf_init_from_buffer_err(data, size, params, error, sizeof error);
    if (!gguf) {
        require(!tensors && strncmp(error, "buffer: ", 8) == 0 && strlen(error) > 16);
        return 0;
    }
    for (int64_t i = 0; i < gguf_get_n_kv(gguf); i++) {
        read_key(gguf, i);
    }
    const struct ggml_tensor * record = ggml_get_first_tensor(tensors);
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
        require(record != NULL);
        read_tensor(gguf, data, size, i, record);
        record = ggml_get_next_tensor(tensors, (struct ggml_tensor *) (uintptr_t) record);
    }
    require(!record);
    ggml_free(tensors);
    gguf_free(gguf);
    return 0;
}
