/* op_compare.c - how far a result is from the reference, and how far it may be.
 * NaN and infinity are compared by kind; the rest in the metrics of tests/bounds.csv, which is compiled in so that the runner is one file. */
#include "op_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char BOUNDS_CSV[] =
#include "bounds.inc"
    ;

void op_metrics_add(struct op_metrics * m, enum ggml_type type, double got, double ref, double mag) {
    bool blocks = ggml_blck_size(type) > 1;
    double nearest = blocks ? ref : op_dtype_round(type, ref);
    m->n++;
    if (!isfinite(nearest) || !isfinite(got)) {
        m->unlike += isnan(nearest) ? !isnan(got) : got != nearest;
        return;
    }
    if (got != nearest || signbit(got) != signbit(nearest)) {
        m->different++;
    }
    double error = fabs(got - ref);
    if (!blocks) {
        m->ulp = fmax(m->ulp, fabs(got - nearest) / op_dtype_ulp(type, nearest));
    }
    if (error > 0) {
        /* under the least normal number a value has few digits, whatever its magnitude */
        m->mag = fmax(m->mag, mag > 0 ? error / fmax(mag, 0x1p-126) : got == nearest ? 0 : INFINITY);
    }
    m->sum_error2 += error * error;
    m->sum_ref2 += ref * ref;
}

void op_metrics_finish(struct op_metrics * m) {
    m->nmse = m->sum_error2 == 0 ? 0 : m->sum_error2 / m->sum_ref2;
}

double op_metrics_get(const struct op_metrics * m, const char * metric) {
    return !strcmp(metric, "exact") ? (double) m->different
         : !strcmp(metric, "ulp")   ? m->ulp
         : !strcmp(metric, "nmse")  ? m->nmse
         : !strcmp(metric, "mag")   ? m->mag
                                    : NAN; /* no bound holds for NaN */
}

/* Copies the next field, up to a comma or the end of the line; false at the end of the text. */
static bool field(const char ** p, char * out, size_t size) {
    size_t n = 0;
    if (!**p) {
        return false;
    }
    while (**p && **p != ',' && **p != '\n') {
        if (n + 1 < size) {
            out[n++] = **p;
        }
        (*p)++;
    }
    out[n] = 0;
    if (**p == ',') {
        (*p)++;
    }
    return true;
}

static bool equal_fold(const char * a, const char * b) {
    for (; *a && *b; a++, b++) {
        if ((*a | 32) != (*b | 32)) {
            return false;
        }
    }
    return *a == *b;
}

/* The most specific rows win: the case's key before its family, its type before *, the backend before *. */
int op_bounds_find(const struct op_case * c, const char * backend, struct op_bound * bounds, int max) {
    static char metrics[64][8]; /* what bounds[].metric points to, by line */
    int best = -1, n = 0, line = 0;
    const char * p = BOUNDS_CSV;
    char name[32], type[16], on[16], metric[8], bound[32];
    while (field(&p, name, sizeof name) && field(&p, type, sizeof type) && field(&p, on, sizeof on) && field(&p, metric, sizeof metric) &&
           field(&p, bound, sizeof bound)) {
        p += strcspn(p, "\n");
        p += *p == '\n';
        line++;
        int by_key = equal_fold(name, c->key), by_type = equal_fold(type, ggml_type_name(c->type)), by_backend = equal_fold(on, backend);
        if ((!by_key && !equal_fold(name, op_family(c->op))) || (!by_type && strcmp(type, "*")) || (!by_backend && strcmp(on, "*"))) {
            continue;
        }
        int score = 4 * by_key + 2 * by_type + by_backend;
        if (score > best) {
            best = score;
            n = 0;
        }
        if (score == best && n < max) {
            char * kept = metrics[line % 64];
            strcpy(kept, metric);
            bounds[n].metric = kept;
            bounds[n++].bound = strtod(bound, NULL);
        }
    }
    return n;
}
