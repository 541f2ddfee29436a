// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Faults that act inside the model of NCCL, its GPU and its network.

#ifndef RINGJOB_FAULT_MODEL_H
#define RINGJOB_FAULT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"

struct comm;
struct conn;

// User thread: inside the call, before the kernel is launched; may not return for long.
void fault_before_launch(const struct comm *comm);
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

#endif
