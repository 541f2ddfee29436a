// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "runtime.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cudart.h"
#include "driver.h"
#include "node.h"

static __thread int current;

int runtime_device(void) { return current; }

static int compute(bool minor) {
  int parts[2];
  node_compute(&parts[0], &parts[1]);
  return parts[minor];
}

// Numbers are those of enum cudaDeviceAttr.
int runtime_attribute(int attribute, int device) {
  switch (attribute) {
    case 1: case 2: case 3: return 1024;   // threads of a block
    case 8: return 48 << 10;               // shared memory of a block
    case 10: return 32;                    // warp
    case 16: return 108;                   // multiprocessors
    case 33: return (int)node_pci_bus(node_gpu_of_device(device));
    case 39: return 2048;                  // threads of a multiprocessor
    case 41: case 95: case 99: case 115: case 119: return 1;  // unified addresses, cooperative launch, host registration, pools
    case 75: return compute(false);        // compute capability
    case 76: return compute(true);
    case 81: return 164 << 10;             // shared memory of a multiprocessor
    case 97: return 163 << 10;             // shared memory of a block that asks for it
    default: return 0;
  }
}

const char *runtime_error_text(int error) {
  static const struct {
    int error;
    const char *text;
  } texts[] = {
      {CUDA_OK, "no error"},
      {CUDA_INVALID_VALUE, "invalid argument"},
      {CUDA_OUT_OF_MEMORY, "out of memory"},
      {CUDA_DEVICES_UNAVAILABLE, "the GPU is lost"},
      {CUDA_NO_DEVICE, "no GPU"},
      {CUDA_INVALID_DEVICE, "invalid device"},
      {CUDA_INVALID_HANDLE, "invalid handle"},
      {CUDA_NOT_READY, "not ready"},
      {CUDA_LAUNCH_FAILURE, "the kernel failed"},
      {CUDA_NOT_SUPPORTED, "not played"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (texts[i].error == error) return texts[i].text;
  }
  return "error of the played GPU";
}

int cudaGetDeviceCount(int *n) {
  *n = node_devices();
  return *n ? CUDA_OK : CUDA_NO_DEVICE;
}
int cudaGetDevice(int *device) { return *device = current, CUDA_OK; }
int cudaSetDevice(int device) {
  if (node_gpu_of_device(device) < 0) return CUDA_INVALID_DEVICE;
  current = device;
  return CUDA_OK;
}
int cudaDeviceGetAttribute(int *value, int attribute, int device) { return *value = runtime_attribute(attribute, device), CUDA_OK; }
int cudaDeviceGetPCIBusId(char *id, int size, int device) {
  char text[NODE_PCI_TEXT];
  node_pci_text(node_gpu_of_device(device), text);
  return snprintf(id, (size_t)size, "%s", text) < size ? CUDA_OK : CUDA_INVALID_VALUE;
}
int cudaDeviceGetByPCIBusId(int *device, const char *id) {
  unsigned domain, bus;
  if (sscanf(id, "%x:%x:", &domain, &bus) != 2) return CUDA_INVALID_VALUE;
  for (*device = 0; *device < node_devices(); ++*device) {
    if (domain == 0 && bus == node_pci_bus(node_gpu_of_device(*device))) return CUDA_OK;
  }
  return CUDA_INVALID_DEVICE;
}
int cudaDeviceCanAccessPeer(int *can, int a, int b) { return *can = node_p2p() && a != b, CUDA_OK; }
int cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  static unsigned char enabled[NODE_GPUS_MAX][NODE_GPUS_MAX];
  (void)flags;
  if (node_gpu_of_device(peer) < 0 || peer == current) return CUDA_INVALID_DEVICE;
  if (!node_p2p()) return CUDA_PEER_ACCESS_UNSUPPORTED;
  return __atomic_exchange_n(&enabled[current][peer], 1, __ATOMIC_RELAXED) ? CUDA_PEER_ACCESS_ALREADY : CUDA_OK;
}
int cudaDeviceSetLimit(int limit, size_t value) { return (void)limit, (void)value, CUDA_OK; }
int cudaDeviceGetLimit(size_t *value, int limit) { return (void)limit, *value = 1024, CUDA_OK; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, CUDA_OK; }
int cudaDriverGetVersion(int *version) { return *version = RUNTIME_VERSION, CUDA_OK; }
int cudaRuntimeGetVersion(int *version) { return *version = RUNTIME_VERSION, CUDA_OK; }
int cudaGetLastError(void) { return CUDA_OK; }
int cudaPeekAtLastError(void) { return CUDA_OK; }
const char *cudaGetErrorString(int error) { return runtime_error_text(error); }
const char *cudaGetErrorName(int error) { return error ? "cudaError" : "cudaSuccess"; }

// Members of CUDA 12's cudaDeviceProp that are read: name 0, total memory 288, warp size 308, compute capability 360 and 364.
int cudaGetDeviceProperties_v2(char *p, int device) {
  const size_t memory = RUNTIME_MEMORY_BYTES;
  const int warp = 32, major = runtime_attribute(75, device), minor = runtime_attribute(76, device);
  memset(p, 0, 512);
  strcpy(p, "Played GPU");
  memcpy(p + 288, &memory, sizeof memory);
  memcpy(p + 308, &warp, sizeof warp);
  memcpy(p + 360, &major, sizeof major);
  memcpy(p + 364, &minor, sizeof minor);
  return CUDA_OK;
}
int cudaGetDeviceProperties(char *p, int device) { return cudaGetDeviceProperties_v2(p, device); }

int cudaFuncGetAttributes(void *attributes, const void *function) { return (void)function, memset(attributes, 0, 64), CUDA_OK; }
int cudaFuncSetAttribute(const void *function, int attribute, int value) { return (void)function, (void)attribute, (void)value, CUDA_OK; }
int cudaGetFuncBySymbol(const void **function, const void *symbol) { return *function = symbol, CUDA_OK; }

int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status) {
  (void)flags;
  *function = driver_entry_point(name);
  if (status) *status = 0;
  return CUDA_OK;
}
int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags, int *status) {
  return (void)version, cudaGetDriverEntryPoint(name, function, flags, status);
}
