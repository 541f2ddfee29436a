// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Faults: what goes wrong on this rank, and since when.
//
// A fault is armed by a flag and begins at a step, after a time, or on SIGUSR1. While it is on, the places below ask for
// it. It ends after its duration or on SIGUSR2, where that means anything.

#ifndef RINGJOB_FAULT_H
#define RINGJOB_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#define FAULTS_MAX 8

struct comm;
struct conn;
struct op;
struct options;

// Adds a fault from KIND[=VALUE][:key=value…]; dies on nonsense. fault_modify sets one key of the last one added.
void fault_add(const char *spec);
void fault_modify(const char *key, const char *value);
// Drops the faults of other ranks.
void fault_arm(const struct options *options);
// Training begins: times of --fault-after count from here.
void fault_start_clock(void);
// Prints the kinds.
void fault_usage(void);

// Driven by the control thread: SIGUSR1, SIGUSR2, and the passing of time; the last returns the next time of interest.
void fault_signal_start(void);
void fault_signal_clear(void);
uint64_t fault_tick(uint64_t now);

// User thread: a training step begins (checkpoints and slow first steps happen inside).
void fault_step(uint64_t step);
// User thread: an operation is about to be called on `comm`; may not return for long. True: call another operation, as
// fault_other_op says.
bool fault_before_op(const struct comm *comm, bool collective);
// "allgather", "reducescatter" or "size".
const char *fault_other_op(void);
// User thread: inside the call, before the kernel is launched; may not return for long.
void fault_before_launch(const struct comm *comm);
// User thread: whether the barrier comes before the gradients in this step.
bool fault_swap_order(void);
// GPU thread: before a kernel starts; may not return for long.
void fault_before_kernel(const struct comm *comm);
// GPU thread: factor on compute time.
double fault_compute_factor(void);
// GPU thread: whether it stands still now, inside a kernel of `comm` after `slices` of `total`.
bool fault_gpu_frozen(const struct comm *comm, uint64_t slices, uint64_t total);
// Proxy thread: extra time before each transfer, ns.
uint64_t fault_proxy_delay(void);
// Proxy thread: whether arrived transfers are never given to the GPU, and how much later they are, ns.
bool fault_flush_stalled(const struct comm *comm);
uint64_t fault_flush_delay(const struct comm *comm);
// Proxy thread: whether the network edge delivers nothing, and its share of the bandwidth.
bool fault_link_stalled(const struct conn *conn);
double fault_link_share(const struct conn *conn);

// The process is being torn down: whoever is held by a fault returns.
void abort_set(void);
bool abort_requested(void);

#endif
