// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The inputs of the checks and the results they must have, for every type and operation. Inputs are small integers, so that sums
// and products are exact in every type.

#ifndef FAKEGPU_DEVICE_CHECK_VALUE_H
#define FAKEGPU_DEVICE_CHECK_VALUE_H

#include <stdbool.h>
#include <stddef.h>

// NCCL's numbers of types and operations.
enum data_type { I8, U8, I32, U32, I64, U64, F16, F32, F64, BF16, F8E4M3, F8E5M2, DATA_TYPES };
enum reduction_kind { SUM, PROD, MAX, MIN, AVG, PRE_MUL /* a sum, each input is doubled before */, KINDS };

size_t value_size(enum data_type type);  // bytes

// The index of a name ("f32", "sum"), -1 for another.
int value_type(const char *name);
int value_kind(const char *name);

// Element i of the buffer of a rank in a round.
void value_put(void *buffer, size_t at, enum data_type type, enum reduction_kind kind, int rank, size_t i, int round);

// Whether element `at` of the buffer is the operation's result for element i of the ranks from..to-1.
bool value_is(const void *buffer, size_t at, enum data_type type, enum reduction_kind kind, int from, int to, size_t i, int round);

// A number in a type, for a factor.
void value_number(void *to, enum data_type type, double number);

#endif
