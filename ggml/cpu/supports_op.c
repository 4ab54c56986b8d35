/* supports_op.c - which ops the CPU kernels take: op, types and layout, exactly what ops/ was written for.
 * Words used: a "row" tensor has packed elements within each row (nb[0] is the element size) and any strides above. */
#include "graph_run.h"

static bool is_row(const struct ggml_tensor * t) { return ggml_is_contiguous_rows(t); }
static bool is_f32(const struct ggml_tensor * t) { return t->type == GGML_TYPE_F32; }
static bool is_f32_row(const struct ggml_tensor * t) { return is_f32(t) && is_row(t); }
static bool is_float(enum ggml_type type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16; }
static bool is_plain(enum ggml_type type) { return ggml_blck_size(type) == 1; }

/* Weights of a product: any type with a conversion to float; Q8_K is for activations only. */
static bool is_weight(const struct ggml_tensor * t) {
    const struct ggml_type_traits * traits = ggml_get_type_traits(t->type);
    return traits && traits->to_float && t->type != GGML_TYPE_Q8_K && is_row(t);
}

static bool is_mask(const struct ggml_tensor * t) {
    return !t || ((is_f32(t) || t->type == GGML_TYPE_F16) && is_row(t));
}

static bool copy_types(enum ggml_type from, enum ggml_type to) { return (is_float(from) && is_float(to)) || (from == to && is_plain(from)); }

/* Every source of op from number first on is an F32 row tensor, and so is the result. */
static bool all_f32_rows_from(const struct ggml_tensor * op, int first) {
    for (int i = first; i < GGML_MAX_SRC; i++) {
        if (op->src[i] && !is_f32_row(op->src[i])) {
            return false;
        }
    }
    return is_f32_row(op);
}

static bool all_f32_rows(const struct ggml_tensor * op) { return all_f32_rows_from(op, 0); }

bool cpu_supports_op(const struct ggml_tensor * op) {
    const struct ggml_tensor * a = op->src[0];
    const struct ggml_tensor * b = op->src[1];
    switch (op->op) {
        case GGML_OP_NONE:
        case GGML_OP_VIEW:
        case GGML_OP_RESHAPE:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE: return true;
        case GGML_OP_CPY:
        case GGML_OP_CONT: return copy_types(a->type, op->type);
        case GGML_OP_REPEAT:
        case GGML_OP_PAD:
        case GGML_OP_PAD_REFLECT_1D: return is_plain(op->type) && a->type == op->type && is_row(op);
        case GGML_OP_CONCAT: return is_plain(op->type) && a->type == op->type && b->type == op->type && is_row(op);
        case GGML_OP_UNARY: return ggml_get_op_params_i32(op, 0) >= 0 && ggml_get_op_params_i32(op, 0) < GGML_UNARY_OP_COUNT && all_f32_rows(op);
        case GGML_OP_ADD:
        case GGML_OP_SUB:
        case GGML_OP_MUL:
        case GGML_OP_DIV:
        case GGML_OP_GLU:
        case GGML_OP_SCALE:
        case GGML_OP_CLAMP:
        case GGML_OP_SQR:
        case GGML_OP_SQRT:
        case GGML_OP_LOG:
        case GGML_OP_SNAKE:
        case GGML_OP_NORM:
        case GGML_OP_RMS_NORM:
        case GGML_OP_SUM_ROWS:
        case GGML_OP_MEAN:
        case GGML_OP_COL2IM_1D: return all_f32_rows(op);
        case GGML_OP_ARGMAX: return is_f32_row(a) && op->type == GGML_TYPE_I32 && is_row(op);
        case GGML_OP_GET_ROWS:
            return b->type == GGML_TYPE_I32 && is_row(op) && ((is_f32(op) && is_weight(a)) || (a->type == GGML_TYPE_I32 && op->type == a->type && is_row(a)));
        case GGML_OP_SET_ROWS:
            return is_f32_row(a) && b->type == GGML_TYPE_I64 && is_row(op) && (is_float(op->type) || op->type == GGML_TYPE_Q8_0);
        case GGML_OP_MUL_MAT: return is_weight(a) && is_f32_row(b) && is_f32_row(op);
        case GGML_OP_OUT_PROD: return op->ne[2] == 1 && op->ne[3] == 1 && is_float(a->type) && is_row(a) && is_f32_row(b) && is_f32_row(op);
        case GGML_OP_CONV_1D: return is_weight(a) && all_f32_rows_from(op, CONV_SRC_DATA);
        case GGML_OP_CONV_TRANSPOSE_1D: return is_float(a->type) && is_row(a) && all_f32_rows_from(op, CONV_SRC_DATA);
        case GGML_OP_CONV_1D_DW: return is_float(a->type) && is_row(a) && is_f32_row(b) && is_f32_row(op);
        case GGML_OP_ROPE: {
            int mode = ggml_get_op_params_i32(op, 1);
            return (mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX) && ggml_get_op_params_i32(op, 0) <= 512 && is_f32_row(a) &&
                   b->type == GGML_TYPE_I32 && is_f32_row(op);
        }
        case GGML_OP_SOFT_MAX: return is_f32_row(a) && is_mask(b) && is_f32_row(op);
        case GGML_OP_FLASH_ATTN_EXT:
            return is_f32_row(a) && is_float(b->type) && is_row(b) && is_float(op->src[2]->type) && is_row(op->src[2]) && is_mask(op->src[3]) &&
                   is_f32_row(op);
        case GGML_OP_COUNT: break;
    }
    return false;
}
