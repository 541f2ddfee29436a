// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the CUDA driver says of GPUs, where the process has it loaded already. CULPRIT_CUDA=0 keeps it from being asked.

#ifndef CULPRIT_GPU_H
#define CULPRIT_GPU_H

#include <stddef.h>
#include <stdint.h>

// gpu_current gives the calling thread's current device, as CUDA numbers them in this process; -1 when there is none.
int32_t gpu_current(void);

// gpu_describe gives the UUID ("GPU-…") and the PCI bus id of a device. It leaves the texts as they are where the driver does not
// know it.
void gpu_describe(int32_t device, char *uuid, size_t uuid_bytes, char *pci_bus_id, size_t pci_bytes);

#endif
