// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Field values: quantities by number, several at once. Monitoring asks for most of them so.

#include <stddef.h>
#include <time.h>

#include "gpu.h"

// Numbers of fields.
enum {
  FIELD_ECC_CURRENT = 1,
  FIELD_ECC_PENDING = 2,
  FIELD_ECC_CORRECTED_VOLATILE = 3,
  FIELD_ECC_UNCORRECTED_VOLATILE = 4,
  FIELD_ECC_CORRECTED = 5,
  FIELD_ECC_UNCORRECTED = 6,
  FIELD_NVLINK_CRC_FLIT = 38,
  FIELD_NVLINK_CRC_DATA = 45,
  FIELD_NVLINK_REPLAY = 52,
  FIELD_NVLINK_RECOVERY = 59,
  FIELD_MEMORY_TEMPERATURE = 82,
  FIELD_ENERGY = 83,
  FIELD_NVLINK_SPEED = 90,
  FIELD_NVLINK_COUNT = 91,
  FIELD_PCIE_REPLAYS = 94,
  FIELD_REMAPPED_CORRECTED = 142,
  FIELD_REMAPPED_UNCORRECTED = 143,
  FIELD_REMAPPED_PENDING = 144,
  FIELD_REMAPPED_FAILED = 145,
  FIELD_LINK_REPLAY = 161,
  FIELD_LINK_RECOVERY = 162,
  FIELD_LINK_CRC = 163,
  FIELD_LINK_SPEED = 164,
  FIELD_LINK_STATE = 165,
  FIELD_POWER_AVERAGE = 185,
  FIELD_POWER_INSTANT = 186,
  FIELD_POWER_LIMIT_MAX = 188,
  FIELD_POWER_LIMIT_DEFAULT = 189,
  FIELD_POWER_LIMIT = 190,
  FIELD_POWER_LIMIT_REQUESTED = 192,
  FIELD_PCIE_SENT = 197,
  FIELD_PCIE_RECEIVED = 198,
};

enum { NVLINK_MBPS = 25000 };

static int u32(struct field_value *f, uint64_t value) {
  f->type = VALUE_U32;
  f->value.u32 = (unsigned)value;
  return NVML_OK;
}

static int u64(struct field_value *f, uint64_t value) {
  f->type = VALUE_U64;
  f->value.u64l = value;
  return NVML_OK;
}

// of_link answers for one NVLink, the scope.
static int of_link(struct field_value *f, const struct reading *r) {
  if (f->scope >= NVLINKS) return NVML_INVALID_ARGUMENT;
  unsigned up = !(r->links_down >> f->scope & 1);
  switch (f->id) {
    case FIELD_LINK_SPEED: return u32(f, up ? NVLINK_MBPS : 0);
    case FIELD_LINK_STATE: return u32(f, up);
    default: return u64(f, f->scope == 0 ? r->link_errors : 0);
  }
}

static int field(struct field_value *f, const struct reading *r) {
  switch (f->id) {
    case FIELD_ECC_CURRENT:
    case FIELD_ECC_PENDING: return u32(f, 1);
    case FIELD_ECC_CORRECTED_VOLATILE:
    case FIELD_ECC_CORRECTED: return u64(f, r->ecc_corrected);
    case FIELD_ECC_UNCORRECTED_VOLATILE:
    case FIELD_ECC_UNCORRECTED: return u64(f, r->ecc_uncorrected);
    case FIELD_NVLINK_CRC_FLIT:
    case FIELD_NVLINK_CRC_DATA:
    case FIELD_NVLINK_REPLAY:
    case FIELD_NVLINK_RECOVERY: return u64(f, r->link_errors);
    case FIELD_MEMORY_TEMPERATURE: return u32(f, r->celsius);
    case FIELD_ENERGY: return u64(f, r->energy_mj);
    case FIELD_NVLINK_SPEED: return u32(f, NVLINK_MBPS);
    case FIELD_NVLINK_COUNT: return u32(f, NVLINKS);
    case FIELD_PCIE_REPLAYS: return u32(f, r->pcie_replays);
    case FIELD_REMAPPED_CORRECTED: return u32(f, 0);
    case FIELD_REMAPPED_UNCORRECTED: return u32(f, r->rows_pending || r->rows_failed);
    case FIELD_REMAPPED_PENDING: return u32(f, r->rows_pending);
    case FIELD_REMAPPED_FAILED: return u32(f, r->rows_failed);
    case FIELD_LINK_REPLAY:
    case FIELD_LINK_RECOVERY:
    case FIELD_LINK_CRC:
    case FIELD_LINK_SPEED:
    case FIELD_LINK_STATE: return of_link(f, r);
    case FIELD_POWER_AVERAGE:
    case FIELD_POWER_INSTANT: return u32(f, r->power_mw);
    case FIELD_POWER_LIMIT_MAX:
    case FIELD_POWER_LIMIT_DEFAULT:
    case FIELD_POWER_LIMIT:
    case FIELD_POWER_LIMIT_REQUESTED: return u32(f, POWER_LIMIT_MW);
    case FIELD_PCIE_SENT: return u64(f, r->pcie_out);
    case FIELD_PCIE_RECEIVED: return u64(f, r->pcie_in);
    default: return NVML_NOT_SUPPORTED;
  }
}

NVML_API int nvmlDeviceGetFieldValues(struct gpu *gpu, int count, struct field_value *fields) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (count <= 0 || !fields) return NVML_INVALID_ARGUMENT;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  for (int i = 0; i < count; i++) {
    fields[i].timestamp_us = (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
    fields[i].latency_us = 0;
    fields[i].value.u64l = 0;
    fields[i].result = field(&fields[i], &r);
  }
  return NVML_OK;
}
