// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "driver.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cudart.h"
#include "divert.h"
#include "kernel.h"
#include "memory.h"
#include "node.h"
#include "runtime.h"

static char contexts[NODE_GPUS_MAX];  // a context is the address of its device's byte

static int get_error_string(int error, const char **text) { return *text = runtime_error_text(error), CUDA_OK; }
static int device_get(int *device, int index) { return *device = index, node_gpu_of_device(index) < 0 ? CUDA_INVALID_DEVICE : CUDA_OK; }
static int device_get_attribute(int *value, int attribute, int device) { return *value = runtime_attribute(attribute, device), CUDA_OK; }
static int device_get_uuid(uint8_t *uuid, int device) { return node_uuid(node_gpu_of_device(device), uuid), CUDA_OK; }
static int context_get(void **context) { return *context = &contexts[runtime_device()], CUDA_OK; }
static int context_set(char *context) { return context ? cudaSetDevice((int)(context - contexts)) : CUDA_OK; }
static int context_get_device(int *device) { return *device = runtime_device(), CUDA_OK; }
static int pointer_get_attribute(void *value, int attribute, const void *p) { return (void)attribute, (void)p, memset(value, 0, 4), CUDA_OK; }
static int granularity(size_t *bytes, const void *properties, int option) { return (void)properties, (void)option, *bytes = 2 << 20, CUDA_OK; }

static int address_range(void **base, size_t *size, const void *p) {
  struct memory_range range = memory_of(p);
  if (range.kind == MEMORY_NONE) return CUDA_NOT_FOUND;
  if (base) *base = range.base;
  if (size) *size = range.size;
  return CUDA_OK;
}

struct launch_config {
  unsigned grid[3], block[3], shared;
  struct stream *stream;
  void *attributes;
  unsigned attribute_count;
};

static int launch_ex(const struct launch_config *c, const void *function, void **params, void **extra) {
  return (void)params, kernel_launch(c->stream, function, extra);
}

static int launch(const void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                  struct stream *stream, void **params, void **extra) {
  return (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)params, kernel_launch(stream, function, extra);
}

void *driver_entry_point(const char *name) {
  static const struct {
    const char *name;
    void *function;
  } known[] = {
      {"cuGetErrorString", get_error_string},
      {"cuGetErrorName", get_error_string},
      {"cuDeviceGet", device_get},
      {"cuDeviceGetAttribute", device_get_attribute},
      {"cuDeviceGetUuid", device_get_uuid},
      {"cuCtxGetCurrent", context_get},
      {"cuCtxSetCurrent", context_set},
      {"cuCtxGetDevice", context_get_device},
      {"cuPointerGetAttribute", pointer_get_attribute},
      {"cuMemGetAddressRange", address_range},
      {"cuMemGetAllocationGranularity", granularity},
      {"cuLaunchKernelEx", launch_ex},
      {"cuLaunchKernel", launch},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (!strcmp(known[i].name, name)) return known[i].function;
  }
  return divert_stub(name);
}
