// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The order in which a pipeline stage works through the microbatches of a step.

#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdbool.h>

enum schedule_kind { SCHEDULE_1F1B, SCHEDULE_GPIPE };

struct schedule {
  enum schedule_kind kind;
  int stage, stages, micros;
  void *context;
  // One forward or backward pass of a microbatch.
  void (*pass)(void *context, int micro, bool forward);
  // Sends and receives with the next stage, or with the previous one, in one group; a microbatch below 0 is none.
  void (*exchange)(void *context, bool with_next, int send_micro, int recv_micro);
};

void schedule_run(const struct schedule *schedule);

#endif
