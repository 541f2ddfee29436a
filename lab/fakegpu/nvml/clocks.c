// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Clocks and what limits them, performance state, load, temperature, power and energy.

#include <stddef.h>

#include "gpu.h"

enum {
  IDLE_PSTATE = 8,
  MIN_POWER_LIMIT_MW = 100000,
  SHUTDOWN_CELSIUS = 95,
  SLOWDOWN_CELSIUS = 92,
  MAX_CELSIUS = 85,
  SENSOR_GPU = 0,
  REASONS_SUPPORTED = REASONS_ALL & ~0x100,  // No display.
};

static unsigned clock_now(const struct reading *r, unsigned domain) { return domain == CLOCK_MEMORY ? r->memory_mhz : r->sm_mhz; }
static unsigned clock_max(unsigned domain) { return domain == CLOCK_MEMORY ? MEMORY_MHZ : MAX_SM_MHZ; }

NVML_API int nvmlDeviceGetClockInfo(struct gpu *gpu, unsigned domain, unsigned *mhz) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!mhz || domain >= CLOCKS) return NVML_INVALID_ARGUMENT;
  *mhz = clock_now(&r, domain);
  return NVML_OK;
}

NVML_API int nvmlDeviceGetMaxClockInfo(struct gpu *gpu, unsigned domain, unsigned *mhz) {
  int result = gpu_check(gpu);
  if (result != NVML_OK) return result;
  if (!mhz || domain >= CLOCKS) return NVML_INVALID_ARGUMENT;
  *mhz = clock_max(domain);
  return NVML_OK;
}
ALIAS(nvmlDeviceGetMaxClockInfo, nvmlDeviceGetMaxCustomerBoostClock);
ALIAS(nvmlDeviceGetMaxClockInfo, nvmlDeviceGetApplicationsClock);
ALIAS(nvmlDeviceGetMaxClockInfo, nvmlDeviceGetDefaultApplicationsClock);

NVML_API int nvmlDeviceGetClock(struct gpu *gpu, unsigned domain, unsigned id, unsigned *mhz) {
  return id == 0 ? nvmlDeviceGetClockInfo(gpu, domain, mhz) : nvmlDeviceGetMaxClockInfo(gpu, domain, mhz);
}

GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, r.reasons)
ALIAS(nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetCurrentClocksThrottleReasons);
GETTER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, ((void)r, REASONS_SUPPORTED))
ALIAS(nvmlDeviceGetSupportedClocksEventReasons, nvmlDeviceGetSupportedClocksThrottleReasons);

GETTER(nvmlDeviceGetPerformanceState, int, r.busy_percent ? 0 : IDLE_PSTATE)
GETTER(nvmlDeviceGetPowerState, int, r.busy_percent ? 0 : IDLE_PSTATE)
GETTER(nvmlDeviceGetPowerUsage, unsigned, r.power_mw)
GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned, ((void)r, POWER_LIMIT_MW))
GETTER(nvmlDeviceGetPowerManagementLimit, unsigned, ((void)r, POWER_LIMIT_MW))
GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, ((void)r, POWER_LIMIT_MW))
GETTER(nvmlDeviceGetPowerManagementMode, int, ((void)r, 1))
GETTER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, r.energy_mj)

NVML_API int nvmlDeviceGetPowerManagementLimitConstraints(struct gpu *gpu, unsigned *min_mw, unsigned *max_mw) {
  if (!min_mw || !max_mw) return NVML_INVALID_ARGUMENT;
  *min_mw = MIN_POWER_LIMIT_MW;
  *max_mw = POWER_LIMIT_MW;
  return gpu_check(gpu);
}

NVML_API int nvmlDeviceGetTemperature(struct gpu *gpu, int sensor, unsigned *celsius) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!celsius || sensor != SENSOR_GPU) return NVML_INVALID_ARGUMENT;
  *celsius = r.celsius;
  return NVML_OK;
}

NVML_API int nvmlDeviceGetTemperatureV(struct gpu *gpu, struct temperature *t) {
  if (!t) return NVML_INVALID_ARGUMENT;
  if (t->version != NVML_VERSION(struct temperature, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
  unsigned celsius = 0;
  int result = nvmlDeviceGetTemperature(gpu, t->sensor, &celsius);
  t->celsius = (int)celsius;
  return result;
}

NVML_API int nvmlDeviceGetTemperatureThreshold(struct gpu *gpu, unsigned which, unsigned *celsius) {
  static const unsigned thresholds[] = {SHUTDOWN_CELSIUS, SLOWDOWN_CELSIUS, SHUTDOWN_CELSIUS, MAX_CELSIUS};
  int result = gpu_check(gpu);
  if (result != NVML_OK) return result;
  if (!celsius) return NVML_INVALID_ARGUMENT;
  if (which >= sizeof thresholds / sizeof *thresholds) return NVML_NOT_SUPPORTED;
  *celsius = thresholds[which];
  return NVML_OK;
}

NVML_API int nvmlDeviceGetUtilizationRates(struct gpu *gpu, struct utilization *u) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!u) return NVML_INVALID_ARGUMENT;
  *u = (struct utilization){r.busy_percent, r.memory_percent};
  return NVML_OK;
}

// unused gives the load of an engine that nothing uses, and the time over which it was measured in microseconds.
static int unused(const struct gpu *gpu, unsigned *percent, unsigned *period_us) {
  if (!percent || !period_us) return NVML_INVALID_ARGUMENT;
  *percent = 0;
  *period_us = 200000;
  return gpu_check(gpu);
}

NVML_API int nvmlDeviceGetEncoderUtilization(struct gpu *gpu, unsigned *percent, unsigned *period_us) { return unused(gpu, percent, period_us); }
NVML_API int nvmlDeviceGetDecoderUtilization(struct gpu *gpu, unsigned *percent, unsigned *period_us) { return unused(gpu, percent, period_us); }
