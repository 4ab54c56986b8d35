/* codec.h - the codec's decoder: codes of all frames to samples in one pass. */
#ifndef QT_CODEC_H
#define QT_CODEC_H

#include "codec_parts.h"

/* Weights, read-only and shared. */
struct codec {
    struct codec_sizes sizes;
    struct codec_rvq rvq;
    struct codec_transformer transformer;
    struct codec_upsample upsample;
    struct codec_dac dac;
};

enum qt_status codec_load(struct codec * codec, struct weights * weights, const struct codec_sizes * sizes, ggml_backend_t backend);
void codec_free(struct codec * codec);

/* codes [Q, n_frames] below codebook_size -> samples [n_frames * hop_samples], malloc'd. */
enum qt_status codec_decode(const struct codec * codec, const struct runner * runner, const int32_t * codes, int n_frames, float ** samples);

#endif
