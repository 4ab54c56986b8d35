/* log.h - messages for the caller's callback; without one they go nowhere. */
#ifndef QT_LOG_H
#define QT_LOG_H

#include "error.h"

void log_set(qt_log_cb callback, void * user_data);
void log_write(enum qt_log_level level, const char * fmt, ...) QT_PRINTF(2, 3);

#endif
