/* alloc_overlap.c - property test of the graph allocator: no tensor's bytes change between its writing and its last reading.
 * random graph -> ggml_gallocr_alloc_graph -> a run in which every word of memory holds the number of its writer instead of a value.
 * Each owner of memory keeps the numbers it should hold; before a node reads, and at the end for leafs, outputs and unread results, they are
 * compared with what is there. Nothing of the allocator's own idea of lifetimes is used. A node may share bytes with a source only where
 * writing in place is legal. usage: alloc_overlap [SEED [GRAPHS]]; the exit code is the number of failures (at most 100). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-cpu.h"

#define MAX_TENSORS 512
#define WORD_BYTES 4

struct region { /* one buffer and the number of the last writer of each of its words */
    char * base;
    size_t n_words;
    uint32_t * writer;
};

struct fixture {
    uint32_t seed;
    uint64_t state;
    struct ggml_context * ctx;
    struct ggml_context * cache_ctx;
    ggml_backend_buffer_t cache_buffer;
    struct ggml_tensor * cache; /* memory the allocator must leave alone */
    struct ggml_cgraph * graph;
    struct ggml_tensor * made[MAX_TENSORS];
    int n_made;
    struct region regions[2];
    uint32_t next_writer;
    int n_failures, n_in_place;
};

static uint32_t draw(struct fixture * f, uint32_t n) {
    f->state = f->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (f->state >> 33) % n;
}

static void failed(struct fixture * f, const char * what, const struct ggml_tensor * node, int index) {
    f->n_failures++;
    printf("FAIL seed %u node %d %s: %s\n", f->seed, index, node ? ggml_op_name(node->op) : "-", what);
}

static struct ggml_tensor * keep(struct fixture * f, struct ggml_tensor * t) {
    if (t && f->n_made < MAX_TENSORS) {
        f->made[f->n_made++] = t;
    }
    return t;
}

static struct ggml_tensor * leaf(struct fixture * f, int64_t ne0, int64_t ne1) {
    struct ggml_tensor * t = keep(f, ggml_new_tensor_2d(f->ctx, GGML_TYPE_F32, ne0, ne1));
    if (draw(f, 2)) {
        ggml_set_input(t);
    }
    return t;
}

static struct ggml_tensor * any(struct fixture * f) { return f->made[draw(f, (uint32_t) f->n_made)]; }

/* An earlier tensor of this shape, or a new leaf. */
static struct ggml_tensor * like(struct fixture * f, const struct ggml_tensor * shape) {
    for (int tries = 0; tries < 12; tries++) {
        struct ggml_tensor * t = any(f);
        if (ggml_are_same_shape(t, shape)) {
            return t;
        }
    }
    return leaf(f, shape->ne[0], shape->ne[1]);
}

static struct ggml_tensor * some_rows(struct fixture * f, struct ggml_tensor * a) {
    int64_t first = draw(f, (uint32_t) a->ne[1]);
    int64_t n = 1 + draw(f, (uint32_t) (a->ne[1] - first));
    return ggml_view_2d(f->ctx, a, a->ne[0], n, a->nb[1], (size_t) first * a->nb[1]);
}

static struct ggml_tensor * index_leaf(struct fixture * f, enum ggml_type type, int64_t n) { return ggml_new_tensor_1d(f->ctx, type, n); }

static void add_op(struct fixture * f) {
    struct ggml_context * ctx = f->ctx;
    struct ggml_tensor * a = any(f);
    struct ggml_tensor * packed = ggml_is_contiguous(a) ? a : keep(f, ggml_cont(ctx, a));
    struct ggml_tensor * t = NULL;
    switch (draw(f, 22)) {
    case 0: t = ggml_add(ctx, a, like(f, a)); break;
    case 1: t = ggml_mul(ctx, a, a); break;
    case 2: t = ggml_add(ctx, a, leaf(f, a->ne[0], 1)); break;
    case 3: t = ggml_sub(ctx, a, like(f, a)); break;
    case 4: t = ggml_swiglu_split(ctx, a, like(f, a)); break;
    case 5: t = ggml_scale(ctx, a, 0.5f); break;
    case 6: t = ggml_silu(ctx, a); break;
    case 7: t = ggml_rms_norm(ctx, a, 1e-6f); break;
    case 8: {
        struct ggml_tensor * mask = like(f, a);
        t = ggml_soft_max_ext(ctx, a, ggml_is_contiguous_rows(mask) ? mask : NULL, 1.0f, 0.0f);
        break;
    }
    case 9: t = ggml_clamp(ctx, a, -1.0f, 1.0f); break;
    case 10: t = ggml_reshape_1d(ctx, packed, ggml_nelements(packed)); break;
    case 11: t = ggml_reshape_2d(ctx, packed, packed->ne[0] * packed->ne[1], 1); break;
    case 12: t = some_rows(f, a); break;
    case 13: t = ggml_transpose(ctx, a); break;
    case 14: t = ggml_cont(ctx, a); break;
    case 15: t = a->ne[1] < 40 ? ggml_concat(ctx, a, like(f, a), 1) : ggml_cont(ctx, a); break;
    case 16: t = ggml_mul_mat(ctx, packed, leaf(f, a->ne[0], 1 + draw(f, 7))); break;
    case 17: t = ggml_get_rows(ctx, packed, index_leaf(f, GGML_TYPE_I32, 1 + draw(f, 9))); break;
    case 18: /* part of a tensor is written anew, and the whole is read later */
        if (ggml_is_contiguous(a)) {
            struct ggml_tensor * part = some_rows(f, a);
            t = ggml_cpy(ctx, like(f, part), part);
        }
        break;
    case 19: {
        struct ggml_tensor * rows = leaf(f, f->cache->ne[0], 1 + draw(f, 3));
        t = ggml_set_rows(ctx, f->cache, rows, index_leaf(f, GGML_TYPE_I64, rows->ne[1]));
        break;
    }
    case 20: t = some_rows(f, f->cache); break;
    default: {
        int64_t T = packed->ne[1];
        t = packed->ne[0] % 2 == 0 ? ggml_rope_ext(ctx, ggml_reshape_3d(ctx, packed, packed->ne[0], 1, T), index_leaf(f, GGML_TYPE_I32, T), NULL,
                                                    (int) packed->ne[0], GGML_ROPE_TYPE_NEOX, 0, 10000.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f)
                                   : NULL;
        t = t ? ggml_reshape_2d(ctx, t, packed->ne[0], T) : NULL;
        break;
    }
    }
    keep(f, t);
    if (t && draw(f, 12) == 0) {
        ggml_set_output(t);
    }
}

static void build(struct fixture * f, uint32_t seed, int n_ops) {
    f->seed = seed;
    f->state = seed * 0x9e3779b97f4a7c15u + 1;
    struct ggml_init_params params = { .mem_size = 4096 * ggml_tensor_overhead() + ggml_graph_overhead_custom(2048, false), .no_alloc = true };
    f->ctx = ggml_init(params);
    f->cache_ctx = ggml_init((struct ggml_init_params) { .mem_size = ggml_tensor_overhead(), .no_alloc = true });
    f->cache = ggml_new_tensor_2d(f->cache_ctx, GGML_TYPE_F32, 8, 16);
    f->cache_buffer = ggml_backend_alloc_ctx_tensors_from_buft(f->cache_ctx, ggml_backend_cpu_buffer_type());
    leaf(f, 8, 6);
    leaf(f, 20, 3);
    leaf(f, 7, 33);
    for (int i = 0; i < n_ops && f->n_made < MAX_TENSORS - 4; i++) {
        add_op(f);
    }
    f->graph = ggml_new_graph_custom(f->ctx, 2048, false);
    for (int i = f->n_made - 1; i >= 0; i--) {
        if (i == f->n_made - 1 || (f->made[i]->flags & GGML_TENSOR_FLAG_OUTPUT) || draw(f, 8) == 0) {
            ggml_build_forward_expand(f->graph, f->made[i]);
        }
    }
}

static struct ggml_tensor * memory_of(struct ggml_tensor * t) { return t->view_src ? t->view_src : t; }

static uint32_t * word_of(struct fixture * f, const struct ggml_tensor * t) {
    for (int i = 0; i < 2; i++) {
        struct region * r = &f->regions[i];
        if ((char *) t->data >= r->base && (char *) t->data + ggml_nbytes(t) <= r->base + r->n_words * WORD_BYTES) {
            return r->writer + ((char *) t->data - r->base) / WORD_BYTES;
        }
    }
    return NULL;
}

/* The numbers t's words should hold: kept with the owner of the memory. */
static uint32_t * expected_of(const struct ggml_tensor * t) {
    struct ggml_tensor * owner = memory_of((struct ggml_tensor *) t);
    if (!owner->extra) {
        owner->extra = calloc(ggml_nbytes(owner) / WORD_BYTES + 1, sizeof(uint32_t));
    }
    return (uint32_t *) owner->extra + t->view_offs / WORD_BYTES;
}

static void write_all(struct fixture * f, struct ggml_tensor * t) {
    uint32_t * there = word_of(f, t);
    uint32_t * wanted = expected_of(t);
    for (size_t i = 0; there && i < ggml_nbytes(t) / WORD_BYTES; i++) {
        there[i] = wanted[i] = f->next_writer;
    }
    f->next_writer++;
}

static bool intact(struct fixture * f, const struct ggml_tensor * t) {
    const uint32_t * there = word_of(f, t);
    return there && memcmp(there, expected_of(t), ggml_nbytes(t) / WORD_BYTES * WORD_BYTES) == 0;
}

static bool share_bytes(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    return (char *) a->data < (char *) b->data + ggml_nbytes(b) && (char *) b->data < (char *) a->data + ggml_nbytes(a);
}

static bool in_place_is_legal(const struct ggml_tensor * node, int s) {
    const struct ggml_tensor * src = node->src[s];
    bool binary = node->op == GGML_OP_ADD || node->op == GGML_OP_SUB || node->op == GGML_OP_MUL || node->op == GGML_OP_DIV || node->op == GGML_OP_GLU;
    bool by_row = node->op == GGML_OP_SCALE || node->op == GGML_OP_CLAMP || node->op == GGML_OP_UNARY || node->op == GGML_OP_SQR ||
                  node->op == GGML_OP_SQRT || node->op == GGML_OP_LOG || node->op == GGML_OP_SNAKE ||
                  node->op == GGML_OP_NORM || node->op == GGML_OP_RMS_NORM || node->op == GGML_OP_ROPE || node->op == GGML_OP_SOFT_MAX;
    return (binary || (by_row && s == 0)) && src == node->src[0] && src->data == node->data && src->type == node->type &&
           ggml_are_same_shape(src, node) && ggml_is_contiguous(src);
}

static bool writes(const struct ggml_tensor * node) {
    return node->op != GGML_OP_VIEW && node->op != GGML_OP_RESHAPE && node->op != GGML_OP_PERMUTE && node->op != GGML_OP_TRANSPOSE;
}

static bool is_read(struct fixture * f, const struct ggml_tensor * t, int node) {
    for (int i = node + 1; i < ggml_graph_n_nodes(f->graph); i++) {
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            if (ggml_graph_node(f->graph, i)->src[s] == t) {
                return true;
            }
        }
    }
    return false;
}

static void run(struct fixture * f) {
    int n_nodes = ggml_graph_n_nodes(f->graph);
    for (int i = 0; i < n_nodes; i++) {
        struct ggml_tensor * node = ggml_graph_node(f->graph, i);
        if (!node->data || (!node->view_src && (uintptr_t) node->data % GGML_MEM_ALIGN != 0) || !word_of(f, node)) {
            failed(f, "has no memory, lies outside the buffers or is not aligned", node, i);
            return;
        }
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            struct ggml_tensor * src = node->src[s];
            if (!src || !writes(node)) {
                continue;
            }
            if (!intact(f, src)) {
                failed(f, "a source was overwritten before it was read", node, i);
                return;
            }
            if (!node->view_src && share_bytes(node, src)) {
                f->n_in_place++;
                if (!in_place_is_legal(node, s)) {
                    failed(f, "shares bytes with a source that it may not overwrite", node, i);
                    return;
                }
            }
        }
        if (writes(node)) {
            write_all(f, node);
        }
    }
    for (int i = 0; i < f->n_made; i++) {
        struct ggml_tensor * t = f->made[i];
        if (t->data && t->op == GGML_OP_NONE && !intact(f, t)) {
            failed(f, "a leaf did not last to the next run", t, i);
        }
    }
    for (int i = 0; i < n_nodes; i++) {
        struct ggml_tensor * node = ggml_graph_node(f->graph, i);
        if (((node->flags & GGML_TENSOR_FLAG_OUTPUT) || !is_read(f, node, i)) && !intact(f, node)) {
            failed(f, "an output or a result nobody reads did not last", node, i);
        }
    }
}

static void set_region(struct region * r, ggml_backend_buffer_t buffer) {
    free(r->writer);
    r->base = ggml_backend_buffer_get_base(buffer);
    r->n_words = ggml_backend_buffer_get_size(buffer) / WORD_BYTES;
    r->writer = calloc(r->n_words + 1, sizeof(uint32_t));
}

static void set_leafs(struct fixture * f) {
    for (int i = 0; i < ggml_graph_n_nodes(f->graph); i++) {
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            struct ggml_tensor * src = ggml_graph_node(f->graph, i)->src[s];
            if (src && src->op == GGML_OP_NONE) {
                write_all(f, src);
            }
        }
    }
}

static ggml_backend_buffer_t buffer_of(struct fixture * f) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(f->ctx); t; t = ggml_get_next_tensor(f->ctx, t)) {
        if (t->buffer && t->buffer != f->cache_buffer) {
            return t->buffer;
        }
    }
    return f->cache_buffer;
}

/* Allocate, fill the leafs, run twice: the second run finds the leafs as the first one left them. */
static void check(struct fixture * f, ggml_gallocr_t galloc) {
    if (!ggml_gallocr_alloc_graph(galloc, f->graph)) {
        failed(f, "allocation failed", NULL, -1);
        return;
    }
    set_region(&f->regions[0], buffer_of(f));
    set_region(&f->regions[1], f->cache_buffer);
    set_leafs(f);
    void * before = ggml_graph_node(f->graph, -1)->data;
    run(f);
    if (!ggml_gallocr_alloc_graph(galloc, f->graph) || ggml_graph_node(f->graph, -1)->data != before) {
        failed(f, "a second allocation of the same graph moved it", NULL, -1);
    }
    run(f);
}

static void release(struct fixture * f) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(f->ctx); t; t = ggml_get_next_tensor(f->ctx, t)) {
        free(t->extra);
    }
    free(f->cache->extra);
    free(f->regions[0].writer);
    free(f->regions[1].writer);
    ggml_backend_buffer_free(f->cache_buffer);
    ggml_free(f->cache_ctx);
    ggml_free(f->ctx);
}

/* A chain of elementwise ops needs its leaf and one more tensor, however long it is. */
static int check_chain_size(void) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = 200 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true });
    struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    for (int i = 0; i < 100; i++) {
        t = ggml_silu(ctx, t);
    }
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, t);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    size_t bytes = ggml_gallocr_reserve(galloc, graph) ? ggml_gallocr_get_buffer_size(galloc, 0) : 0;
    if (bytes != 2 * 4096 * sizeof(float)) {
        printf("FAIL chain of 100 ops on 16384 bytes takes %zu bytes, expected 32768\n", bytes);
    }
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
    return bytes != 2 * 4096 * sizeof(float);
}

int main(int argc, char ** argv) {
    uint32_t seed = argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : 1;
    uint32_t n_graphs = argc > 2 ? (uint32_t) strtoul(argv[2], NULL, 10) : 300;
    int n_failures = check_chain_size();
    int n_in_place = 0, n_nodes = 0;
    for (uint32_t i = 0; i < n_graphs; i++) { /* two graphs take turns on one allocator, so that its buffer grows under the first */
        static struct fixture small, large;
        memset(&small, 0, sizeof small);
        memset(&large, 0, sizeof large);
        build(&small, seed + 2 * i, 10);
        build(&large, seed + 2 * i + 1, 20 + (int) (i % 180));
        ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        check(&small, galloc);
        check(&large, galloc);
        check(&small, galloc);
        ggml_gallocr_free(galloc);
        n_failures += small.n_failures + large.n_failures;
        n_in_place += small.n_in_place + large.n_in_place;
        n_nodes += ggml_graph_n_nodes(small.graph) + ggml_graph_n_nodes(large.graph);
        release(&small);
        release(&large);
    }
    if (n_in_place == 0) {
        printf("FAIL nothing was ever computed in place\n");
        n_failures++;
    }
    printf("alloc_overlap: seed %u, %u pairs of graphs, %d nodes, %d in place, %d failures\n", seed, n_graphs, n_nodes, n_in_place, n_failures);
    return n_failures < 100 ? n_failures : 100;
}
