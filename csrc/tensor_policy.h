/* tensor_policy.h - which element type each tensor of a talker or codec file gets: the one table that converter, quantizer, loader and
 * inspect ask. docs/quantization.md says why each rule is there. */
#ifndef QT_TENSOR_POLICY_H
#define QT_TENSOR_POLICY_H

#include "error.h"

/* Why this tensor is F32 in every file (static text), or NULL where it may be of another type. */
const char * policy_f32_reason(const char * name, int32_t n_dims, const int64_t * ne);

/* The variants a file can be written in, F32 first; NULL out of range. */
const char * policy_variant_name(int32_t index);

enum qt_status policy_type(const char * variant, const char * predictor_type, const char * name, int32_t n_dims, const int64_t * ne, int32_t n_layers,
                           int32_t * type, const char ** reason);

#endif
