/* log.c - the two ways a message leaves the library: the log callback and the abort callback.
 * Without a log callback the library is silent. ggml_abort ends the process, so its text also goes to stderr when nobody took it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define MESSAGE_BYTES 1024 /* longer messages are cut; the longest of our own has under 400 */

static ggml_log_callback log_callback;
static void * log_user_data;
static ggml_abort_callback_t abort_callback;

void ggml_log_set(ggml_log_callback callback, void * user_data) {
    log_callback = callback;
    log_user_data = user_data;
}

void ggml_log_internal(enum ggml_log_level level, const char * fmt, ...) {
    if (!log_callback) {
        return;
    }
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log_callback(level, text, log_user_data);
}

ggml_abort_callback_t ggml_set_abort_callback(ggml_abort_callback_t callback) {
    ggml_abort_callback_t previous = abort_callback;
    abort_callback = callback;
    return previous;
}

void ggml_abort(const char * file, int line, const char * fmt, ...) {
    char text[MESSAGE_BYTES];
    int n = snprintf(text, sizeof text, "%s:%d: ", file, line);
    if (n > 0 && (size_t) n < sizeof text) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(text + n, sizeof text - (size_t) n, fmt, args);
        va_end(args);
    }
    if (abort_callback) {
        abort_callback(text);
    } else {
        fprintf(stderr, "%s\n", text);
    }
    abort();
}
