// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What a training step is made of: the state of a rank, its compute, its operations.

#ifndef NCCLRUN_WORK_H
#define NCCLRUN_WORK_H

#include "schedule.h"
#include "train.h"
#include "verified.h"

enum { NORM_COUNT = 2, BARRIER_COUNT = 1 };

struct train {
  const struct groups *groups;
  const struct options *options;
  int dp_index, stage;
  uint64_t step;
  bool swapped;  // In this step the barrier comes before the gradient.
  bool going;
  size_t tp_count, pp_count, dp_count, ep_count, cp_count;
  struct buffers tp, dp, ep, cp, world, rest, batch;
  struct buffers next, prev;  // To and from the neighbour stages.
  struct buffers other;       // Of a call that does not fit, once there was one.
  cudaEvent *done;            // Ends of the last steps, by step modulo ahead + 1.
  uint64_t *began_ns;         // When they began.
  cudaGraphExec graph;        // The passes of a step, once they have been captured.
  cudaEvent gathered[2];      // Parameters of the last two layers.
};

// Makes the data of operations differ; equal on all members of a communicator.
uint64_t salt_of(struct buffers *b);

// How long a pass of a microbatch takes. Batches differ between data-parallel replicas, not between the ranks that work on one.
double pass_ms(const struct train *t, int micro, bool forward);
// Keeps the compute stream busy.
bool compute(const struct train *t, double ms);

// All of these return false when the process is being torn down, and strike a fault that waits for an operation. Only those that say
// so have the compute stream wait for them.
bool all_reduce(struct train *t, struct buffers *b, size_t count);
bool all_reduce_joined(struct train *t, struct buffers *b, size_t count);
// An expert layer: tokens go to their experts and come back. Joined.
bool experts(struct train *t);
// The compute of some layers. Where sequences are divided, keys and values go round a ring beside it, and are joined.
bool layers(struct train *t, double ms);
// A bucket of the gradient.
bool gradient(struct train *t);
// A pass of a model whose parameters are divided, layer by layer: they are gathered one layer ahead; backward, gradients are scattered.
bool sharded_pass(struct train *t, double ms, bool forward);

// For struct schedule. `context` is the struct train.
void pipeline_exchange(void *context, bool with_next, int send_micro, int recv_micro);
void pipeline_rotate(void *context, const struct rotation *rotation);

#endif
