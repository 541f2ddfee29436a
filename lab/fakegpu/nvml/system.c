// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What NVML says of the machine: start and end, versions, error texts, confidential computing.

#include <stdio.h>
#include <string.h>

#include "gpu.h"

#define DRIVER_VERSION "580.95.05"
#define NVML_VERSION_TEXT "13.580.95.05"
enum { CUDA_VERSION = 13000 };

NVML_API int nvmlInit_v2(void) { return gpu_init(); }
ALIAS(nvmlInit_v2, nvmlInit);
NVML_API int nvmlInitWithFlags(unsigned flags) { return (void)flags, gpu_init(); }
NVML_API int nvmlShutdown(void) { return gpu_shutdown(); }

NVML_API const char *nvmlErrorString(int result) {
  static const char *const texts[] = {
      "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
      "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
      "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
      "GPU requires reset", "GPU access blocked by the operating system", "Driver/library version mismatch",
      "In use by another client", "Insufficient Memory", "No data", "ECC is not supported with this vGPU",
      "Insufficient Resources", "Frequency not supported", "Argument version mismatch", "Deprecated", "Not ready",
      "GPU not found", "Invalid state", "Reset type not supported",
  };
  return result >= 0 && (size_t)result < sizeof texts / sizeof *texts ? texts[result] : "Unknown Error";
}

static int text(char *out, unsigned size, const char *what) {
  int result = gpu_ready();
  return result == NVML_OK ? copy_text(out, size, what) : result;
}

NVML_API int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, DRIVER_VERSION); }
NVML_API int nvmlSystemGetNVMLVersion(char *out, unsigned size) { return text(out, size, NVML_VERSION_TEXT); }

NVML_API int nvmlSystemGetCudaDriverVersion(int *version) {
  if (!version) return NVML_INVALID_ARGUMENT;
  *version = CUDA_VERSION;
  return NVML_OK;
}
ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2);

NVML_API int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
  int result = gpu_ready();
  if (result != NVML_OK) return result;
  if (!out || size == 0) return NVML_INVALID_ARGUMENT;
  char path[32];
  snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  FILE *file = fopen(path, "r");
  if (!file) return NVML_NOT_FOUND;
  size_t n = fread(out, 1, size - 1, file);
  fclose(file);
  out[n] = 0;  // The first argument ends where its own zero is.
  return NVML_OK;
}

// The machine has no confidential computing.
NVML_API int nvmlSystemGetConfComputeState(struct conf_compute_state *state) {
  if (!state) return NVML_INVALID_ARGUMENT;
  *state = (struct conf_compute_state){0};
  return gpu_ready();
}

NVML_API int nvmlSystemGetConfComputeSettings(struct conf_compute_settings *settings) {
  if (!settings) return NVML_INVALID_ARGUMENT;
  if (settings->version != NVML_VERSION(struct conf_compute_settings, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
  *settings = (struct conf_compute_settings){.version = settings->version};
  return gpu_ready();
}

NVML_API int nvmlUnitGetCount(unsigned *count) {
  if (!count) return NVML_INVALID_ARGUMENT;
  *count = 0;
  return gpu_ready();
}

NVML_API int nvmlGetExcludedDeviceCount(unsigned *count) {
  if (!count) return NVML_INVALID_ARGUMENT;
  *count = 0;
  return NVML_OK;
}
