// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Faults of a GPU or its link, asked for in the GPU's control file.

#ifndef NCCLRUN_FAULT_GPU_H
#define NCCLRUN_FAULT_GPU_H

#include <stdbool.h>

#include "fault.h"
#include "options.h"

// Kinds of faults that the control file takes, as program.kinds wants them.
#define FAULT_GPU_KINDS                                                                                                       \
  (1ull << LINK_STALL | 1ull << LINK_SLOW | 1ull << GPU_FREEZE | 1ull << GPU_SLOW | 1ull << KERNEL_STALL | 1ull << PROXY_DELAY | \
   1ull << GPU_LOST | 1ull << XID | 1ull << CONTROL)

void fault_gpu_open(const struct options *options);
// Writes the fault's line; false if its kind is none of the GPU's. fault_gpu_ends takes the line away.
bool fault_gpu_begins(struct fault *fault);
void fault_gpu_ends(struct fault *fault);

#endif
