/* mel.c - samples to a mel spectrogram, inside the graph.
 *
 *   x [n] -> mirrored by 384 at each end -> frames [1024, T], a view with a stride of 256 -> . basis [1026, T] -> re^2 + im^2 + 1e-9 -> root
 *     [513, T] -> . filters [n_mels, T] -> log(max(1e-5, .))
 *
 * The transform is a product with cosines and sines under a periodic Hann window. Basis and filters are made in double and rounded once.
 * Filters: triangles between points that are equally far apart on Slaney's scale, each divided by half its width (librosa.filters.mel).
 * Upstream: mel_spectrogram of the speaker encoder. */
#include "mel.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define N_BINS (MEL_FFT / 2 + 1)
#define PARTS 4 /* a frame is multiplied in parts: sums of 256 terms keep quiet bins beside loud ones */
#define PI 3.14159265358979323846

/* Linear up to 1000 Hz, then 27 steps for a factor of 6.4. */
static double hz_of_mel(double mel) {
    double hz_per_mel = 200.0 / 3.0, corner_mel = 1000.0 / hz_per_mel;
    return mel < corner_mel ? mel * hz_per_mel : 1000.0 * exp((mel - corner_mel) * log(6.4) / 27.0);
}

static double mel_of_hz(double hz) {
    double hz_per_mel = 200.0 / 3.0;
    return hz < 1000.0 ? hz / hz_per_mel : 1000.0 / hz_per_mel + log(hz / 1000.0) * 27.0 / log(6.4);
}

static void fill_basis(float * basis) {
    for (int k = 0; k < N_BINS; k++) {
        for (int i = 0; i < MEL_FFT; i++) {
            double window = 0.5 - 0.5 * cos(2 * PI * i / MEL_FFT);
            double angle = 2 * PI * ((int64_t) k * i % MEL_FFT) / MEL_FFT;
            basis[k * MEL_FFT + i] = (float) (window * cos(angle));
            basis[(N_BINS + k) * MEL_FFT + i] = (float) (window * sin(angle));
        }
    }
}

static void fill_filters(float * filters, int64_t n_mels) {
    double top = mel_of_hz(MEL_TOP_HZ), step = top / (double) (n_mels + 1);
    for (int64_t m = 0; m < n_mels; m++) {
        double low = hz_of_mel(step * (double) m), centre = hz_of_mel(step * (double) (m + 1)), high = hz_of_mel(step * (double) (m + 2));
        for (int k = 0; k < N_BINS; k++) {
            double hz = (double) k * MEL_RATE_HZ / MEL_FFT;
            double height = fmin((hz - low) / (centre - low), (high - hz) / (high - centre));
            filters[m * N_BINS + k] = height > 0 ? (float) (height * 2.0 / (high - low)) : 0.0f;
        }
    }
}

enum qt_status mel_init(struct mel * mel, int64_t n_mels, ggml_backend_t backend) {
    mel->tensors = ggml_init((struct ggml_init_params) { .mem_size = 3 * ggml_tensor_overhead(), .no_alloc = true });
    float * values = calloc((size_t) (2 * N_BINS * MEL_FFT > n_mels * N_BINS ? 2 * N_BINS * MEL_FFT : n_mels * N_BINS), sizeof *values);
    if (mel->tensors && values) {
        mel->basis = ggml_new_tensor_2d(mel->tensors, GGML_TYPE_F32, MEL_FFT, 2 * N_BINS);
        mel->filters = ggml_new_tensor_2d(mel->tensors, GGML_TYPE_F32, N_BINS, n_mels);
        mel->floor = ggml_new_tensor_1d(mel->tensors, GGML_TYPE_F32, 1);
        mel->buffer = ggml_backend_alloc_ctx_tensors(mel->tensors, backend);
    }
    if (mel->buffer) {
        fill_basis(values);
        ggml_backend_tensor_set(mel->basis, values, 0, ggml_nbytes(mel->basis));
        fill_filters(values, n_mels);
        ggml_backend_tensor_set(mel->filters, values, 0, ggml_nbytes(mel->filters));
        float power = 1e-9f;
        ggml_backend_tensor_set(mel->floor, &power, 0, sizeof power);
    }
    free(values);
    return mel->buffer ? QT_STATUS_OK : QT_FAIL(QT_STATUS_OOM, "no memory for the basis of the mel spectrogram");
}

void mel_free(struct mel * mel) {
    ggml_backend_buffer_free(mel->buffer);
    ggml_free(mel->tensors);
    *mel = (struct mel) { 0 };
}

struct ggml_tensor * mel_build(const struct mel * mel, struct ggml_context * ctx, struct ggml_tensor * samples) {
    struct ggml_tensor * x = ggml_pad_reflect_1d(ctx, samples, MEL_PAD, MEL_PAD);
    int64_t T = (x->ne[0] - MEL_FFT) / MEL_HOP + 1, n = MEL_FFT / PARTS;
    struct ggml_tensor * bins = NULL;
    for (int p = 0; p < PARTS; p++) {
        size_t offset = (size_t) (p * n) * sizeof(float);
        struct ggml_tensor * frames = ggml_view_2d(ctx, x, n, T, MEL_HOP * sizeof(float), offset);
        struct ggml_tensor * basis = ggml_view_2d(ctx, mel->basis, n, 2 * N_BINS, mel->basis->nb[1], offset);
        struct ggml_tensor * part = ggml_mul_mat(ctx, basis, frames); /* [2*513, T] */
        bins = bins ? ggml_add(ctx, bins, part) : part;
    }
    struct ggml_tensor * power = ggml_sqr(ctx, bins);
    struct ggml_tensor * real = ggml_view_2d(ctx, power, N_BINS, T, power->nb[1], 0);
    struct ggml_tensor * imaginary = ggml_view_2d(ctx, power, N_BINS, T, power->nb[1], N_BINS * sizeof(float));
    struct ggml_tensor * magnitude = ggml_sqrt(ctx, ggml_add(ctx, ggml_add(ctx, real, imaginary), mel->floor)); /* [513, T] */
    return ggml_log(ctx, ggml_clamp(ctx, ggml_mul_mat(ctx, mel->filters, magnitude), 1e-5f, FLT_MAX));          /* [n_mels, T] */
}
