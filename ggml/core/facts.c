/* facts.c - questions about a tensor that its type, ne and nb answer: counts, bytes, packing, which shapes tile which; and the names of ops. */
#include "internal.h"

int64_t ggml_nelements(const struct ggml_tensor * tensor) { return tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3]; }
int64_t ggml_nrows(const struct ggml_tensor * tensor) { return tensor->ne[1] * tensor->ne[2] * tensor->ne[3]; }
size_t ggml_element_size(const struct ggml_tensor * tensor) { return ggml_type_size(tensor->type); }

size_t ggml_nbytes(const struct ggml_tensor * tensor) {
    if (ggml_is_empty(tensor)) {
        return 0;
    }
    int64_t block = ggml_blck_size(tensor->type);
    size_t bytes = block == 1 ? ggml_type_size(tensor->type) + (size_t) (tensor->ne[0] - 1) * tensor->nb[0]
                              : (size_t) (tensor->ne[0] / block) * tensor->nb[0];
    for (int i = 1; i < GGML_MAX_DIMS; i++) {
        bytes += (size_t) (tensor->ne[i] - 1) * tensor->nb[i];
    }
    return bytes;
}

int ggml_n_dims(const struct ggml_tensor * tensor) {
    int n = GGML_MAX_DIMS;
    while (n > 1 && tensor->ne[n - 1] == 1) {
        n--;
    }
    return n;
}

/* The stride of an axis of one element is never used, so it does not count. */
bool ggml_is_contiguous(const struct ggml_tensor * tensor) {
    size_t packed = ggml_type_size(tensor->type);
    int64_t block = ggml_blck_size(tensor->type);
    if (tensor->ne[0] != block && tensor->nb[0] != packed) {
        return false;
    }
    packed *= (size_t) (tensor->ne[0] / block);
    for (int i = 1; i < GGML_MAX_DIMS; i++) {
        if (tensor->ne[i] != 1) {
            if (tensor->nb[i] != packed) {
                return false;
            }
            packed *= (size_t) tensor->ne[i];
        }
    }
    return true;
}

bool ggml_is_contiguous_rows(const struct ggml_tensor * tensor) {
    return tensor->ne[0] == ggml_blck_size(tensor->type) || tensor->nb[0] == ggml_type_size(tensor->type);
}

bool ggml_is_transposed(const struct ggml_tensor * tensor) { return tensor->nb[0] > tensor->nb[1]; }

bool ggml_is_permuted(const struct ggml_tensor * tensor) {
    return tensor->nb[0] > tensor->nb[1] || tensor->nb[1] > tensor->nb[2] || tensor->nb[2] > tensor->nb[3];
}

bool ggml_is_empty(const struct ggml_tensor * tensor) {
    return tensor->ne[0] == 0 || tensor->ne[1] == 0 || tensor->ne[2] == 0 || tensor->ne[3] == 0;
}

bool ggml_is_view(const struct ggml_tensor * tensor) { return tensor->view_src != NULL; }

bool ggml_is_scalar(const struct ggml_tensor * tensor) {
    return tensor->ne[0] == 1 && tensor->ne[1] == 1 && tensor->ne[2] == 1 && tensor->ne[3] == 1;
}

bool ggml_are_same_shape(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    return a->ne[0] == b->ne[0] && a->ne[1] == b->ne[1] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3];
}

bool ggml_can_repeat(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    if (ggml_is_empty(a)) {
        return ggml_is_empty(b);
    }
    return b->ne[0] % a->ne[0] == 0 && b->ne[1] % a->ne[1] == 0 && b->ne[2] % a->ne[2] == 0 && b->ne[3] % a->ne[3] == 0;
}

const char * ggml_op_name(enum ggml_op op) {
    static const char * const names[GGML_OP_COUNT] = {
#define GGML_OP_DEF(id, name, family) [GGML_OP_##id] = name,
#include "ops.def"
#undef GGML_OP_DEF
    };
    return (unsigned) op < GGML_OP_COUNT ? names[op] : "none";
}

const char * ggml_unary_op_name(enum ggml_unary_op op) {
    static const char * const names[GGML_UNARY_OP_COUNT] = {
        [GGML_UNARY_OP_TANH] = "TANH", [GGML_UNARY_OP_RELU] = "RELU",         [GGML_UNARY_OP_SIGMOID] = "SIGMOID",
        [GGML_UNARY_OP_GELU] = "GELU", [GGML_UNARY_OP_GELU_ERF] = "GELU_ERF", [GGML_UNARY_OP_SILU] = "SILU",
        [GGML_UNARY_OP_ELU] = "ELU",
    };
    return (unsigned) op < GGML_UNARY_OP_COUNT ? names[op] : "none";
}

enum ggml_unary_op ggml_get_unary_op(const struct ggml_tensor * tensor) {
    GGML_ASSERT(tensor->op == GGML_OP_UNARY);
    return (enum ggml_unary_op) tensor->op_params[0];
}
