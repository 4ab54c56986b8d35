/* op_main.c - the command line of the op runner: which cases, which backend, what to count. See op_runner.c. */
#include "op_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_MOST = 125, EXIT_CANNOT_RUN = 126 };

static void log_to_stderr(enum ggml_log_level level, const char * text, void * user_data) {
    GGML_UNUSED(level);
    GGML_UNUSED(user_data);
    fprintf(stderr, "%s\n", text);
}

ggml_backend_t op_backend_open(const struct op_options * o) {
    ggml_backend_dev_t device = ggml_backend_dev_by_name(o->backend_name);
    return device ? ggml_backend_dev_init(device, NULL) : NULL;
}

bool op_case_selected(const struct op_options * o, const struct op_case * c) {
    bool by_op = !o->op || !strcmp(o->op, c->key) || !strcmp(o->op, ggml_op_name(c->op)) || !strcmp(o->op, op_family(c->op));
    return by_op && (!o->filter || strstr(c->text, o->filter));
}

static int test(ggml_backend_t backend, const struct op_options * o, const struct op_list * list) {
    int executed = 0, failed = 0, missing = 0;
    op_report_begin(backend, o, list);
    for (int i = 0; i < list->n; i++) {
        const struct op_case * c = &list->items[i];
        if (!op_case_selected(o, c)) {
            continue;
        }
        struct op_result r;
        op_report_case_begin(o, c);
        int verdict = op_run_case(backend, o, c, &r);
        op_report_case_end(backend, o, c, verdict, &r);
        executed += verdict >= 0;
        missing += verdict < 0;
        failed += verdict < 0 ? ggml_backend_is_cpu(backend) : verdict; /* the CPU must have everything */
    }
    if (!o->json) {
        printf("%d cases executed, %d failed, %d not supported; backend %s %s, seed %llu%s%s\n", executed, failed, missing, o->backend_name,
               ggml_backend_is_cpu(backend) ? ggml_cpu_tier_name(backend) : "-", (unsigned long long) o->seed, o->fault ? ", planted fault " : "",
               o->fault ? o->fault : "");
    }
    if (!executed) {
        fprintf(stderr, "no case was executed: that is a failure\n");
        return failed ? failed : 1;
    }
    return failed;
}

/* One row an op, one column a type: yes, no, some of the cases, or none with that type. */
static void support(ggml_backend_t backend, const struct op_options * o, const struct op_list * list) {
    static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,
                                            GGML_TYPE_Q5_1, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K };
    enum { N_TYPES = sizeof types / sizeof types[0] };
    printf("| op, %s |", o->backend_name);
    for (int t = 0; t < N_TYPES; t++) {
        printf(" %s |", ggml_type_name(types[t]));
    }
    printf("\n|---|");
    for (int t = 0; t < N_TYPES; t++) {
        printf("---|");
    }
    printf("\n");
    for (int i = 0; i < list->n; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++) {
            seen = !strcmp(list->items[j].key, list->items[i].key);
        }
        if (seen || strstr(list->items[i].key, "_WHOLE") || !op_case_selected(o, &list->items[i])) { /* the same products with other data */
            continue;
        }
        printf("| %s |", list->items[i].key);
        for (int t = 0; t < N_TYPES; t++) {
            int yes = 0, no = 0;
            for (int j = i; j < list->n; j++) {
                const struct op_case * c = &list->items[j];
                if (strcmp(c->key, list->items[i].key) != 0 || c->type != types[t]) {
                    continue;
                }
                char error[256];
                struct op_build b = { .ctx = ggml_init((struct ggml_init_params) { .mem_size = 32 * ggml_tensor_overhead(), .no_alloc = true }) };
                struct ggml_tensor * node = op_build_guarded(&b, c, error, sizeof error);
                *(node && ggml_backend_supports_op(backend, node) ? &yes : &no) += 1;
                ggml_free(b.ctx);
            }
            printf(" %s |", yes && no ? "some" : yes ? "yes" : no ? "no" : "");
        }
        printf("\n");
    }
}

static bool parse_threads(struct op_options * o, const char * text) {
    for (o->n_threads = 0; *text && o->n_threads < 8; text += *text == ',') {
        char * end;
        long n = strtol(text, &end, 10);
        if (end == text || n < 1 || n > 1024) {
            return false;
        }
        o->threads[o->n_threads++] = (int) n;
        text = end;
    }
    return o->n_threads > 0;
}

static int usage(const char * what) {
    fprintf(stderr, "op_runner: %s\nusage: op_runner test|perf|support|cases [--tiers] [--op NAME] [--filter TEXT] [--backend NAME] [--tier NAME]"
                    " [--threads 1,2,4] [--seed N] [--fault NAME] [--working-set-mb N] [--quiet | --json]\n", what);
    return EXIT_CANNOT_RUN;
}

int main(int argc, char ** argv) {
    struct op_options o = { .backend_name = "CPU", .threads = { 1, 2, 4 }, .n_threads = 3, .seed = 1, .working_set_bytes = (size_t) 256 << 20 };
    const char * mode = argc > 1 ? argv[1] : "";
    const char * tier = NULL;
    bool tiers = false;
    for (int i = 2; i < argc; i++) {
        const char * name = argv[i], * value = i + 1 < argc ? argv[i + 1] : NULL;
        bool * flag = !strcmp(name, "--quiet") ? &o.quiet : !strcmp(name, "--json") ? &o.json : !strcmp(name, "--tiers") ? &tiers : NULL;
        if (flag) {
            *flag = true;
            continue;
        }
        if (!value) {
            return usage("an option lacks its value");
        }
        if (!strcmp(name, "--op")) { o.op = value; }
        else if (!strcmp(name, "--filter")) { o.filter = value; }
        else if (!strcmp(name, "--backend")) { o.backend_name = value; }
        else if (!strcmp(name, "--tier")) { tier = value; }
        else if (!strcmp(name, "--fault")) { o.fault = value; }
        else if (!strcmp(name, "--seed")) { o.seed = strtoull(value, NULL, 10); }
        else if (!strcmp(name, "--working-set-mb")) { o.working_set_bytes = (size_t) strtoull(value, NULL, 10) << 20; }
        else if (strcmp(name, "--threads") != 0 || !parse_threads(&o, value)) { return usage("an option is not known, or its value is not valid"); }
        i++;
    }
    if (!strcmp(mode, "support") && tiers) {
        printf("%s\n", ggml_cpu_tiers_available());
        return 0;
    }
    if (tier) {
        setenv("QWENTTS_CPU_TIER", tier, 1);
    }
    ggml_log_set(log_to_stderr, NULL);
    struct op_list list = { 0 };
    op_list_fill(&list);
    int result = 0;
    ggml_backend_t backend = op_backend_open(&o);
    if (!strcmp(mode, "cases")) {
        for (int i = 0; i < list.n; i++) {
            printf("%-14s %s\n", list.items[i].key, list.items[i].text);
        }
    } else if (!backend) {
        fprintf(stderr, "op_runner: backend %s%s%s cannot be had; tiers of this processor: %s\n", o.backend_name, tier ? " with tier " : "", tier ? tier : "",
                ggml_cpu_tiers_available());
        result = EXIT_CANNOT_RUN;
    } else if (!strcmp(mode, "test")) {
        result = test(backend, &o, &list);
        result = result > EXIT_MOST ? EXIT_MOST : result;
    } else if (!strcmp(mode, "support")) {
        support(backend, &o, &list);
    } else if (!strcmp(mode, "perf")) {
        result = op_run_perf(backend, &o);
    } else {
        result = usage("the first argument is test, perf, support or cases");
    }
    op_list_free(&list);
    if (backend) {
        ggml_backend_free(backend);
    }
    return result;
}
