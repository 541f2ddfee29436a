// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Memory, its errors and repairs, and the processes that hold it.

#include <stddef.h>
#include <string.h>

#include "gpu.h"

enum { ERROR_CORRECTED, ERROR_UNCORRECTED, ERROR_TYPES };
enum { LOCATION_L1, LOCATION_L2, LOCATION_DEVICE_MEMORY, LOCATIONS = 8 };
enum { BANKS = 640 };

NVML_API int nvmlDeviceGetMemoryInfo(struct gpu *gpu, struct memory_info *m) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!m) return NVML_INVALID_ARGUMENT;
  *m = (struct memory_info){r.memory_total, r.memory_total - r.memory_used, r.memory_used};
  return NVML_OK;
}

NVML_API int nvmlDeviceGetMemoryInfo_v2(struct gpu *gpu, struct memory_info_v2 *m) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!m) return NVML_INVALID_ARGUMENT;
  if (m->version != NVML_VERSION(struct memory_info_v2, 2)) return NVML_ARGUMENT_VERSION_MISMATCH;
  *m = (struct memory_info_v2){m->version, r.memory_total, 0, r.memory_total - r.memory_used, r.memory_used};
  return NVML_OK;
}

NVML_API int nvmlDeviceGetBAR1MemoryInfo(struct gpu *gpu, struct bar1_info *bar1) {
  int result = gpu_check(gpu);
  if (result != NVML_OK) return result;
  if (!bar1) return NVML_INVALID_ARGUMENT;
  *bar1 = (struct bar1_info){MEMORY_BYTES, MEMORY_BYTES, 0};
  return NVML_OK;
}

GETTER(nvmlDeviceGetMemoryBusWidth, unsigned, ((void)r, 5120))

// Error counts. All errors are of the device memory, and none was before the machine started.

NVML_API int nvmlDeviceGetEccMode(struct gpu *gpu, int *current, int *pending) {
  if (!current || !pending) return NVML_INVALID_ARGUMENT;
  *current = *pending = 1;
  return gpu_check(gpu);
}
GETTER(nvmlDeviceGetDefaultEccMode, int, ((void)r, 1))

static unsigned long long errors(const struct reading *r, unsigned type) {
  return type == ERROR_CORRECTED ? r->ecc_corrected : r->ecc_uncorrected;
}

NVML_API int nvmlDeviceGetTotalEccErrors(struct gpu *gpu, unsigned type, unsigned period, unsigned long long *count) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!count || type >= ERROR_TYPES || period > 1) return NVML_INVALID_ARGUMENT;
  *count = errors(&r, type);
  return NVML_OK;
}

NVML_API int nvmlDeviceGetMemoryErrorCounter(struct gpu *gpu, unsigned type, unsigned period, unsigned location,
                                             unsigned long long *count) {
  if (location >= LOCATIONS) return NVML_INVALID_ARGUMENT;
  int result = nvmlDeviceGetTotalEccErrors(gpu, type, period, count);
  if (result == NVML_OK && location != LOCATION_DEVICE_MEMORY) *count = 0;
  return result;
}

NVML_API int nvmlDeviceGetDetailedEccErrors(struct gpu *gpu, unsigned type, unsigned period, struct ecc_counts *counts) {
  if (!counts) return NVML_INVALID_ARGUMENT;
  *counts = (struct ecc_counts){0};
  return nvmlDeviceGetTotalEccErrors(gpu, type, period, &counts->device_memory);
}

NVML_API int nvmlDeviceGetSramEccErrorStatus(struct gpu *gpu, struct sram_ecc_status *status) {
  if (!status) return NVML_INVALID_ARGUMENT;
  if (status->version != NVML_VERSION(struct sram_ecc_status, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
  *status = (struct sram_ecc_status){.version = status->version};
  return gpu_check(gpu);
}

// Rows are remapped on this GPU; pages were retired on older ones.
NVML_API int nvmlDeviceGetRemappedRows(struct gpu *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!corrected || !uncorrected || !pending || !failed) return NVML_INVALID_ARGUMENT;
  *corrected = 0;
  *uncorrected = r.rows_pending || r.rows_failed;
  *pending = r.rows_pending;
  *failed = r.rows_failed;
  return NVML_OK;
}

NVML_API int nvmlDeviceGetRowRemapperHistogram(struct gpu *gpu, struct row_histogram *histogram) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!histogram) return NVML_INVALID_ARGUMENT;
  unsigned used = r.rows_pending && !r.rows_failed, empty = r.rows_failed;
  *histogram = (struct row_histogram){.max = BANKS - used - empty, .high = used, .none = empty};
  return NVML_OK;
}

// Processes. Two numbers: how many fit, and how many there are.

enum { V1 = 1, V2 };

static int processes(const struct gpu *gpu, int version, unsigned *count, void *out) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!count) return NVML_INVALID_ARGUMENT;
  unsigned room = *count;
  *count = r.process_count;
  if (r.process_count == 0) return NVML_OK;
  if (room < r.process_count) return NVML_INSUFFICIENT_SIZE;
  if (!out) return NVML_INVALID_ARGUMENT;
  for (unsigned i = 0; i < r.process_count; i++) {
    if (version == V1) {
      ((struct process_v1 *)out)[i] = (struct process_v1){r.processes[i].pid, r.processes[i].memory};
    } else {
      ((struct process *)out)[i] = r.processes[i];
    }
  }
  return NVML_OK;
}

NVML_API int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *gpu, unsigned *count, void *out) { return processes(gpu, V2, count, out); }
ALIAS(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetComputeRunningProcesses_v2);
NVML_API int nvmlDeviceGetComputeRunningProcesses(struct gpu *gpu, unsigned *count, void *out) { return processes(gpu, V1, count, out); }

// none answers for kinds of processes that the host does not have.
static int none(const struct gpu *gpu, unsigned *count) {
  if (!count) return NVML_INVALID_ARGUMENT;
  *count = 0;
  return gpu_check(gpu);
}

NVML_API int nvmlDeviceGetGraphicsRunningProcesses_v3(struct gpu *gpu, unsigned *count, void *out) { return (void)out, none(gpu, count); }
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v2);
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses);
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses_v3);
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses_v2);
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses);
