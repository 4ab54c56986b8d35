/* alloc.c - memory of a graph by liveness, and memory of a whole context.
 * graph -> owners (tensors that have their own memory) with the index of the last node that touches them -> offsets in one buffer
 * -> data pointers. Upstream counterpart: ggml-alloc. A view lives in its owner; leafs, outputs and results nobody reads keep their memory
 * to the end, so that a graph can run again with other input without a second plan. */
#include "../include/ggml-alloc.h"

#include <stdlib.h>
#include <string.h>

#include "free_list.h"
#include "tensor.h"

#define FOREVER INT32_MAX

/* What the plan knows of a tensor that owns memory, and of a view whether it is read (of its own entry only n_readers is used). */
struct owner {
    struct ggml_tensor * tensor; /* NULL: free slot of the table */
    int last_use;                /* node index, or FOREVER */
    int n_readers;
    bool planned; /* offset is valid */
    bool live;    /* its bytes are taken now */
    size_t offset, size;
};

struct ggml_gallocr {
    ggml_backend_buffer_type_t buft;
    ggml_backend_buffer_t buffer; /* the same struct for life, also when its memory grows: tensors with this buffer are ours */
    size_t align;
    struct owner * owners; /* hash table of n_slots, a power of two */
    size_t n_slots;
    struct free_list free;
    const struct ggml_cgraph * done_graph; /* of the last full allocation */
    int done_nodes, done_leafs;
};

ggml_gallocr_t ggml_gallocr_new(ggml_backend_buffer_type_t buft) {
    ggml_gallocr_t galloc = calloc(1, sizeof *galloc);
    if (galloc) {
        size_t align = ggml_backend_buft_get_alignment(buft);
        galloc->buft = buft;
        galloc->align = align > GGML_MEM_ALIGN ? align : GGML_MEM_ALIGN;
    }
    return galloc;
}

void ggml_gallocr_free(ggml_gallocr_t galloc) {
    if (galloc) {
        ggml_backend_buffer_free(galloc->buffer);
        free_list_release(&galloc->free);
        free(galloc->owners);
        free(galloc);
    }
}

size_t ggml_gallocr_get_buffer_size(ggml_gallocr_t galloc, int buffer_id) {
    GGML_ASSERT(buffer_id == 0);
    return galloc->buffer ? galloc->buffer->size : 0;
}

/* The entry of t, made when missing. The table has room for every tensor of the graph and every owner of one. */
static struct owner * entry_of(ggml_gallocr_t galloc, struct ggml_tensor * t) {
    size_t mask = galloc->n_slots - 1;
    size_t i = (size_t) ((uintptr_t) t / GGML_MEM_ALIGN * 0x9e3779b97f4a7c15u >> 20) & mask;
    while (galloc->owners[i].tensor && galloc->owners[i].tensor != t) {
        i = (i + 1) & mask;
    }
    if (!galloc->owners[i].tensor) {
        galloc->owners[i].tensor = t;
        galloc->owners[i].last_use = -1;
    }
    return &galloc->owners[i];
}

static bool reset_table(ggml_gallocr_t galloc, const struct ggml_cgraph * graph) {
    size_t n_slots = 16;
    while (n_slots < 4 * (size_t) (graph->n_nodes + graph->n_leafs)) { /* each tensor and its owner, half full at most */
        n_slots *= 2;
    }
    if (n_slots > galloc->n_slots) {
        struct owner * owners = malloc(n_slots * sizeof owners[0]);
        if (!owners) {
            return false;
        }
        free(galloc->owners);
        galloc->owners = owners;
        galloc->n_slots = n_slots;
    }
    memset(galloc->owners, 0, galloc->n_slots * sizeof galloc->owners[0]);
    free_list_reset(&galloc->free);
    return true;
}

/* Memory that was there before this allocator: a buffer of its own, or data of a context. */
static bool is_external(const struct ggml_gallocr * galloc, const struct ggml_tensor * owner) {
    return owner->data && !(galloc->buffer && owner->buffer == galloc->buffer);
}

static void use_until(ggml_gallocr_t galloc, struct ggml_tensor * t, int node) {
    struct owner * o = entry_of(galloc, tensor_owner(t));
    o->last_use = node > o->last_use ? node : o->last_use;
}

static void find_last_uses(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    for (int i = 0; i < graph->n_leafs; i++) {
        use_until(galloc, graph->leafs[i], FOREVER);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        struct ggml_tensor * node = graph->nodes[i];
        bool kept = node->flags & (GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT);
        use_until(galloc, node, kept ? FOREVER : i);
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            if (node->src[s]) {
                use_until(galloc, node->src[s], i);
                entry_of(galloc, node->src[s])->n_readers++;
            }
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        if (entry_of(galloc, graph->nodes[i])->n_readers == 0) {
            use_until(galloc, graph->nodes[i], FOREVER); /* a result: the caller reads it */
        }
    }
}

static void take(ggml_gallocr_t galloc, struct owner * o) {
    size_t bytes = ggml_backend_buft_get_alloc_size(galloc->buft, o->tensor);
    o->size = GGML_PAD(bytes, galloc->align);
    o->offset = free_list_take(&galloc->free, o->size);
    o->planned = true;
    o->live = true;
}

static bool is_binary(enum ggml_op op) {
    return op == GGML_OP_ADD || op == GGML_OP_SUB || op == GGML_OP_MUL || op == GGML_OP_DIV || op == GGML_OP_GLU;
}

/* Ops whose kernels may write over src0: each output element depends on src0 at its own place, or on src0's row, which is read first. */
static bool may_overwrite(enum ggml_op op) {
    switch (op) {
    case GGML_OP_SCALE:
    case GGML_OP_CLAMP:
    case GGML_OP_UNARY:
    case GGML_OP_SQR:
    case GGML_OP_SQRT:
    case GGML_OP_LOG:
    case GGML_OP_SNAKE:
    case GGML_OP_NORM:
    case GGML_OP_RMS_NORM:
    case GGML_OP_ROPE:
    case GGML_OP_SOFT_MAX:
        return true;
    default:
        return is_binary(op);
    }
}

/* The owner whose memory node i takes over, or NULL. It must die here, and src0 must be all of it in the layout of the node. */
static struct owner * owner_to_overwrite(ggml_gallocr_t galloc, struct ggml_tensor * node, int i) {
    struct ggml_tensor * a = node->src[0];
    if (!may_overwrite(node->op)) {
        return NULL;
    }
    struct ggml_tensor * memory = tensor_owner(a);
    struct owner * o = entry_of(galloc, memory);
    if (!o->live || o->last_use != i) {
        return NULL;
    }
    if (a->type != node->type || !ggml_are_same_shape(a, node) || !tensor_same_strides(a, node) || ggml_nbytes(a) != ggml_nbytes(memory)) {
        return NULL;
    }
    if (ggml_backend_buft_get_alloc_size(galloc->buft, node) > o->size) {
        return NULL;
    }
    for (int s = 1; s < GGML_MAX_SRC; s++) { /* x + x reads and writes one place; any other second look at the memory could see new values */
        struct ggml_tensor * b = node->src[s];
        if (b && tensor_owner(b) == memory && !(b == a && is_binary(node->op))) {
            return NULL;
        }
    }
    return o;
}

static bool give_if_dead(ggml_gallocr_t galloc, struct ggml_tensor * t, int i) {
    struct owner * o = entry_of(galloc, tensor_owner(t));
    if (!o->live || o->last_use != i) {
        return true;
    }
    o->live = false;
    return free_list_give(&galloc->free, o->offset, o->size);
}

/* Offsets for all owners of the graph that have no memory of their own. */
static bool plan(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    galloc->done_graph = NULL;
    if (!reset_table(galloc, graph)) {
        return false;
    }
    find_last_uses(galloc, graph);
    for (int i = 0; i < graph->n_leafs; i++) { /* the caller fills them before the first node runs */
        struct owner * o = entry_of(galloc, tensor_owner(graph->leafs[i]));
        if (!o->planned && !is_external(galloc, o->tensor)) {
            take(galloc, o);
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) { /* inputs that are results of an op: written from outside too */
        struct owner * o = entry_of(galloc, tensor_owner(graph->nodes[i]));
        if ((graph->nodes[i]->flags & GGML_TENSOR_FLAG_INPUT) && !o->planned && !is_external(galloc, o->tensor)) {
            take(galloc, o);
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        struct ggml_tensor * node = graph->nodes[i];
        struct owner * o = entry_of(galloc, tensor_owner(node));
        if (!o->planned && !is_external(galloc, o->tensor)) {
            struct owner * dying = o->tensor == node ? owner_to_overwrite(galloc, node, i) : NULL;
            if (dying) {
                o->offset = dying->offset;
                o->size = dying->size;
                o->planned = o->live = true;
                dying->live = false;
            } else {
                take(galloc, o);
            }
        }
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            if (node->src[s] && !give_if_dead(galloc, node->src[s], i)) {
                return false;
            }
        }
        if (!give_if_dead(galloc, node, i)) {
            return false;
        }
    }
    return true;
}

/* Room for the plan. Growing swaps the memory inside the buffer struct, so that tensors of earlier graphs are still known as ours. */
static bool make_room(ggml_gallocr_t galloc) {
    size_t bytes = galloc->free.peak > 0 ? galloc->free.peak : galloc->align; /* empty tensors need an address, too */
    if (galloc->buffer && galloc->buffer->size >= bytes) {
        return true;
    }
    ggml_backend_buffer_t grown = ggml_backend_buft_alloc_buffer(galloc->buft, bytes);
    if (!grown) {
        ggml_log_internal(GGML_LOG_LEVEL_ERROR, "graph buffer: %zu bytes of %s memory cannot be had", bytes, ggml_backend_buft_name(galloc->buft));
        return false;
    }
    ggml_backend_buffer_set_usage(grown, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    if (galloc->buffer) {
        struct ggml_backend_buffer old = *galloc->buffer;
        *galloc->buffer = *grown;
        *grown = old;
        ggml_backend_buffer_free(grown);
    } else {
        galloc->buffer = grown;
    }
    return true;
}

bool ggml_gallocr_reserve(ggml_gallocr_t galloc, struct ggml_cgraph * graph) { return plan(galloc, graph) && make_room(galloc); }

static void place(ggml_gallocr_t galloc, struct ggml_tensor * t) {
    struct ggml_tensor * memory = tensor_owner(t);
    struct owner * o = entry_of(galloc, memory);
    if (o->planned) {
        ggml_backend_tensor_alloc(galloc->buffer, memory, (char *) ggml_backend_buffer_get_base(galloc->buffer) + o->offset);
    }
    if (t != memory) {
        ggml_backend_view_init(t);
    }
}

/* The last full allocation was of this graph and nothing was rebuilt or added since. */
static bool is_done(const struct ggml_gallocr * galloc, const struct ggml_cgraph * graph) {
    if (galloc->done_graph != graph || galloc->done_nodes != graph->n_nodes || galloc->done_leafs != graph->n_leafs) {
        return false;
    }
    for (int i = 0; i < graph->n_leafs; i++) {
        if (!graph->leafs[i]->data) {
            return false;
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        if (!graph->nodes[i]->data) {
            return false;
        }
    }
    return true;
}

bool ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    if (is_done(galloc, graph)) {
        return true;
    }
    if (!ggml_gallocr_reserve(galloc, graph)) {
        return false;
    }
    for (int i = 0; i < graph->n_leafs; i++) {
        place(galloc, graph->leafs[i]);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        place(galloc, graph->nodes[i]);
    }
    galloc->done_graph = graph;
    galloc->done_nodes = graph->n_nodes;
    galloc->done_leafs = graph->n_leafs;
    return true;
}

ggml_backend_buffer_t ggml_backend_alloc_ctx_tensors_from_buft(struct ggml_context * ctx, ggml_backend_buffer_type_t buft) {
    GGML_ASSERT(ggml_get_no_alloc(ctx));
    size_t align = ggml_backend_buft_get_alignment(buft);
    align = align > GGML_MEM_ALIGN ? align : GGML_MEM_ALIGN;
    size_t bytes = 0;
    size_t n_tensors = 0;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (!t->data && !t->view_src) {
            bytes += GGML_PAD(ggml_backend_buft_get_alloc_size(buft, t), align);
            n_tensors++;
        }
    }
    if (n_tensors == 0) {
        return NULL;
    }
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(buft, bytes > 0 ? bytes : align);
    if (!buffer) {
        ggml_log_internal(GGML_LOG_LEVEL_ERROR, "%zu tensors: %zu bytes of %s memory cannot be had", n_tensors, bytes, ggml_backend_buft_name(buft));
        return NULL;
    }
    char * at = ggml_backend_buffer_get_base(buffer);
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (!t->data && !t->view_src) {
            ggml_backend_tensor_alloc(buffer, t, at);
            at += GGML_PAD(ggml_backend_buft_get_alloc_size(buft, t), align);
        }
    }
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (!t->data && t->view_src && t->view_src->data) {
            ggml_backend_view_init(t);
        }
    }
    return buffer;
}

ggml_backend_buffer_t ggml_backend_alloc_ctx_tensors(struct ggml_context * ctx, ggml_backend_t backend) {
    return ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_get_default_buffer_type(backend));
}
