/* values.h - are the values of a file's tensors ones that a network can compute with? Damaged files hold tensors of zeros or NaN, and a voice made
 * with them is silently wrong. */
#ifndef QT_VALUES_H
#define QT_VALUES_H

#include "file.h"

#define VALUES_ALL INT64_MAX

/* What is wrong with tensor index, NULL for nothing: NaN or infinity among its first n_most elements, or zeros alone (then all of it was read).
 * Biases and the logarithms of Snake may be zero. Types without floats have nothing wrong. */
const char * values_fault(const struct qt_file * file, int64_t index, int64_t n_most);

/* Every tensor whose name starts with prefix, its first elements (a page of each is read): what is wrong is logged as a warning. */
void values_warn(const struct qt_file * file, const char * prefix);
/* Every one of them, all of it: the first with a fault refuses the file; what values_warn cannot have seen is logged. */
enum qt_status values_check(const struct qt_file * file, const char * prefix);

#endif
