// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// cudaLaunchKernel: what NCCL launches with it is the kernel of communicators of one rank.

#include "cudart.h"
#include "device/device.h"
#include "kernel.h"

struct grid {
  unsigned x, y, z;
};

int cudaLaunchKernel(const void *function, struct grid grid, struct grid block, void **parameters, size_t shared, cudaStream stream);

int cudaLaunchKernel(const void *function, struct grid grid, struct grid block, void **parameters, size_t shared, cudaStream stream) {
  (void)grid, (void)block, (void)shared;
  char args[64];
  size_t size = device_pack(function, parameters, args, sizeof args);
  if (!size) return CUDA_NOT_SUPPORTED;
  // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE
  void *extra[] = {(void *)1, args, (void *)2, &size, NULL};
  return kernel_launch(stream, function, extra);
}
