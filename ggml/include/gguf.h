/* gguf.h - reading GGUF files (version 2 and 3, little-endian).
 * The file is untrusted: every count, length, offset and range is checked against the file's size before it is used, and a failure says what is wrong.
 * The file stays mapped while the context lives; keys and their values are copied, tensors are not. */
#pragma once

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

enum gguf_type {
    GGUF_TYPE_UINT8 = 0, GGUF_TYPE_INT8 = 1, GGUF_TYPE_UINT16 = 2, GGUF_TYPE_INT16 = 3, GGUF_TYPE_UINT32 = 4, GGUF_TYPE_INT32 = 5,
    GGUF_TYPE_FLOAT32 = 6, GGUF_TYPE_BOOL = 7, GGUF_TYPE_STRING = 8, GGUF_TYPE_ARRAY = 9, GGUF_TYPE_UINT64 = 10, GGUF_TYPE_INT64 = 11,
    GGUF_TYPE_FLOAT64 = 12, GGUF_TYPE_COUNT = 13,
};

struct gguf_context;
struct gguf_init_params {
    bool no_alloc;              /* must be true: data is mapped, not copied */
    struct ggml_context ** ctx; /* if not NULL, gets a context with a tensor (no data) for each of the file's; the caller frees it */
};

struct gguf_context * gguf_init_from_file(const char * fname, struct gguf_init_params params); /* NULL on failure; the text goes to the log */
/* The same with the text of the failure in error (error_size bytes, always terminated). */
struct gguf_context * gguf_init_from_file_err(const char * fname, struct gguf_init_params params, char * error, size_t error_size);
/* From memory, which must outlive the context: for tests and fuzzing. */
struct gguf_context * gguf_init_from_buffer_err(const void * data, size_t size, struct gguf_init_params params, char * error, size_t error_size);
/* false when the file was cut or written to since it was opened; the text, without the file's name, is in error. From a buffer: true. */
bool gguf_check_file(const struct gguf_context * ctx, char * error, size_t error_size);
void gguf_free(struct gguf_context * ctx);

const char * gguf_type_name(enum gguf_type type); /* NULL for a number that is no type */
uint32_t gguf_get_version(const struct gguf_context * ctx);
size_t   gguf_get_alignment(const struct gguf_context * ctx);
size_t   gguf_get_data_offset(const struct gguf_context * ctx); /* of the first tensor, from the start of the file */
const void * gguf_get_mapping(const struct gguf_context * ctx, size_t * size); /* the whole file */

int64_t gguf_get_n_kv(const struct gguf_context * ctx);
int64_t gguf_find_key(const struct gguf_context * ctx, const char * key); /* -1 if none */
const char * gguf_get_key(const struct gguf_context * ctx, int64_t key_id);
enum gguf_type gguf_get_kv_type(const struct gguf_context * ctx, int64_t key_id);
enum gguf_type gguf_get_arr_type(const struct gguf_context * ctx, int64_t key_id);
size_t gguf_get_arr_n(const struct gguf_context * ctx, int64_t key_id);
/* Scalars and array elements as stored, unaligned; strings as uint64 length and bytes, one after the other. n_bytes covers all. */
const void * gguf_get_raw(const struct gguf_context * ctx, int64_t key_id, size_t * n_bytes);
/* The value of a scalar; the type must be the one asked for (assert), so ask gguf_get_kv_type first. */
uint8_t  gguf_get_val_u8(const struct gguf_context * ctx, int64_t key_id);
uint32_t gguf_get_val_u32(const struct gguf_context * ctx, int64_t key_id);
int32_t  gguf_get_val_i32(const struct gguf_context * ctx, int64_t key_id);
uint64_t gguf_get_val_u64(const struct gguf_context * ctx, int64_t key_id);
float    gguf_get_val_f32(const struct gguf_context * ctx, int64_t key_id);
bool     gguf_get_val_bool(const struct gguf_context * ctx, int64_t key_id);
const char * gguf_get_val_str(const struct gguf_context * ctx, int64_t key_id); /* NUL-terminated copy owned by ctx */
const char * gguf_get_arr_str(const struct gguf_context * ctx, int64_t key_id, size_t i); /* likewise; made on first use */

int64_t gguf_get_n_tensors(const struct gguf_context * ctx);
int64_t gguf_find_tensor(const struct gguf_context * ctx, const char * name); /* -1 if none */
size_t  gguf_get_tensor_offset(const struct gguf_context * ctx, int64_t tensor_id); /* from the data offset */
const char * gguf_get_tensor_name(const struct gguf_context * ctx, int64_t tensor_id);
enum ggml_type gguf_get_tensor_type(const struct gguf_context * ctx, int64_t tensor_id);
const int64_t * gguf_get_tensor_ne(const struct gguf_context * ctx, int64_t tensor_id); /* [GGML_MAX_DIMS] */
int      gguf_get_tensor_n_dims(const struct gguf_context * ctx, int64_t tensor_id);
size_t   gguf_get_tensor_size(const struct gguf_context * ctx, int64_t tensor_id); /* bytes */

#ifdef __cplusplus
}
#endif
