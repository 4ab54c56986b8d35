/* error.c - the per-thread text of the last failure. It stays until the next failure, so a caller may read it late. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char text[1024];

enum qt_status error_set(enum qt_status status, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char next[sizeof text]; /* an argument may be the old text */
    vsnprintf(next, sizeof next, fmt, args);
    va_end(args);
    snprintf(text, sizeof text, "%s", next);
    return status;
}

const char * error_text(void) {
    return text;
}
