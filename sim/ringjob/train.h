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

// Steps until the end of the job; false if the process is being torn down.
bool train(const struct job *job);
// Runs operations of all kinds and sizes instead.
bool selftest(const struct job *job);

#endif
