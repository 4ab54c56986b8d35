/* speaker.h - the speaker encoder of base models: samples of a clip to one embedding, all of it in F32. */
#ifndef QT_SPEAKER_H
#define QT_SPEAKER_H

#include "causal_conv.h"
#include "mel.h"

#define SPEAKER_MAX_BLOCKS 8
#define SPEAKER_MAX_PARTS  16 /* of a block's channels */

struct speaker_block {
    struct conv tdnn1;
    struct conv parts[SPEAKER_MAX_PARTS]; /* dilated, one a part but the first */
    int n_parts;
    struct conv tdnn2;
    struct conv squeeze, excite;
    int dilation;
};

struct speaker {
    struct mel mel;
    struct conv first;
    struct speaker_block blocks[SPEAKER_MAX_BLOCKS];
    int n_blocks;
    struct conv mfa;
    struct conv asp_tdnn, asp;
    struct conv fc;
    int64_t n_samples_min; /* a shorter clip has fewer frames than a convolution mirrors */
};

/* Widths come from the tensors, the embedding's from its key. */
enum qt_status speaker_load(struct speaker * speaker, struct weights * weights, int32_t embedding_size, ggml_backend_t backend);
void speaker_free(struct speaker * speaker);

/* samples [n_samples], n_samples >= n_samples_min, at MEL_RATE_HZ -> embedding [embedding_size] */
enum qt_status speaker_embed(const struct speaker * speaker, const struct runner * runner, const float * samples, int64_t n_samples, float * embedding);

#endif
