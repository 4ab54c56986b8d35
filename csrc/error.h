/* error.h - the one way to fail: set this thread's message, return the status. qt_last_error() reads the message. */
#ifndef QT_ERROR_H
#define QT_ERROR_H

#include "include/qwentts.h"

#if defined(__GNUC__)
#  define QT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#  define QT_PRINTF(fmt, args)
#endif

/* Keep the text for this thread and return status. One line that names the field, the value and what is valid. */
enum qt_status error_set(enum qt_status status, const char * fmt, ...) QT_PRINTF(2, 3);
const char * error_text(void);

#define QT_FAIL(status, ...) error_set((status), __VA_ARGS__)
/* In an entry of qwentts.h: refuse a NULL argument by its name. */
#define QT_REQUIRE(pointer) do { if (!(pointer)) return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: " #pointer " is NULL", __func__); } while (0)
#define QT_TRY(call) do { enum qt_status qt_try_status_ = (call); if (qt_try_status_ != QT_STATUS_OK) return qt_try_status_; } while (0)

#endif
