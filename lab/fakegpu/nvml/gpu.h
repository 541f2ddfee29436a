// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The GPUs of the played host, as handles, and what one of them shows at a moment.

#ifndef FAKEGPU_NVML_GPU_H
#define FAKEGPU_NVML_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "../node.h"
#include "abi.h"

enum {
  NVLINKS = 12,          // Of each GPU.
  PROCESSES = 16,        // Most processes that are seen on one GPU.
  MAX_SM_MHZ = 1410,
  BASE_SM_MHZ = 1095,
  IDLE_SM_MHZ = 210,
  MEMORY_MHZ = 1215,
  MAX_PCIE_GENERATION = 4,
  MAX_PCIE_WIDTH = 16,
  POWER_LIMIT_MW = 400000,
};

#define MEMORY_BYTES (16ull << 30)

// What a GPU shows at one moment. Control keys override what follows from its load.
struct reading {
  unsigned sm_mhz, memory_mhz;
  uint64_t reasons;      // Why the clocks are not higher, as NVML's bits.
  unsigned celsius;
  unsigned power_mw;
  uint64_t energy_mj;    // Since the machine started.
  unsigned busy_percent;
  unsigned memory_percent;  // Share of time in which memory was read or written.
  uint64_t memory_used;  // Bytes.
  uint64_t memory_total; // Bytes.
  unsigned pcie_generation, pcie_width;
  uint64_t pcie_replays;
  uint64_t pcie_in, pcie_out;  // Bytes, since the first process.
  uint32_t links_down;   // A bit for each NVLink that is down.
  uint64_t link_errors;  // Of all links together, for each kind of error.
  uint64_t ecc_corrected, ecc_uncorrected;
  bool rows_pending, rows_failed;
  unsigned process_count;
  struct process processes[PROCESSES];
};

// gpu_init and gpu_shutdown count the callers' nvmlInit and nvmlShutdown; both give an NVML result.
int gpu_init(void);
int gpu_shutdown(void);

// gpu_ready gives NVML_OK between the two.
int gpu_ready(void);

// gpu_count gives the number of GPUs of the host; gpu_at gives one of them, or NULL.
int gpu_count(void);
struct gpu *gpu_at(int index);

// gpu_index gives a handle's number, or -1 for what is no handle.
int gpu_index(const struct gpu *gpu);

// gpu_check gives NVML_OK for a GPU that answers. It returns NVML_GPU_IS_LOST for one that fell off the bus, and does
// not return while the control file says nvml.hang.
int gpu_check(const struct gpu *gpu);

// gpu_read gives what the GPU shows now. The result is gpu_check's.
int gpu_read(const struct gpu *gpu, struct reading *r);

// reading_take reads the state and the control file of the GPU of that number.
void reading_take(int gpu, struct reading *r);

// copy_text writes text into a caller's buffer of that size.
int copy_text(char *out, unsigned size, const char *text);

// GETTER defines an NVML function that gives one number of a GPU.
#define GETTER(name, type, expression)              \
  NVML_API int name(struct gpu *gpu, type *out) {   \
    struct reading r;                               \
    int result = gpu_read(gpu, &r);                 \
    if (result != NVML_OK) return result;           \
    if (!out) return NVML_INVALID_ARGUMENT;         \
    *out = (type)(expression);                      \
    return NVML_OK;                                 \
  }

// ALIAS defines another name of a function of the same signature.
#define ALIAS(old, name) extern NVML_API __typeof__(old) name __attribute__((alias(#old)))

#endif
