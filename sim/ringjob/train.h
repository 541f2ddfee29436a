// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The training loop.

#ifndef RINGJOB_TRAIN_H
#define RINGJOB_TRAIN_H

#include <stdbool.h>

#include "comm.h"

// The communicators of a job; NULL where they would have one member.
struct job {
  const struct options *options;
  struct gpu *gpu;
  struct comm *world, *tp, *dp, *pp;
};

struct train;

struct train *train_new(const struct job *job);
// Steps until the end of the job; false if the process is being torn down.
bool train_run(struct train *train);
// After the end of the GPU, which uses its buffers.
void train_free(struct train *train);
// Runs operations of all kinds and sizes instead.
bool selftest(const struct job *job);
// Runs operations on many communicators for options.steps steps instead.
bool soak(const struct job *job);

#endif
