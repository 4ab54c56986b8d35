/* mel.h - the mel spectrogram that the speaker encoder reads. */
#ifndef QT_MEL_H
#define QT_MEL_H

#include "arena.h"

/* Fixed upstream, in no key. */
#define MEL_RATE_HZ 24000
#define MEL_FFT     1024
#define MEL_HOP     256
#define MEL_TOP_HZ  12000.0
#define MEL_MAX_BANDS (MEL_FFT / 2 + 1)        /* one a bin */
#define MEL_PAD     ((MEL_FFT - MEL_HOP) / 2) /* samples mirrored at each end */

/* Computed once; read-only. */
struct mel {
    struct ggml_context * tensors;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor * basis;   /* [MEL_FFT, 2*n_bins]: windowed cosines, then sines */
    struct ggml_tensor * filters; /* [n_bins, n_mels] */
    struct ggml_tensor * floor;   /* [1]: added to the power */
};

enum qt_status mel_init(struct mel * mel, int64_t n_mels, ggml_backend_t backend);
void mel_free(struct mel * mel);
/* samples [n], n > MEL_PAD -> logarithms [n_mels, n / MEL_HOP] */
struct ggml_tensor * mel_build(const struct mel * mel, struct ggml_context * ctx, struct ggml_tensor * samples);

#endif
