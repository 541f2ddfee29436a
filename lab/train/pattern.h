// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Data whose sums are known. Element i of rank r is weight(r) * (1 + (i + salt) % 61): whole numbers, so that any order of
// adding gives the same float (1024 ranks stay far below 2^24).

#ifndef TRAIN_PATTERN_H
#define TRAIN_PATTERN_H

#include <stddef.h>
#include <stdint.h>

float pattern_weight(int rank);
// Of ranks 0 to nranks - 1 together.
float pattern_weight_of_all(int nranks);

// `first` is the index of data[0], salt included.
void pattern_fill(float *data, size_t count, uint64_t first, float weight);
// The first element that is wrong and what it should be; count if none is.
size_t pattern_check(const float *data, size_t count, uint64_t first, float weight, float *want);

#endif
