// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The three driver calls needed, by their published signatures: CUresult is an int with 0 for success, CUdevice an int,
// CUuuid 16 bytes.
typedef int (*ctx_get_device)(int *device);
typedef int (*device_get_uuid)(unsigned char *uuid, int device);
typedef int (*device_get_pci_bus_id)(char *id, int bytes, int device);

static void *symbol(void *library, const char *name, const char *fallback) {
  void *s = dlsym(library, name);
  return s == NULL && fallback != NULL ? dlsym(library, fallback) : s;
}

// driver gives the driver's library, NULL where the process has not loaded it or nobody may ask.
static void *driver(void) {
  const char *wanted = getenv("CULPRIT_CUDA");
  return wanted != NULL && strcmp(wanted, "0") == 0 ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

int32_t gpu_current(void) {
  void *cuda = driver();
  if (cuda == NULL) return -1;
  ctx_get_device current;
  *(void **)&current = symbol(cuda, "cuCtxGetDevice", NULL);
  int device = -1;
  if (current != NULL && current(&device) != 0) device = -1;
  dlclose(cuda);
  return device;
}

void gpu_describe(int32_t device, char *uuid, size_t uuid_bytes, char *pci_bus_id, size_t pci_bytes) {
  void *cuda = device < 0 ? NULL : driver();
  if (cuda == NULL) return;
  device_get_uuid get_uuid;
  device_get_pci_bus_id get_pci;
  *(void **)&get_uuid = symbol(cuda, "cuDeviceGetUuid_v2", "cuDeviceGetUuid");
  *(void **)&get_pci = symbol(cuda, "cuDeviceGetPCIBusId", NULL);
  unsigned char u[16];
  if (get_uuid != NULL && get_uuid(u, device) == 0) {
    snprintf(uuid, uuid_bytes, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
  }
  char id[24] = {0};
  if (get_pci != NULL && get_pci(id, sizeof id, device) == 0) snprintf(pci_bus_id, pci_bytes, "%s", id);
  dlclose(cuda);
}
