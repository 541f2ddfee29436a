// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The order in which a pipeline stage works through the microbatches of a step.

#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdbool.h>

enum schedule_kind { SCHEDULE_1F1B, SCHEDULE_GPIPE, SCHEDULE_INTERLEAVED };

// What a stage exchanges with both of its neighbours in one group; below 0: nothing. The numbers name what crosses the edge into a chunk
// of a microbatch: sender and receiver give the same.
struct rotation {
  int forward_out, forward_in;    // To the next stage, from the previous one.
  int backward_out, backward_in;  // To the previous stage, from the next one.
};


struct schedule {
  enum schedule_kind kind;
  int stage, stages, micros;
  int chunks;  // Of a stage, interleaved: the stages are gone through so often.
  void *context;
  // One forward or backward pass of a microbatch.
  void (*pass)(void *context, int micro, bool forward);
  // Sends and receives with the next stage, or with the previous one, in one group; a microbatch below 0 is none.
  void (*exchange)(void *context, bool with_next, int send_micro, int recv_micro);
  // Interleaved, where the last stage's next one is the first.
  void (*rotate)(void *context, const struct rotation *rotation);
};

void schedule_run(const struct schedule *schedule);

#endif
