// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The "GPU": one stream, executed in order by one thread. Kernels wait for buffers as NCCL's do, by looking.

#ifndef RINGJOB_GPU_H
#define RINGJOB_GPU_H

#include <stdbool.h>
#include <stdint.h>

struct gpu;
struct plan;

struct gpu *gpu_new(void);
// Waits for the end of the current item only.
void gpu_free(struct gpu *gpu);

// Append to the stream.
void gpu_compute(struct gpu *gpu, uint64_t ns);
void gpu_kernel(struct gpu *gpu, struct plan *plan);
// `argument` is from malloc and freed behind the call.
void gpu_call(struct gpu *gpu, void (*function)(void *), void *argument);

// Waits until the stream is empty; false if the process is being torn down instead.
bool gpu_sync(struct gpu *gpu);

// A buffer was filled or emptied: a waiting kernel looks again.
void gpu_wake(void);

#endif
