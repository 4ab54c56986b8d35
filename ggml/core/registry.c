/* registry.c - the devices this build has, in order of preference, and the calls on a device. */
#include "internal.h"

typedef ggml_backend_dev_t (*device_fn)(void);

static const device_fn devices[] = { ggml_backend_cpu_device };

size_t ggml_backend_dev_count(void) { return sizeof devices / sizeof devices[0]; }

ggml_backend_dev_t ggml_backend_dev_get(size_t index) { return index < ggml_backend_dev_count() ? devices[index]() : NULL; }

/* ASCII letters of either case; not strcasecmp, which follows the locale. */
static bool same_name(const char * a, const char * b) {
    for (; *a && *b; a++, b++) {
        char x = *a >= 'A' && *a <= 'Z' ? (char) (*a + 32) : *a;
        char y = *b >= 'A' && *b <= 'Z' ? (char) (*b + 32) : *b;
        if (x != y) {
            return false;
        }
    }
    return *a == *b;
}

ggml_backend_dev_t ggml_backend_dev_by_name(const char * name) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        if (device && same_name(name, ggml_backend_dev_name(device))) {
            return device;
        }
    }
    return NULL;
}

ggml_backend_dev_t ggml_backend_dev_by_type(enum ggml_backend_dev_type type) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        if (device && ggml_backend_dev_type(device) == type) {
            return device;
        }
    }
    return NULL;
}

const char * ggml_backend_dev_name(ggml_backend_dev_t device) { return device->iface.get_name(device); }
const char * ggml_backend_dev_description(ggml_backend_dev_t device) { return device->iface.get_description(device); }
enum ggml_backend_dev_type ggml_backend_dev_type(ggml_backend_dev_t device) { return device->iface.get_type(device); }
ggml_backend_t ggml_backend_dev_init(ggml_backend_dev_t device, const char * params) { return device->iface.init_backend(device, params); }
ggml_backend_buffer_type_t ggml_backend_dev_buffer_type(ggml_backend_dev_t device) { return device->iface.get_buffer_type(device); }
bool ggml_backend_dev_supports_op(ggml_backend_dev_t device, const struct ggml_tensor * op) { return device->iface.supports_op(device, op); }

ggml_backend_buffer_t ggml_backend_dev_buffer_from_host_ptr(ggml_backend_dev_t device, void * ptr, size_t size, size_t max_tensor_size) {
    return device->iface.buffer_from_host_ptr ? device->iface.buffer_from_host_ptr(device, ptr, size, max_tensor_size) : NULL;
}
