// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What a played GPU does, for NVML: the file gpuN.state in the played host's directory, mapped by every process that uses the GPU.
// All members are changed with atomic operations. README.md says who writes what.

#ifndef FAKEGPU_STATE_H
#define FAKEGPU_STATE_H

#include <stdint.h>

enum { STATE_MAGIC = 0x55504746 /* "FGPU" */, STATE_VERSION = 1, STATE_BYTES = 4096, STATE_PROCESSES = 16 };

struct fakegpu_process {
  uint32_t pid;  // 0: the slot is free
  uint32_t reserved;
  uint64_t memory_bytes;
  uint64_t busy_ns;
};

struct fakegpu_state {
  uint32_t magic;
  uint32_t version;
  uint64_t memory_bytes;    // allocated by all processes
  uint64_t busy_ns;         // kernels were running, since the file was made
  uint64_t pcie_in_bytes;   // copied from the host to the GPU
  uint64_t pcie_out_bytes;  // copied from the GPU to the host
  struct fakegpu_process processes[STATE_PROCESSES];
};

// The GPU's state, mapped and made when it is not there yet; memory of this process alone where there is no directory or the file
// cannot be made. Never NULL.
struct fakegpu_state *state_of(int gpu);

// This process's slot; slots of processes that are gone are taken over, with what they held subtracted. NULL: all are taken.
struct fakegpu_process *state_process(int gpu);

// Memory taken (positive) or given back (negative), and time that kernels ran, of this process.
void state_add_memory(int gpu, int64_t bytes);
void state_add_busy(int gpu, uint64_t ns);

#endif
