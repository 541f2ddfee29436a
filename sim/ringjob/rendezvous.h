// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// How ranks find each other: a directory of small files.
//
//   rank.N.port       listening port of rank N
//   unique_id         hex, written by rank 0: the ncclUniqueId
//   split.ID.K.R      what rank R of communicator ID said at its K-th all-gather
//   control           one page shared by all ranks: the end of the run, see below
//
// Files appear complete (written aside, then renamed). Every wait ends the process after the rendezvous timeout.

#ifndef RINGJOB_RENDEZVOUS_H
#define RINGJOB_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"

// Publishes `port` and waits for the ports of all ranks; returns them, indexed by rank.
uint16_t *rendezvous_meet(const struct options *options, uint16_t port, uint64_t *unique_id);

// All-gathers one (color, key) pair among the members of a communicator; entry r of the results is rank r's.
void rendezvous_gather(uint64_t comm_id, int round, int rank, int nranks, int color, int key, int *colors, int *keys);

// The control page. It stands outside of the model: real jobs have a scheduler that ends them together.

// Enters training step `step`; false when the job ends before it. No rank runs a step that another will not run.
bool control_step_begin(uint64_t step);
// Makes the job end after the last step that any rank has begun.
void control_request_stop(void);
// Sums are not checked any more, on no rank: an operation was called that does not fit.
void control_taint(void);
bool control_tainted(void);
// Waits, at most `timeout_ns`, until all ranks are here; false when some did not come.
bool control_finish(int world_size, uint64_t timeout_ns);

#endif
