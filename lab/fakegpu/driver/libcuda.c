// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// libcuda.so.1, for those that look for the driver among the loaded libraries: what they ask of the current device. NCCL itself
// gets the driver's functions from the runtime.

#include <stdint.h>

#include "../cudart.h"

enum { CUDA_NOT_PLAYED = 500 };

int cudaDeviceGetPCIBusId(char *id, int size, int device);
int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status);

int cuCtxGetDevice(int *device);
int cuDeviceGetUuid(uint8_t *uuid, int device);
int cuDeviceGetPCIBusId(char *id, int size, int device);

int cuCtxGetDevice(int *device) { return cudaGetDevice(device); }

int cuDeviceGetPCIBusId(char *id, int size, int device) { return cudaDeviceGetPCIBusId(id, size, device); }

int cuDeviceGetUuid(uint8_t *uuid, int device) {
  int (*function)(uint8_t *, int) = 0;
  int status;
  if (cudaGetDriverEntryPoint("cuDeviceGetUuid", (void **)&function, 0, &status) != CUDA_OK || !function) return CUDA_NOT_PLAYED;
  return function(uuid, device);
}
