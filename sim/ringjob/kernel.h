// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Execution of one plan on the GPU thread.

#ifndef RINGJOB_KERNEL_H
#define RINGJOB_KERNEL_H

#include "plan.h"

enum kernel_state {
  KERNEL_MOVED,    // Something was done; look again.
  KERNEL_WAITING,  // Every work waits for a buffer.
  KERNEL_FROZEN,   // A fault holds the GPU.
  KERNEL_DONE,
};

void kernel_begin(struct plan *plan);
enum kernel_state kernel_step(struct plan *plan);
// Marks the end (unless torn down) and gives the plan back.
void kernel_end(struct plan *plan);

#endif
