/* codec_chunks.c - decode of all frames in chunks, so that memory is that of one chunk however long the utterance is.
 *
 *   codes [Q, n_frames] -> chunks of chunk_frames, each decoded behind the 2 * sliding_window frames before it, whose samples are dropped
 *
 * A chunk that covers all frames is the one pass itself. A split leaves a residual: the transformer's layers together look further back than
 * the context. A stream (codec_stream.c) has none. Upstream: chunked_decode, whose context of 25 frames is shorter than its window. */
#include "codec.h"

#include <stdlib.h>

enum qt_status codec_decode(const struct codec * codec, const struct runner * runner, const struct codec_codes * codes, int chunk_frames,
                            float ** samples) {
    size_t hop = (size_t) codec->sizes.hop_samples;
    int n_frames = codes->n_frames;
    float * out = malloc((size_t) n_frames * hop * sizeof *out);
    *samples = NULL;
    if (!out) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the samples of %d frames", n_frames);
    }
    int64_t context = 2 * (int64_t) codec->sizes.sliding_window;
    enum qt_status status = QT_STATUS_OK;
    for (int first = 0, n; first < n_frames && status == QT_STATUS_OK; first += n) {
        n = n_frames - first < chunk_frames ? n_frames - first : chunk_frames;
        int n_context = first < context ? first : (int) context;
        status = codec_decode_pass(codec, runner, codes, first, n, n_context, out + (size_t) first * hop);
    }
    if (status != QT_STATUS_OK) {
        free(out);
        return status;
    }
    *samples = out;
    return QT_STATUS_OK;
}
