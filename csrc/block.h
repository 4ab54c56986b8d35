/* block.h - one decoder block, as the talker, the code predictor and the codec's transformer have it. */
#ifndef QT_BLOCK_H
#define QT_BLOCK_H

#include "arena.h"
#include "kv_cache.h"
#include "sizes.h"
#include "weights.h"

#define BLOCK_MAX_TENSORS 64 /* of a graph, views and taps included, that one block adds */

struct block_weights {
    struct ggml_tensor * attn_norm;   /* [D] */
    struct weights_joined attn_qkv;   /* [D, H*hd], [D, H_kv*hd], [D, H_kv*hd] */
    struct ggml_tensor * attn_q_norm; /* [hd], NULL: none */
    struct ggml_tensor * attn_k_norm; /* [hd], NULL: none */
    struct ggml_tensor * attn_output; /* [H*hd, D] */
    struct ggml_tensor * attn_scale;  /* [D], NULL: none */
    struct ggml_tensor * ffn_norm;    /* [D] */
    struct weights_joined ffn_gate_up; /* [D, F] twice */
    struct ggml_tensor * ffn_down;    /* [F, D] */
    struct ggml_tensor * ffn_scale;   /* [D], NULL: none */
};

enum block_kind { BLOCK_QK_NORM, BLOCK_LAYER_SCALE };

/* A stack of blocks and the norm after the last. */
struct stack {
    struct stack_sizes sizes;
    struct block_weights * blocks; /* [n_layers] */
    struct ggml_tensor * norm;     /* [D] */
};

/* What the blocks of one graph share. */
struct block_run {
    struct arena * arena;
    const struct runner * runner;
    const struct stack * stack;
    struct ggml_tensor * positions; /* I32 [T] */
    struct ggml_tensor * mask;      /* F32 [n_kv, T]: 0 or -inf; NULL: every position is visible */
    const struct kv_cache * cache;  /* NULL: keys and values are this graph's own T */
    struct ggml_tensor * cache_rows; /* I64 [H_kv*T], see kv_cache_rows */
    int64_t n_kv;
};

/* Blocks are named prefix.blk.N.*, the norm norm_name. */
enum qt_status stack_load(struct stack * stack, struct weights * weights, const struct stack_sizes * sizes, enum block_kind kind, const char * prefix,
                          const char * norm_name);
void stack_free(struct stack * stack);

/* x [D, T] -> [D, T] through all blocks, without the final norm; each block's result is tapped as tap_prefix.blk.N unless that is NULL. */
struct ggml_tensor * stack_build(const struct block_run * run, struct ggml_tensor * x, const char * tap_prefix);
/* RMSNorm with weight. */
struct ggml_tensor * rms_norm_build(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * weight, float eps);
/* weight * x + bias; bias NULL: none. */
struct ggml_tensor * linear_build(struct ggml_context * ctx, struct ggml_tensor * weight, struct ggml_tensor * bias, struct ggml_tensor * x);

#endif
