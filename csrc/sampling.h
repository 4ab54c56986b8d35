/* sampling.h - from logits to one token, for codebooks 1 and up; what src/qwentts/sampling.py does with numpy, to the last bit. */
#ifndef QT_SAMPLING_H
#define QT_SAMPLING_H

#include "error.h"

/* Work space of draws from up to n_max logits; one a session, so a frame allocates nothing. */
struct sampler {
    float * scores;   /* [n_max] */
    float * largest;  /* [n_max] */
    double * weights; /* [n_max] */
    int * order;      /* [n_max] */
    int * kept;       /* [n_max]: tokens that scores belongs to */
};

enum qt_status sampler_init(struct sampler * sampler, int n_max);
void sampler_free(struct sampler * sampler);

/* Refuses settings out of range, naming the field. */
enum qt_status sampling_check(const char * who, const struct qt_sampling * settings);
/* *token = one of logits [n] (n >= 1) for one uniform number; the first of the highest when greedy. Fails when the highest is not a number. */
enum qt_status sampling_draw(struct sampler * sampler, const float * logits, int n, const struct qt_sampling * settings, float uniform, int32_t * token);

#endif
