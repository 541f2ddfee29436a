// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The arithmetic of NCCL's reductions on arrays.

#ifndef FAKEGPU_DEVICE_REDUCE_H
#define FAKEGPU_DEVICE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "functions.h"

size_t type_size(enum type type);  // bytes

// argument is the work's redOpArg: the factor of a sum with a factor before, the divisor (twice, plus 1 for signed integers) of a
// sum with a division after, what tells minimum from maximum.
struct reduction {
  enum operation op;
  enum type type;
  uint64_t argument;
};

// Whether each input is changed before, and the result after the elements are combined.
bool reduction_changes_input(const struct reduction *r);
bool reduction_changes_result(const struct reduction *r);

// to may be one of the inputs. None overlaps another in part.
void reduction_input(const struct reduction *r, void *to, const void *from, size_t n);
void reduction_combine(const struct reduction *r, void *to, const void *a, const void *b, size_t n);
void reduction_result(const struct reduction *r, void *data, size_t n);

#endif
