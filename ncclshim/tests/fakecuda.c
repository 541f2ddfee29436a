// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for the CUDA driver (libcuda.so.1) in the tests: device FAKECUDA_DEVICE is current, else 3.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuCtxGetDevice(int *device);
int cuDeviceGetUuid_v2(unsigned char *uuid, int device);
int cuDeviceGetPCIBusId(char *id, int bytes, int device);

int cuCtxGetDevice(int *device) {
  const char *current = getenv("FAKECUDA_DEVICE");
  *device = current != NULL ? atoi(current) : 3;
  return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
  memset(uuid, 0xa0 + device, 16);
  return 0;
}

int cuDeviceGetPCIBusId(char *id, int bytes, int device) {
  snprintf(id, (size_t)bytes, "0000:%02X:00.0", 0x18 + device);
  return 0;
}
