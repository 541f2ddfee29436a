// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef CULPRIT_TESTS_OTHERPLUGIN_H
#define CULPRIT_TESTS_OTHERPLUGIN_H

#include <stdint.h>

// What the other plugin has seen; its library exports one as other_counts.
struct other_counts {
  unsigned inits, finalizes, stops, states;
  unsigned starts[16];  // By bit of the event type.
  unsigned wrong;       // Pointers or values that are not what they must be.
  unsigned orphans;     // Events without a parent.
  uint64_t comm_id;
  uint64_t bytes;
  int nranks;
};

extern struct other_counts other_counts;

#endif
