/* flash_attn.c - attention in one pass: q [hd, T, H] F32, k and v [hd, n_kv, H_kv] (F32, F16, BF16), mask [n_kv, >= T] F32, F16 or none -> [hd, H, T].
 * One (head, time) row at a time walks the keys in blocks of KV_BLOCK with a running maximum and sum. Keys whose mask is -inf are dropped before k or v is
 * read, so what lies behind them, garbage included, has no effect, and neither has the length of a masked tail; a row without any key gives zeros.
 * Rows run head by head, so that the rows of a thread, also those of heads that share k and v, find them in the cache. */
#include "../row.h"
#include "../vec_math.h"

#define KV_BLOCK 64
#define FLASH_INLINE static inline __attribute__((always_inline))

/* Per thread: the weighted sum of v, F32 [hd]. */
static size_t thread_floats(const struct ggml_tensor * dst) { return GGML_PAD((size_t) dst->ne[0], 16); }

size_t KERNEL(cpu_scratch_flash_attn_ext)(const struct ggml_tensor * dst, int nth) { return thread_floats(dst) * (size_t) nth * sizeof(float); }

FLASH_INLINE vf load_as(const char * p, int64_t i, const enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16: return vf_load_f16((const uint16_t *) p + i);
        case GGML_TYPE_BF16: return vf_load_bf16((const uint16_t *) p + i);
        default: return vf_load((const float *) p + i);
    }
}

FLASH_INLINE vf load_as_n(const char * p, int64_t i, const enum ggml_type type, int n) {
    switch (type) {
        case GGML_TYPE_F16: return vf_load_f16_n((const uint16_t *) p + i, n);
        case GGML_TYPE_BF16: return vf_load_bf16_n((const uint16_t *) p + i, n);
        default: return vf_load_n((const float *) p + i, n);
    }
}

/* The keys of a block that take part: their places and what the mask adds to their scores. */
struct block {
    int n;
    int64_t at[KV_BLOCK];
    float bias[KV_BLOCK];
};

static void block_select(struct block * block, const void * mask, enum ggml_type mask_type, int64_t first, int64_t last) {
    block->n = 0;
    for (int64_t j = first; j < last; j++) {
        float bias = 0.0f;
        if (mask) {
            if (mask_type == GGML_TYPE_F32) {
                bias = ((const float *) mask)[j];
            } else {
                uint16_t h = ((const uint16_t *) mask)[j];
                bias = h == 0 ? 0.0f : h == 0xfc00 ? -INFINITY : ggml_fp16_to_fp32(h);
            }
            if (bias == -INFINITY) {
                continue;
            }
        }
        block->at[block->n] = j;
        block->bias[block->n++] = bias;
    }
}

/* Scores of the block's keys; four keys at once share the loads of q and overlap their chains. */
FLASH_INLINE void scores_typed(const struct block * block, const float * q, const char * k, size_t stride, int64_t hd, float * score,
                               const enum ggml_type type) {
    for (int j = 0; j < block->n; j += 4) {
        const char * kj[4];
        for (int u = 0; u < 4; u++) {
            int clamped = j + u < block->n ? j + u : block->n - 1;
            kj[u] = k + (size_t) block->at[clamped] * stride;
        }
        vf s0 = vf_zero(), s1 = vf_zero(), s2 = vf_zero(), s3 = vf_zero();
        int64_t i = 0;
        for (; i + VF_N <= hd; i += VF_N) {
            vf qv = vf_load(q + i);
            s0 = vf_fma(qv, load_as(kj[0], i, type), s0);
            s1 = vf_fma(qv, load_as(kj[1], i, type), s1);
            s2 = vf_fma(qv, load_as(kj[2], i, type), s2);
            s3 = vf_fma(qv, load_as(kj[3], i, type), s3);
        }
        if (i < hd) {
            int n = (int) (hd - i);
            vf qv = vf_load_n(q + i, n);
            s0 = vf_fma(qv, load_as_n(kj[0], i, type, n), s0);
            s1 = vf_fma(qv, load_as_n(kj[1], i, type, n), s1);
            s2 = vf_fma(qv, load_as_n(kj[2], i, type, n), s2);
            s3 = vf_fma(qv, load_as_n(kj[3], i, type, n), s3);
        }
        score[j] = vf_sum(s0);
        score[j + 1] = vf_sum(s1); /* places past block->n are written and not read: score has KV_BLOCK, a multiple of 4 */
        score[j + 2] = vf_sum(s2);
        score[j + 3] = vf_sum(s3);
    }
}

static void scores(const struct block * block, const float * q, const char * k, size_t stride, int64_t hd, float * score, enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16: scores_typed(block, q, k, stride, hd, score, GGML_TYPE_F16); break;
        case GGML_TYPE_BF16: scores_typed(block, q, k, stride, hd, score, GGML_TYPE_BF16); break;
        default: scores_typed(block, q, k, stride, hd, score, GGML_TYPE_F32); break;
    }
}

/* acc = acc * keep + sum over the block of weight * v; acc stays in registers, four vectors at a time. */
FLASH_INLINE void gather_typed(const struct block * block, const float * weight, const char * v, size_t stride, int64_t hd, float keep, float * acc,
                               const enum ggml_type type) {
    const vf kept = vf_set1(keep);
    int64_t i = 0;
    for (; i + 4 * VF_N <= hd; i += 4 * VF_N) {
        vf a0 = vf_mul(vf_load(acc + i), kept), a1 = vf_mul(vf_load(acc + i + VF_N), kept);
        vf a2 = vf_mul(vf_load(acc + i + 2 * VF_N), kept), a3 = vf_mul(vf_load(acc + i + 3 * VF_N), kept);
        for (int j = 0; j < block->n; j++) {
            const char * vj = v + (size_t) block->at[j] * stride;
            vf w = vf_set1(weight[j]);
            a0 = vf_fma(w, load_as(vj, i, type), a0);
            a1 = vf_fma(w, load_as(vj, i + VF_N, type), a1);
            a2 = vf_fma(w, load_as(vj, i + 2 * VF_N, type), a2);
            a3 = vf_fma(w, load_as(vj, i + 3 * VF_N, type), a3);
        }
        vf_store(acc + i, a0);
        vf_store(acc + i + VF_N, a1);
        vf_store(acc + i + 2 * VF_N, a2);
        vf_store(acc + i + 3 * VF_N, a3);
    }
    for (; i < hd; i += VF_N) {
        int n = hd - i < VF_N ? (int) (hd - i) : VF_N;
        vf a = vf_mul(vf_load_n(acc + i, n), kept);
        for (int j = 0; j < block->n; j++) {
            const char * vj = v + (size_t) block->at[j] * stride;
            a = vf_fma(vf_set1(weight[j]), n == VF_N ? load_as(vj, i, type) : load_as_n(vj, i, type, n), a);
        }
        vf_store_n(acc + i, a, n);
    }
}

static void gather(const struct block * block, const float * weight, const char * v, size_t stride, int64_t hd, float keep, float * acc,
                   enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16: gather_typed(block, weight, v, stride, hd, keep, acc, GGML_TYPE_F16); break;
        case GGML_TYPE_BF16: gather_typed(block, weight, v, stride, hd, keep, acc, GGML_TYPE_BF16); break;
        default: gather_typed(block, weight, v, stride, hd, keep, acc, GGML_TYPE_F32); break;
    }
}

/* score = e^(score - most), in place; returns the sum. Places from n to the end of the last vector count as nothing. */
static float exponentials(float * score, int n, float most) {
    for (int i = n; i % VF_N != 0; i++) {
        score[i] = -INFINITY;
    }
    vf sum = vf_zero();
    for (int i = 0; i < n; i += VF_N) {
        vf e = vf_exp(vf_sub(vf_load(score + i), vf_set1(most)));
        vf_store(score + i, e);
        sum = vf_add(sum, e);
    }
    return vf_sum(sum);
}

void KERNEL(cpu_op_flash_attn_ext)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * q = dst->src[0];
    const struct ggml_tensor * k = dst->src[1];
    const struct ggml_tensor * v = dst->src[2];
    const struct ggml_tensor * mask = dst->src[3];
    const float scale = ggml_get_op_params_f32(dst, 0);
    const int64_t n_kv = k->ne[1], hd = dst->ne[0];
    const int64_t group = q->ne[2] / k->ne[2], batch_group = q->ne[3] / k->ne[3];
    float * acc = (float *) task->scratch + thread_floats(dst) * (size_t) task->ith;
    struct block block;
    float score[KV_BLOCK];
    int64_t first, last;
    cpu_range(task, ggml_nrows(q), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(q, r); /* time, head, batch */
        struct row kv = { .i1 = 0, .i2 = at.i2 / group, .i3 = at.i3 / batch_group };
        const char * k_head = row_data(k, kv);
        const char * v_head = row_data(v, kv);
        const void * m = mask ? row_data_tiled(mask, at) : NULL;
        float most = -INFINITY, sum = 0.0f;
        memset(acc, 0, (size_t) hd * sizeof(float));
        for (int64_t j = 0; j < n_kv; j += KV_BLOCK) {
            block_select(&block, m, mask ? mask->type : GGML_TYPE_F32, j, j + KV_BLOCK < n_kv ? j + KV_BLOCK : n_kv);
            if (block.n == 0) {
                continue;
            }
            scores(&block, (const float *) row_data(q, at), k_head, k->nb[1], q->ne[0], score, k->type);
            float was = most;
            for (int u = 0; u < block.n; u++) {
                score[u] = score[u] * scale + block.bias[u];
                most = score[u] > most ? score[u] : most;
            }
            float keep = was == -INFINITY ? 0.0f : was == most ? 1.0f : expf(was - most);
            sum = sum * keep + exponentials(score, block.n, most);
            gather(&block, score, v_head, v->nb[1], hd, keep, acc, v->type);
        }
        float * out = (float *) row_data(dst, (struct row) { .i1 = at.i2, .i2 = at.i1, .i3 = at.i3 });
        const float factor = sum > 0.0f || isnan(sum) ? 1.0f / sum : 0.0f;
        for (int64_t i = 0; i < hd; i++) {
            out[i] = acc[i] * factor;
        }
    }
}
