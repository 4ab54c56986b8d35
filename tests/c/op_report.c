/* op_report.c - what the op runner says about a case: `op case backend tier metric bound verdict` a line, or one JSON object a line for
 * `qwentts self-test`, which begins before the case runs, so that a program that is killed leaves the name of its case behind. */
#include "op_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void print_number(double value) {
    if (isfinite(value)) {
        printf("%.6g", value);
    } else {
        printf("%s", isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
    }
}

static void print_string(const char * text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\' || (unsigned char) *text < ' ') {
            printf("\\u%04x", (unsigned char) *text);
        } else {
            putchar(*text);
        }
    }
    putchar('"');
}

static const char * tier_of(ggml_backend_t backend) { return ggml_backend_is_cpu(backend) ? ggml_cpu_tier_name(backend) : "-"; }

void op_report_begin(ggml_backend_t backend, const struct op_options * o, const struct op_list * list) {
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        n += op_case_selected(o, &list->items[i]);
    }
    if (o->json) {
        printf("{\"version\": \"%s\", \"backend\": \"%s\", \"tier\": \"%s\", \"seed\": %llu, \"cases\": %d, \"threads\": [", QT_VERSION, o->backend_name,
               tier_of(backend), (unsigned long long) o->seed, n);
        for (int i = 0; i < o->n_threads; i++) {
            printf("%s%d", i ? ", " : "", o->threads[i]);
        }
        printf("]}\n");
    }
}

void op_report_case_begin(const struct op_options * o, const struct op_case * c) {
    if (o->json) {
        printf("{\"op\": \"%s\", \"case\": \"%s\"", c->key, c->text);
    }
    fflush(stdout);
}

void op_report_case_end(ggml_backend_t backend, const struct op_options * o, const struct op_case * c, int verdict, const struct op_result * r) {
    if (o->json) {
        printf(", \"verdict\": \"%s\", \"metrics\": [", verdict < 0 ? "not supported" : verdict ? "failed" : "ok");
        for (int i = 0; i < r->n; i++) {
            printf("%s[\"%s\", ", i ? ", " : "", r->of[i].metric);
            print_number(r->of[i].value);
            printf(", ");
            print_number(r->of[i].bound);
            printf("]");
        }
        printf("], \"error\": ");
        print_string(r->error);
        printf("}\n");
        return;
    }
    const char * tier = tier_of(backend);
    for (int i = 0; i < r->n; i++) {
        if (!o->quiet || !r->of[i].ok) {
            printf("%-14s %-62s %s %s %s %.3g (%.3g) %s\n", c->key, c->text, o->backend_name, tier, r->of[i].metric, r->of[i].value, r->of[i].bound,
                   r->of[i].ok ? "ok" : "FAIL");
        }
    }
    if (verdict < 0) {
        printf("%-14s %-62s %s - not supported%s\n", c->key, c->text, o->backend_name, ggml_backend_is_cpu(backend) ? ": FAIL" : "");
    } else if (verdict && strcmp(r->error, OP_OUT_OF_BOUNDS) != 0) { /* that one has its line */
        printf("%-14s %-62s %s %s FAIL: %s\n", c->key, c->text, o->backend_name, tier, r->error);
    }
}
