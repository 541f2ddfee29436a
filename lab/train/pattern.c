// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "pattern.h"

#define PERIOD 61u

float pattern_weight(int rank) { return (float)(rank % 16 + 1); }

float pattern_weight_of_all(int nranks) {
  float sum = 0;
  for (int r = 0; r < nranks; r++) sum += pattern_weight(r);
  return sum;
}

void pattern_fill(float *data, size_t count, uint64_t first, float weight) {
  uint32_t phase = (uint32_t)(first % PERIOD);
  for (size_t i = 0; i < count; i++) {
    data[i] = weight * (float)(1 + phase);
    if (++phase == PERIOD) phase = 0;
  }
}

size_t pattern_check(const float *data, size_t count, uint64_t first, float weight, float *want) {
  uint32_t phase = (uint32_t)(first % PERIOD);
  for (size_t i = 0; i < count; i++) {
    *want = weight * (float)(1 + phase);
    if (data[i] != *want) return i;
    if (++phase == PERIOD) phase = 0;
  }
  return count;
}
