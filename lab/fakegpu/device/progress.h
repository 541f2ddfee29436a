// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the device tells the host about its progress: the counters and times from which NCCL's profiler makes KernelCh and
// KernelPhase events.

#ifndef FAKEGPU_DEVICE_PROGRESS_H
#define FAKEGPU_DEVICE_PROGRESS_H

#include <stdint.h>

#include "work.h"

// A channel's progress in one kernel.
struct progress {
  uint64_t works;              // before the batch, since the communicator was made
  uint64_t begun, first, last; // of the batch: its begin, its first and its last movement of data, CLOCK_REALTIME in ns
};

struct progress progress_open(const struct block *b);
void progress_close(const struct progress *p, const struct block *b);  // leaves the number of works for the next kernel

void progress_begin(struct progress *p, const struct block *b, const struct batch *batch);
void progress_move(struct progress *p);
void progress_end(struct progress *p, const struct block *b, const struct batch *batch);

#endif
