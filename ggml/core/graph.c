/* graph.c - a graph is the list of a result's ancestors in an order in which each node follows its sources.
 * A set of visited tensors (open addressing, room for nodes and leafs) makes each appear once, however many results share it. */
#include "tensor.h"

#include <string.h>

/* Slots for size nodes and size leafs at two thirds full or less. */
static size_t visited_slots(size_t size) {
    size_t n = 16;
    while (n < 3 * size) {
        n *= 2;
    }
    return n;
}

static size_t graph_bytes(size_t size) {
    return GGML_PAD(sizeof(struct ggml_cgraph), GGML_MEM_ALIGN) + (2 * size + visited_slots(size)) * sizeof(struct ggml_tensor *);
}

size_t ggml_graph_overhead_custom(size_t size, bool grads) {
    GGML_ASSERT(!grads);
    return 2 * GGML_MEM_ALIGN + GGML_PAD(graph_bytes(size), GGML_MEM_ALIGN); /* and the context's own record */
}

size_t ggml_graph_overhead(void) { return ggml_graph_overhead_custom(GGML_DEFAULT_GRAPH_SIZE, false); }

struct ggml_cgraph * ggml_new_graph_custom(struct ggml_context * ctx, size_t size, bool grads) {
    GGML_ASSERT(!grads && size > 0 && size <= INT32_MAX / 4);
    struct ggml_cgraph * graph = context_alloc(ctx, graph_bytes(size));
    if (!graph) {
        return NULL;
    }
    struct ggml_tensor ** tables = (struct ggml_tensor **) ((char *) graph + GGML_PAD(sizeof *graph, GGML_MEM_ALIGN));
    graph->size = (int) size;
    graph->nodes = tables;
    graph->leafs = tables + size;
    graph->visited = tables + 2 * size;
    graph->visited_size = visited_slots(size);
    ggml_graph_clear(graph);
    return graph;
}

struct ggml_cgraph * ggml_new_graph(struct ggml_context * ctx) { return ggml_new_graph_custom(ctx, GGML_DEFAULT_GRAPH_SIZE, false); }

void ggml_graph_clear(struct ggml_cgraph * graph) {
    graph->n_nodes = 0;
    graph->n_leafs = 0;
    memset(graph->visited, 0, graph->visited_size * sizeof graph->visited[0]);
}

/* Enter t into the set; false when it was there. */
static bool visit(struct ggml_cgraph * graph, struct ggml_tensor * t) {
    size_t mask = graph->visited_size - 1;
    size_t i = (size_t) ((uintptr_t) t / GGML_MEM_ALIGN * 0x9e3779b97f4a7c15u >> 20) & mask;
    while (graph->visited[i]) {
        if (graph->visited[i] == t) {
            return false;
        }
        i = (i + 1) & mask;
    }
    graph->visited[i] = t;
    return true;
}

/* Depth first without recursion, since a chain of ops can be as long as the graph. The path from the result to the tensor at hand lies at
 * the far end of nodes: what is on it becomes a node later, so nodes and path together never need more than size entries. */
void ggml_build_forward_expand(struct ggml_cgraph * graph, struct ggml_tensor * tensor) {
    GGML_ASSERT(tensor);
    struct ggml_tensor ** path = graph->nodes + graph->size; /* grows down */
    struct ggml_tensor * t = visit(graph, tensor) ? tensor : NULL;
    while (t) {
        if (t->op == GGML_OP_NONE) {
            GGML_ASSERT(graph->n_leafs < graph->size);
            graph->leafs[graph->n_leafs++] = t;
        } else {
            struct ggml_tensor * next = NULL;
            for (int i = 0; i < GGML_MAX_SRC && !next; i++) {
                next = t->src[i] && visit(graph, t->src[i]) ? t->src[i] : NULL;
            }
            if (next) {
                GGML_ASSERT(path > graph->nodes + graph->n_nodes);
                *--path = t;
                t = next;
                continue;
            }
            GGML_ASSERT(path > graph->nodes + graph->n_nodes);
            graph->nodes[graph->n_nodes++] = t;
        }
        t = path < graph->nodes + graph->size ? *path++ : NULL;
    }
}

int ggml_graph_size(struct ggml_cgraph * graph) { return graph->size; }
int ggml_graph_n_nodes(struct ggml_cgraph * graph) { return graph->n_nodes; }
struct ggml_tensor ** ggml_graph_nodes(struct ggml_cgraph * graph) { return graph->nodes; }

struct ggml_tensor * ggml_graph_node(struct ggml_cgraph * graph, int i) {
    int index = i < 0 ? graph->n_nodes + i : i;
    GGML_ASSERT(index >= 0 && index < graph->n_nodes);
    return graph->nodes[index];
}

struct ggml_tensor * ggml_graph_get_tensor(const struct ggml_cgraph * graph, const char * name) {
    for (int i = 0; i < graph->n_leafs; i++) {
        if (strcmp(graph->leafs[i]->name, name) == 0) {
            return graph->leafs[i];
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        if (strcmp(graph->nodes[i]->name, name) == 0) {
            return graph->nodes[i];
        }
    }
    return NULL;
}
