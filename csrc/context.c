/* context.c - load order: find the backend, open the files, compare their kinds, read sizes, compare the two files, start it, bind the weights. Cheap
 * checks come first, so that a wrong file is refused before memory is spent. */
#include "context.h"

#include "log.h"
#include "meta.h"
#include "values.h"

#include <ggml-cpu.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_SPEAKERS 65536
#define CHUNK_MAX_FRAMES (1 << 17) /* 3 hours at 12.5 Hz; the mask of a pass is the square of its frames */

static void list_devices(char * text, size_t size) {
    size_t at = (size_t) snprintf(text, size, "auto");
    for (size_t i = 0; i < ggml_backend_dev_count() && at < size; i++) {
        at += (size_t) snprintf(text + at, size - at, ", %s", ggml_backend_dev_name(ggml_backend_dev_get(i)));
    }
}

static enum qt_status find_device(const char * name, ggml_backend_dev_t * device) {
    bool automatic = !name || strcasecmp(name, "auto") == 0;
    *device = automatic ? ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) : ggml_backend_dev_by_name(name);
    if (!*device) {
        char devices[256];
        list_devices(devices, sizeof devices);
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "backend is '%.64s', valid: %s", automatic ? "auto" : name, devices);
    }
    return QT_STATUS_OK;
}

static enum qt_status start_backend(struct qt_context * c, ggml_backend_dev_t device, int n_threads) {
    c->backend = ggml_backend_dev_init(device, NULL);
    if (!c->backend) {
        const char * tier = getenv("QWENTTS_CPU_TIER");
        if (tier && *tier) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "QWENTTS_CPU_TIER is '%.64s', this machine has: %s", tier, ggml_cpu_tiers_available());
        }
        return QT_FAIL(QT_STATUS_OOM, "backend %s cannot be started: no memory or threads", ggml_backend_dev_name(device));
    }
    if (ggml_backend_is_cpu(c->backend)) {
        n_threads = n_threads ? n_threads : ggml_cpu_default_n_threads();
        ggml_backend_cpu_set_n_threads(c->backend, n_threads);
        c->n_threads = n_threads;
        snprintf(c->backend_name, sizeof c->backend_name, "%s %s, %d thread%s", ggml_backend_name(c->backend), ggml_cpu_tier_name(c->backend), n_threads,
                 n_threads == 1 ? "" : "s");
    } else {
        snprintf(c->backend_name, sizeof c->backend_name, "%s", ggml_backend_name(c->backend));
    }
    return QT_STATUS_OK;
}

static enum qt_status read_speakers(struct qt_context * c) {
    struct meta meta = { c->talker_file, QT_STATUS_OK };
    if (meta_has(&meta, "qwen3-tts.codec.speaker_names")) {
        c->n_speakers = meta_strings(&meta, "qwen3-tts.codec.speaker_names", MAX_SPEAKERS, &c->speakers);
    }
    return meta.status;
}

static enum qt_status open_files(struct qt_context * c, const struct qt_init_params * params) {
    if (params->talker_path) {
        QT_TRY(file_open(params->talker_path, &c->talker_file));
        QT_TRY(sizes_check_arch(c->talker_file, TALKER_ARCH, "talker_path"));
    }
    if (params->codec_path) {
        QT_TRY(file_open(params->codec_path, &c->codec_file));
        QT_TRY(sizes_check_arch(c->codec_file, CODEC_ARCH, "codec_path"));
    }
    return QT_STATUS_OK;
}

static enum qt_status read_facts(struct qt_context * c, struct talker_sizes * talker, struct codec_sizes * codec) {
    struct qt_facts * f = &c->facts;
    if (c->talker_file) {
        QT_TRY(talker_sizes_read(c->talker_file, talker));
        QT_TRY(read_speakers(c));
        f->n_code_groups = talker->n_code_groups;
        f->hidden_size = talker->stack.hidden;
        f->codec_vocab_size = talker->vocab;
        f->code_vocab_size = talker->predictor_vocab;
        f->text_vocab_size = talker->text_vocab;
        f->context_length = talker->context_length;
        QT_TRY(speaker_size_read(c->talker_file, talker, &f->speaker_size));
    }
    if (c->codec_file) {
        QT_TRY(codec_sizes_read(c->codec_file, codec));
        if (c->talker_file && codec->n_quantizers != talker->n_code_groups) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "the talker has %d codebooks (%s), the codec %d (%s): they do not belong together",
                           (int) talker->n_code_groups, c->talker_file->path, (int) codec->n_quantizers, c->codec_file->path);
        }
        f->n_code_groups = codec->n_quantizers;
        f->sample_rate = codec->sample_rate;
        f->hop_samples = codec->hop_samples;
        f->codebook_size = codec->codebook_size;
    }
    return QT_STATUS_OK;
}

static enum qt_status load(struct qt_context * c, const struct qt_init_params * params) {
    struct talker_sizes talker = { 0 };
    struct codec_sizes codec = { 0 };
    ggml_backend_dev_t device;
    QT_TRY(find_device(params->backend, &device));
    QT_TRY(open_files(c, params));
    QT_TRY(read_facts(c, &talker, &codec));
    QT_TRY(start_backend(c, device, params->n_threads));
    log_write(QT_LOG_INFO, "qwentts %s, %s", QT_VERSION, c->backend_name);
    if (c->talker_file) {
        QT_TRY(weights_init(&c->talker_weights, c->talker_file, device));
        QT_TRY(weights_copy_begin(&c->talker_weights));
        QT_TRY(talker_load(&c->talker, &c->talker_weights, &talker));
        QT_TRY(predictor_load(&c->predictor, &c->talker_weights, &talker));
        values_warn(c->talker_file, "");
        QT_TRY(weights_copy_end(&c->talker_weights, c->backend, params->n_threads ? params->n_threads : ggml_cpu_default_n_threads()));
        log_write(QT_LOG_INFO, "talker %s: %d layers, width %d, %d code groups, mtp_proj %s", c->talker_file->path, (int) talker.stack.n_layers,
                  (int) talker.stack.hidden, (int) talker.n_code_groups, c->predictor.projection ? "linear" : "identity");
        weights_rest(&c->talker_weights);
    }
    if (c->codec_file) {
        QT_TRY(weights_init(&c->codec_weights, c->codec_file, device));
        QT_TRY(codec_load(&c->codec, &c->codec_weights, &codec, c->backend, params->n_threads ? params->n_threads : ggml_cpu_default_n_threads()));
        values_warn(c->codec_file, c->facts.speaker_size ? "" : "tok_dec."); /* who cannot clone leaves the encoder alone */
        double chunk_frames = round((double) params->codec_chunk_sec * codec.sample_rate / codec.hop_samples);
        c->codec_chunk_frames = chunk_frames < 1 ? 1 : chunk_frames < CHUNK_MAX_FRAMES ? (int) chunk_frames : CHUNK_MAX_FRAMES;
        log_write(QT_LOG_INFO, "codec %s: %d codebooks of %d, %d samples a frame at %d Hz", c->codec_file->path, (int) codec.n_quantizers,
                  (int) codec.codebook_size, (int) codec.hop_samples, (int) codec.sample_rate);
        weights_rest(&c->codec_weights);
    }
    return QT_STATUS_OK;
}

enum qt_status context_new(const struct qt_init_params * params, struct qt_context ** context) {
    struct qt_context * c = calloc(1, sizeof *c);
    *context = NULL;
    if (!c) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for a context");
    }
    c->fused_attention = params->use_fa;
    c->clamp_fp16 = params->clamp_fp16;
    c->kv_type = params->kv_type == QT_KV_F32 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    atomic_init(&c->codec_wanted, 0);
    c->lock_ready = pthread_mutex_init(&c->lock, NULL) == 0;
    c->codec_lock_ready = pthread_mutex_init(&c->codec_lock, NULL) == 0;
    enum qt_status status = c->lock_ready && c->codec_lock_ready ? load(c, params) : QT_FAIL(QT_STATUS_OOM, "no memory for a context's locks");
    if (status != QT_STATUS_OK) {
        context_free(c);
        return status;
    }
    *context = c;
    return QT_STATUS_OK;
}

void context_free(struct qt_context * c) {
    if (!c) {
        return;
    }
    codec_snapshots_free(&c->snapshots);
    hearing_free(&c->hearing);
    codec_free(&c->codec);
    predictor_free(&c->predictor);
    talker_free(&c->talker);
    weights_free(&c->codec_weights);
    weights_free(&c->talker_weights);
    ggml_backend_free(c->codec_backend);
    ggml_backend_free(c->frame_backend);
    ggml_backend_free(c->backend);
    file_free(c->codec_file);
    file_free(c->talker_file);
    free(c->speakers);
    if (c->lock_ready) {
        pthread_mutex_destroy(&c->lock);
    }
    if (c->codec_lock_ready) {
        pthread_mutex_destroy(&c->codec_lock);
    }
    free(c);
}

static ggml_backend_t part_of(const struct qt_context * c, int n_threads) {
    ggml_backend_t backend = ggml_backend_dev_init(ggml_backend_get_device(c->backend), NULL);
    if (backend) {
        ggml_backend_cpu_set_n_threads(backend, n_threads);
    }
    return backend;
}

enum qt_status context_set_codec_threads(struct qt_context * c, int n_codec_threads) {
    ggml_backend_t frame = NULL, codec = NULL;
    if (n_codec_threads > 0) {
        frame = part_of(c, c->n_threads - n_codec_threads);
        codec = frame ? part_of(c, n_codec_threads) : NULL;
        if (!codec) {
            ggml_backend_free(frame);
            return QT_FAIL(QT_STATUS_OOM, "no memory for threads of the codec's own, or they cannot be started");
        }
    }
    pthread_mutex_lock(&c->lock);
    pthread_mutex_lock(&c->codec_lock);
    ggml_backend_t old_frame = c->frame_backend, old_codec = c->codec_backend;
    c->frame_backend = frame;
    c->codec_backend = codec;
    pthread_mutex_unlock(&c->codec_lock);
    pthread_mutex_unlock(&c->lock);
    ggml_backend_free(old_frame);
    ggml_backend_free(old_codec);
    return QT_STATUS_OK;
}
