/* predictor.h - the code predictor: from the talker's hidden state and codebook 0's code, the other codebooks of the frame one by one. */
#ifndef QT_PREDICTOR_H
#define QT_PREDICTOR_H

#include "sampling.h"
#include "talker.h"

/* Weights, read-only and shared. D = talker's width, P = predictor's width, G = code groups. */
struct predictor {
    struct stack stack;
    struct ggml_tensor * projection;      /* [D, P], NULL: D equals P and rows go in as they are */
    struct ggml_tensor * projection_bias; /* [P] */
    struct ggml_tensor ** heads;          /* [G-1], each [P, vocab]: heads[g-1] speaks codebook g */
    int n_code_groups;
    int vocab;
};

/* One graph a codebook: a frame's position g+1 is always computed by the same graph, so nothing is built or allocated inside a frame. */
struct predictor_graph {
    struct arena arena; /* NULL graph until first used */
    struct ggml_tensor * code, * logits;
};

struct predictor_state {
    struct kv_cache cache;          /* G positions, refilled each frame */
    struct predictor_graph * graphs; /* [G-1]: graphs[0] begins a frame, graphs[g] takes codebook g's code */
    int n_graphs;
    struct sampler sampler;
    float * logits; /* [vocab]: of a whole frame's draws */
    int next; /* codebook whose code is awaited; 0: predictor_begin must come first */
};

enum qt_status predictor_load(struct predictor * predictor, struct weights * weights, const struct talker_sizes * sizes);
void predictor_free(struct predictor * predictor);

enum qt_status predictor_state_init(struct predictor_state * state, const struct predictor * predictor, const struct runner * runner);
void predictor_state_free(struct predictor_state * state);
void predictor_state_drop_graphs(struct predictor_state * state);

/* hidden and code of codebook 0 -> logits [vocab] of codebook 1. */
enum qt_status predictor_begin(const struct predictor * predictor, const struct talker * talker, struct predictor_state * state,
                               const struct runner * runner, struct ggml_tensor * hidden, int32_t code0, float * logits);
/* The code of codebook state->next -> logits of the next one. */
enum qt_status predictor_step(const struct predictor * predictor, const struct talker * talker, struct predictor_state * state,
                              const struct runner * runner, int32_t code, float * logits);
/* The frame's codes [G] from hidden and code0 on; uniforms [G-1]. */
enum qt_status predictor_frame(const struct predictor * predictor, const struct talker * talker, struct predictor_state * state,
                               const struct runner * runner, struct ggml_tensor * hidden, int32_t code0, const float * uniforms,
                               const struct qt_sampling * sampling, int32_t * codes);

#endif
