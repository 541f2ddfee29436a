// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Faults: what goes wrong on the ranks of this process, and since when.
//
// A fault is armed by a flag and begins at a step, after a time, or on SIGUSR1. While it is on, the places below ask for
// it. It ends after its duration or on SIGUSR2, where that means anything. Communicators are told apart by name.

#ifndef TRAIN_FAULT_H
#define TRAIN_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "fault_spec.h"

// Adds a fault from KIND[=VALUE][:key=value…]; dies on nonsense. fault_modify sets one key of the last one added.
void fault_add(const char *spec);
void fault_modify(const char *key, const char *value);
// Drops the faults of ranks outside [first, first + count). `comm` is the communicator of a fault that names none, `dir` where
// a checkpoint is written.
void fault_arm(int first, int count, const char *comm, const char *dir);
// The calling thread acts for this rank alone. A thread that never says so acts for all ranks of the process.
void fault_of_thread(int rank);
// The process begins: so do faults that lie before training.
void fault_start(void);
// Training begins: times of --fault-after count from here.
void fault_start_clock(void);
// Prints the kinds that the program has.
void fault_usage(void);

// Driven by the control thread: SIGUSR1, SIGUSR2, and the passing of time; the last returns the next time of interest.
void fault_signal_start(void);
void fault_signal_clear(void);
uint64_t fault_tick(uint64_t now);

// User thread: a training step begins (checkpoints, slow first steps and late data happen inside).
void fault_step(uint64_t step);
// User thread: an operation is about to be called on `comm`; may not return for long. True: call another operation, as
// fault_other_op says.
bool fault_before_op(const char *comm, bool collective);
// "allgather", "reducescatter" or "size".
const char *fault_other_op(void);
// User thread: whether the barrier comes before the gradients in this step.
bool fault_swap_order(void);

// For the places that belong to one program.

// The first fault of the kind that is on for the communicator; NULL none, or no communicator asked for.
struct fault *fault_find(enum fault_kind kind, const char *comm);
// As that, for a link to the world rank `peer` on a channel.
struct fault *fault_find_link(enum fault_kind kind, const char *comm, int peer, int channel);
// The fault does something now: announced once.
void fault_feel(struct fault *fault);
// The fault is over.
void fault_end(struct fault *fault);
// Keeps the calling thread while a fault of the kind is on; `spin` keeps its core busy, too.
void fault_hold(enum fault_kind kind, const char *comm, bool spin);

// The process is being torn down: whoever is held by a fault returns.
void abort_set(void);
bool abort_requested(void);

#endif
