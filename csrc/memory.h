/* memory.h - how much memory this process may still take. */
#ifndef QT_MEMORY_H
#define QT_MEMORY_H

#include <stdint.h>

/* Bytes the system can give without swapping, cut by the limit of the control group; INT64_MAX where the system does not say. */
int64_t memory_available_bytes(void);
/* Memory that was freed and is kept for the next allocation goes back to the system, where the C library can. */
void memory_trim(void);

#endif
