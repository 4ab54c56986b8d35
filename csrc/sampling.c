/* sampling.c - logits [V] -> temperature -> top-k -> top-p -> e^(s - max) -> first index whose cumulative weight reaches u * total.
 * Every step rounds where sampling.py rounds: float32 for scores and cumulative weights, double for the exponential and for the mass of top-p,
 * sums from left to right. Both compute the exponential by the same additions and products, since libraries differ in its last bit.
 * Trap: contraction to fused multiply-add would change that bit; the build switches it off (-ffp-contract=off), test_predictor_frame catches it. */
#include "sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum qt_status sampler_init(struct sampler * s, int n_max) {
    size_t n = (size_t) n_max;
    *s = (struct sampler) {
        .scores = malloc(n * sizeof *s->scores),
        .largest = malloc(n * sizeof *s->largest),
        .weights = malloc(n * sizeof *s->weights),
        .order = malloc(n * sizeof *s->order),
        .kept = malloc(n * sizeof *s->kept),
    };
    if (!s->scores || !s->largest || !s->weights || !s->order || !s->kept) {
        sampler_free(s);
        return QT_FAIL(QT_STATUS_OOM, "no memory to draw from %d logits", n_max);
    }
    return QT_STATUS_OK;
}

void sampler_free(struct sampler * s) {
    free(s->scores);
    free(s->largest);
    free(s->weights);
    free(s->order);
    free(s->kept);
    *s = (struct sampler) { 0 };
}

enum qt_status sampling_check(const char * who, const struct qt_sampling * s) {
    if (!(s->temperature >= 1e-6 && s->temperature <= 1e6) && !(s->greedy && s->temperature == 0)) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: temperature is %g, valid: 1e-6 to 1e6, and 0 when greedy", who, s->temperature);
    }
    if (s->top_k < 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: top_k is %d, valid: 0 (off) and above", who, (int) s->top_k);
    }
    if (!(s->top_p > 0 && s->top_p <= 1)) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: top_p is %g, valid: above 0 up to 1 (off)", who, s->top_p);
    }
    return QT_STATUS_OK;
}

/* e^x for x <= 0: e^x = 2^k e^r with |r| <= ln2 / 2, e^r by its series, whose 14th term is below 2^-53. */
static double exponential(double x) {
    static const double ln2_high = 0x1.62e42fefa0000p-1, ln2_low = 0x1.cf79abc9e3b3ap-40; /* the first ends in 17 zero bits: k * ln2_high is exact */
    static const double inverse_factorial[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0,
    };
    x = x < -700.0 ? -700.0 : x;
    double k = rint(x * 0x1.71547652b82fep+0); /* 1 / ln2 */
    double r = (x - k * ln2_high) - k * ln2_low;
    double p = inverse_factorial[13];
    for (int i = 12; i >= 0; i--) {
        p = p * r + inverse_factorial[i];
    }
    return ldexp(p, (int) k);
}

/* The k-th largest of x [n], 0 < k < n: heap holds the k largest so far, the least of them at its root. */
static float kth_largest(const float * x, int n, int k, float * heap) {
    int size = 0;
    for (int i = 0; i < n; i++) {
        int at;
        if (size < k) {
            for (at = size++; at > 0 && x[i] < heap[(at - 1) / 2]; at = (at - 1) / 2) {
                heap[at] = heap[(at - 1) / 2];
            }
        } else if (x[i] > heap[0]) {
            at = 0;
            for (int child = 1; child < k; child = 2 * at + 1) {
                child += child + 1 < k && heap[child + 1] < heap[child];
                if (!(heap[child] < x[i])) {
                    break;
                }
                heap[at] = heap[child];
                at = child;
            }
        } else {
            continue;
        }
        heap[at] = x[i];
    }
    return heap[0];
}

static bool is_before(const float * x, int a, int b) { return x[a] < x[b] || (x[a] == x[b] && a < b); }

/* order [n] = the places of x from the least to the greatest, equal ones in their own order. A heap sort: no recursion, no memory. */
static void sort_places(const float * x, int n, int * order) {
    for (int i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int start = n / 2 - 1, end = n; end > 1;) {
        int value;
        if (start >= 0) {
            value = order[start];
        } else {
            value = order[--end];
            order[end] = order[0];
        }
        int at = start >= 0 ? start-- : 0;
        for (int child = 2 * at + 1; child < end; child = 2 * at + 1) {
            child += child + 1 < end && is_before(x, order[child], order[child + 1]);
            if (!is_before(x, value, order[child])) {
                break;
            }
            order[at] = order[child];
            at = child;
        }
        order[at] = value;
    }
}

/* Drop what top-p removes of the n kept scores; how many stay. */
static int apply_top_p(struct sampler * s, int n, double top_p) {
    sort_places(s->scores, n, s->order);
    double total = 0.0, mass = 0.0, most = (double) s->scores[s->order[n - 1]];
    for (int i = 0; i < n; i++) {
        s->weights[i] = exponential((double) s->scores[s->order[i]] - most);
        total += s->weights[i];
    }
    const float limit = (float) (1.0 - top_p);
    for (int i = 0; i < n - 1; i++) {
        mass += (double) (float) (s->weights[i] / total);
        if ((float) mass <= limit) {
            s->kept[s->order[i]] = -1;
        }
    }
    int n_stay = 0;
    for (int i = 0; i < n; i++) {
        if (s->kept[i] >= 0) {
            s->kept[n_stay] = s->kept[i];
            s->scores[n_stay++] = s->scores[i];
        }
    }
    return n_stay;
}

enum qt_status sampling_draw(struct sampler * s, const float * logits, int n, const struct qt_sampling * settings, float uniform, int32_t * token) {
    int best = 0;
    for (int i = 1; i < n && !isnan(logits[best]); i++) {
        best = logits[i] > logits[best] || isnan(logits[i]) ? i : best;
    }
    if (!isfinite(logits[best])) {
        return QT_FAIL(QT_STATUS_GENERATE_FAILED, "the highest logit is %g, not a number: the model file is damaged", (double) logits[best]);
    }
    *token = best;
    if (settings->greedy) {
        return QT_STATUS_OK;
    }
    const float temperature = (float) settings->temperature;
    for (int i = 0; i < n; i++) {
        s->scores[i] = logits[i] / temperature;
    }
    const float most = s->scores[best];
    const float kth = settings->top_k > 0 && settings->top_k < n ? kth_largest(s->scores, n, settings->top_k, s->largest) : -INFINITY;
    int n_kept = 0;
    for (int i = 0; i < n; i++) {
        if (s->scores[i] >= kth) { /* ties at the k-th value stay */
            s->kept[n_kept] = i;
            s->scores[n_kept++] = s->scores[i];
        }
    }
    if (settings->top_p < 1) {
        n_kept = apply_top_p(s, n_kept, settings->top_p);
    }
    float total = 0.0f;
    for (int i = 0; i < n_kept; i++) { /* cumulative weights take the place of the scores */
        total += (float) exponential((double) (s->scores[i] - most));
        s->scores[i] = total;
    }
    const float wanted = uniform * total;
    int at = 0;
    while (at < n_kept - 1 && s->scores[at] < wanted) {
        at++;
    }
    *token = s->kept[at];
    return QT_STATUS_OK;
}
