/* talker.h - the language model that says codebook 0 of each frame, and the embeddings its prompt is made of. */
#ifndef QT_TALKER_H
#define QT_TALKER_H

#include "block.h"

/* Weights, read-only and shared. G = n_code_groups, D = hidden width. */
struct talker {
    struct talker_sizes sizes;
    struct stack stack;
    struct ggml_tensor * text_embd;    /* [text_hidden, text_vocab] */
    struct ggml_tensor * text_fc1;     /* [text_hidden, text_hidden] */
    struct ggml_tensor * text_fc1_bias;
    struct ggml_tensor * text_fc2;     /* [text_hidden, D] */
    struct ggml_tensor * text_fc2_bias;
    struct ggml_tensor ** code_embd;   /* [G]: codebook 0 [D, vocab], the others [D, predictor_vocab] */
    struct ggml_tensor * head;         /* [D, vocab] */
};

/* One utterance. */
struct talker_state {
    struct kv_cache cache;
    int n_past;                   /* positions in the cache */
    struct ggml_context * bridge; /* holds hidden */
    ggml_backend_buffer_t bridge_buffer;
    struct ggml_tensor * hidden;  /* [D]: last position after the final norm; stays on the device, the predictor reads it */
    bool hidden_valid;
    struct arena step;            /* one new position, replayed; NULL graph until the first step */
    int64_t step_n_kv;
    int step_visible;             /* positions that step_mask shows */
    int64_t * rows;               /* [H_kv]: where a step writes */
    struct ggml_tensor * step_codes, * step_overlay, * step_positions, * step_rows, * step_mask, * step_logits;
};

enum qt_status talker_load(struct talker * talker, struct weights * weights, const struct talker_sizes * sizes);
void talker_free(struct talker * talker);

enum qt_status talker_state_init(struct talker_state * state, const struct talker * talker, const struct runner * runner);
void talker_state_free(struct talker_state * state);
/* Forget the utterance, keep the memory. */
void talker_state_reset(struct talker_state * state, const struct runner * runner);
/* Graphs are built anew at their next use: settings changed. */
void talker_state_drop_graphs(struct talker_state * state);

/* rows [n, D] -> logits [vocab] after the last. */
enum qt_status talker_prefill(const struct talker * talker, struct talker_state * state, const struct runner * runner, const float * rows, int n,
                              float * logits);
/* codes [G], overlay [D] -> logits [vocab]. */
enum qt_status talker_step(const struct talker * talker, struct talker_state * state, const struct runner * runner, const int32_t * codes,
                           const float * overlay, float * logits);

/* embed.c: rows of the prompt, [n, D] each. */
enum qt_status embed_text(const struct talker * talker, const struct runner * runner, const int32_t * ids, int n, float * rows);
enum qt_status embed_codes(const struct talker * talker, const struct runner * runner, int codebook, const int32_t * codes, int n, float * rows);

#endif
