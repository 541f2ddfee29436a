// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What a rank does once its communicators exist.

#ifndef NCCLRUN_TRAIN_H
#define NCCLRUN_TRAIN_H

#include <stdbool.h>

#include "comm.h"

// The communicators of a rank; NULL where they would have one member, or were not asked for.
struct groups {
  const struct rank *rank;
  struct comm *world, *tp, *dp, *pp, *ep, *cp, *rest;
};

// Steps until the end of the job; false if the process is being torn down.
bool train(const struct groups *groups);
// Runs the operations of options.selftest instead.
bool selftest(const struct groups *groups);

#endif
