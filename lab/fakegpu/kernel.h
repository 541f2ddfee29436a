// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Kernels in streams: NCCL's, which the device side plays, and played compute.

#ifndef FAKEGPU_KERNEL_H
#define FAKEGPU_KERNEL_H

struct stream;

// Enqueues NCCL's kernel function with the arguments of `extra` (CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE).
int kernel_launch(struct stream *stream, const void *function, void **extra);

#endif
