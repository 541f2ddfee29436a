// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Which GPUs there are, and what they are: handles, names, places.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gpu.h"

enum {
  DEVICE_ID = 0x20b010de,
  SUBSYSTEM_ID = 0x134f10de,
  ARCHITECTURE_VOLTA = 5,
  ARCHITECTURE_TURING,
  ARCHITECTURE_AMPERE,
  ARCHITECTURE_ADA,
  ARCHITECTURE_HOPPER,
  ARCHITECTURE_BLACKWELL,
  BRAND_NVIDIA = 14,
  BUS_PCIE = 2,
};

NVML_API int nvmlDeviceGetCount_v2(unsigned *count) {
  if (!count) return NVML_INVALID_ARGUMENT;
  *count = (unsigned)gpu_count();
  return gpu_ready();
}
ALIAS(nvmlDeviceGetCount_v2, nvmlDeviceGetCount);

// give answers with the handle of the GPU of that number, which has to be on its bus.
static int give(int index, struct gpu **out) {
  int result = gpu_ready();
  if (result != NVML_OK) return result;
  struct gpu *gpu = gpu_at(index);
  if (!gpu) return NVML_NOT_FOUND;
  result = gpu_check(gpu);
  if (result == NVML_OK) *out = gpu;
  return result;
}

NVML_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **out) {
  if (!out || index >= (unsigned)gpu_count()) return NVML_INVALID_ARGUMENT;
  return give((int)index, out);
}
ALIAS(nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetHandleByIndex);

NVML_API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct gpu **out) {
  unsigned domain, bus, device, function = 0;
  if (!id || !out) return NVML_INVALID_ARGUMENT;
  if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) return NVML_INVALID_ARGUMENT;
  int index = (int)(bus - node_pci_bus(0));
  return domain || device || function ? NVML_NOT_FOUND : give(index, out);
}
ALIAS(nvmlDeviceGetHandleByPciBusId_v2, nvmlDeviceGetHandleByPciBusId);

static void serial_of(int gpu, char text[32]) {
  char uuid[NODE_UUID_TEXT];
  node_uuid_text(gpu, uuid);
  snprintf(text, 32, "%013lu", strtoul(uuid + strlen("GPU-"), NULL, 16));
}

NVML_API int nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **out) {
  if (!uuid || !out) return NVML_INVALID_ARGUMENT;
  for (int i = 0; i < gpu_count(); i++) {
    char own[NODE_UUID_TEXT];
    node_uuid_text(i, own);
    if (!strcasecmp(own, uuid)) return give(i, out);
  }
  return NVML_NOT_FOUND;
}

NVML_API int nvmlDeviceGetHandleBySerial(const char *serial, struct gpu **out) {
  if (!serial || !out) return NVML_INVALID_ARGUMENT;
  for (int i = 0; i < gpu_count(); i++) {
    char own[32];
    serial_of(i, own);
    if (!strcmp(own, serial)) return give(i, out);
  }
  return NVML_NOT_FOUND;
}

// text gives a GPU's text after the checks.
static int text(const struct gpu *gpu, char *out, unsigned size, const char *what) {
  int result = gpu_check(gpu);
  return result == NVML_OK ? copy_text(out, size, what) : result;
}

NVML_API int nvmlDeviceGetName(struct gpu *gpu, char *out, unsigned size) { return text(gpu, out, size, "Fake GPU"); }
NVML_API int nvmlDeviceGetVbiosVersion(struct gpu *gpu, char *out, unsigned size) { return text(gpu, out, size, "00.00.00.00.00"); }
NVML_API int nvmlDeviceGetBoardPartNumber(struct gpu *gpu, char *out, unsigned size) { return text(gpu, out, size, "FAKE-GPU"); }

NVML_API int nvmlDeviceGetUUID(struct gpu *gpu, char *out, unsigned size) {
  char uuid[NODE_UUID_TEXT];
  int result = gpu_check(gpu);
  if (result != NVML_OK) return result;
  node_uuid_text(gpu_index(gpu), uuid);
  return copy_text(out, size, uuid);
}

NVML_API int nvmlDeviceGetSerial(struct gpu *gpu, char *out, unsigned size) {
  char serial[32];
  int result = gpu_check(gpu);
  if (result != NVML_OK) return result;
  serial_of(gpu_index(gpu), serial);
  return copy_text(out, size, serial);
}

// A lost GPU keeps its number.
NVML_API int nvmlDeviceGetIndex(struct gpu *gpu, unsigned *index) {
  int number = gpu_index(gpu);
  if (number < 0 || !index) return NVML_INVALID_ARGUMENT;
  *index = (unsigned)number;
  return gpu_ready();
}

// architecture is that of the GPUs' compute capability.
static unsigned architecture(void) {
  int major, minor;
  node_compute(&major, &minor);
  switch (major) {
    case 7: return minor < 5 ? ARCHITECTURE_VOLTA : ARCHITECTURE_TURING;
    case 8: return minor < 9 ? ARCHITECTURE_AMPERE : ARCHITECTURE_ADA;
    case 9: return ARCHITECTURE_HOPPER;
    default: return ARCHITECTURE_BLACKWELL;
  }
}

GETTER(nvmlDeviceGetMinorNumber, unsigned, ((void)r, gpu_index(gpu)))
GETTER(nvmlDeviceGetModuleId, unsigned, ((void)r, gpu_index(gpu)))
GETTER(nvmlDeviceGetBoardId, unsigned, ((void)r, node_pci_bus(gpu_index(gpu)) << 8))
GETTER(nvmlDeviceGetBrand, int, ((void)r, BRAND_NVIDIA))
GETTER(nvmlDeviceGetArchitecture, unsigned, ((void)r, architecture()))
GETTER(nvmlDeviceGetBusType, unsigned, ((void)r, BUS_PCIE))
GETTER(nvmlDeviceGetNumGpuCores, unsigned, ((void)r, 6912))
GETTER(nvmlDeviceGetMultiGpuBoard, unsigned, ((void)r, 0))
GETTER(nvmlDeviceGetPersistenceMode, int, ((void)r, 1))
GETTER(nvmlDeviceGetDisplayMode, int, ((void)r, 0))
GETTER(nvmlDeviceGetDisplayActive, int, ((void)r, 0))
GETTER(nvmlDeviceGetComputeMode, int, ((void)r, 0))
GETTER(nvmlDeviceGetAccountingMode, int, ((void)r, 0))
GETTER(nvmlDeviceGetMaxMigDeviceCount, unsigned, ((void)r, 0))
GETTER(nvmlDeviceIsMigDeviceHandle, unsigned, ((void)r, 0))
GETTER(nvmlDeviceGetNumaNodeId, unsigned, ((void)r, 0))

NVML_API int nvmlDeviceGetMigMode(struct gpu *gpu, unsigned *current, unsigned *pending) {
  if (!current || !pending) return NVML_INVALID_ARGUMENT;
  *current = *pending = 0;
  return gpu_check(gpu);
}

NVML_API int nvmlDeviceGetCudaComputeCapability(struct gpu *gpu, int *major, int *minor) {
  if (!major || !minor) return NVML_INVALID_ARGUMENT;
  node_compute(major, minor);
  return gpu_check(gpu);
}

static void fill(int gpu, struct pci_info *pci) {
  *pci = (struct pci_info){.bus = node_pci_bus(gpu), .device_id = DEVICE_ID, .subsystem_id = SUBSYSTEM_ID};
  snprintf(pci->bus_id_short, sizeof pci->bus_id_short, "0000:%02X:00.0", pci->bus);
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
}

NVML_API int nvmlDeviceGetPciInfo_v3(struct gpu *gpu, struct pci_info *pci) {
  int result = gpu_check(gpu);
  if (result != NVML_OK) return result;
  if (!pci) return NVML_INVALID_ARGUMENT;
  fill(gpu_index(gpu), pci);
  return NVML_OK;
}

NVML_API int nvmlDeviceGetPciInfo_v2(struct gpu *gpu, struct pci_info *pci) {
  int result = nvmlDeviceGetPciInfo_v3(gpu, pci);
  if (result == NVML_OK) memset(pci->bus_id, 0, 4 * sizeof(unsigned));  // Reserved here; the struct ends after them.
  return result;
}

NVML_API int nvmlDeviceGetPciInfo(struct gpu *gpu, struct pci_info_v1 *pci) {
  struct pci_info full;
  int result = nvmlDeviceGetPciInfo_v3(gpu, &full);
  if (result != NVML_OK) return result;
  if (!pci) return NVML_INVALID_ARGUMENT;
  memcpy(pci, &full, sizeof *pci);
  return NVML_OK;
}

NVML_API int nvmlDeviceGetPciInfoExt(struct gpu *gpu, struct pci_info_ext *pci) {
  struct pci_info info;
  int result = nvmlDeviceGetPciInfo_v3(gpu, &info);
  if (result != NVML_OK) return result;
  if (!pci) return NVML_INVALID_ARGUMENT;
  if (pci->version != NVML_VERSION(struct pci_info_ext, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
  *pci = (struct pci_info_ext){.version = pci->version, .bus = info.bus, .device_id = info.device_id,
                               .subsystem_id = info.subsystem_id, .base_class = 3, .sub_class = 2};
  memcpy(pci->bus_id, info.bus_id, sizeof pci->bus_id);
  return NVML_OK;
}
