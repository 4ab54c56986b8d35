/* log.c - one callback for the process. ggml's messages are passed on, without their trailing newline. */
#include "log.h"

#include <ggml.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static qt_log_cb log_callback;
static void * log_user_data;

static void emit(enum qt_log_level level, const char * message) {
    pthread_mutex_lock(&lock);
    qt_log_cb callback = log_callback;
    void * user_data = log_user_data;
    pthread_mutex_unlock(&lock); /* before the call: the callback may log or set another callback */
    if (callback) {
        callback(level, message, user_data);
    }
}

static void forward(enum ggml_log_level level, const char * text, void * user_data) {
    (void) user_data;
    char message[1024];
    snprintf(message, sizeof message, "%s", text);
    size_t end = strlen(message);
    while (end > 0 && (message[end - 1] == '\n' || message[end - 1] == '\r')) {
        message[--end] = '\0';
    }
    if (level == GGML_LOG_LEVEL_NONE || end == 0) {
        return;
    }
    emit(level == GGML_LOG_LEVEL_DEBUG ? QT_LOG_DEBUG : level == GGML_LOG_LEVEL_INFO ? QT_LOG_INFO
         : level == GGML_LOG_LEVEL_WARN ? QT_LOG_WARN : QT_LOG_ERROR, message);
}

void log_set(qt_log_cb callback, void * user_data) {
    pthread_mutex_lock(&lock);
    log_callback = callback;
    log_user_data = user_data;
    pthread_mutex_unlock(&lock);
    ggml_log_set(callback ? forward : NULL, NULL);
}

void log_write(enum qt_log_level level, const char * fmt, ...) {
    char message[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    emit(level, message);
}
