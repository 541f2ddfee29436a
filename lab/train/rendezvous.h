// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// How ranks find each other: a directory of small files, and one page that all of them share.
//
// Files appear complete (written aside, then renamed). Every wait ends the process after the rendezvous timeout.

#ifndef TRAIN_RENDEZVOUS_H
#define TRAIN_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

// Before anything else here.
void rendezvous_open(const char *dir, uint64_t timeout_ns);
// Writes one line for the others.
void rendezvous_publish(const char *name, const char *text);
// Reads the line of a published file, waiting for it.
void rendezvous_await(const char *name, char *text, int size);

// The control page. It stands outside of what is played: real jobs have a scheduler that ends them together.

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
