// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Who this process is: rank, job, pod, host and GPU, as launchers and /proc tell.

#ifndef CULPRIT_IDENTITY_H
#define CULPRIT_IDENTITY_H

#include "culprit_trace.h"

// identity_fill writes the identity part of h (pid … shim_version). h is private memory or a file nobody reads yet.
void identity_fill(struct culprit_header *h);

// identity_gpu_index gives the node's number of a device that CUDA knows by another one in this process: its entry of
// CUDA_VISIBLE_DEVICES. -1 where that is no number.
int32_t identity_gpu_index(int32_t device);

// identity_start_ticks gives the start time of a process (field 22 of /proc/<pid>/stat), 0 when there is none.
uint64_t identity_start_ticks(uint32_t pid);

#endif
