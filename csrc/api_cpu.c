/* api_cpu.c - the processor as qwentts.h describes it: facts for reports, and what a context would use by default. */
#include "qwentts.h"

#include <ggml-backend.h>
#include <ggml-cpu.h>

const char * qt_cpu_name(void) {
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    return device ? ggml_backend_dev_description(device) : "";
}

const char * qt_cpu_features(void) {
    return ggml_cpu_features();
}

const char * qt_cpu_tiers(void) {
    return ggml_cpu_tiers_available();
}

const char * qt_cpu_tier(void) {
    return ggml_cpu_tier_default();
}

int qt_cpu_quota(void) {
    return ggml_cpu_quota_cores();
}

int qt_cpu_default_threads(void) {
    return ggml_cpu_default_n_threads();
}
