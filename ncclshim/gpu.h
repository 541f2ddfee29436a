// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef CULPRIT_GPU_H
#define CULPRIT_GPU_H

#include <stddef.h>

// gpu_describe asks the CUDA driver, when the process has it loaded already, for the UUID ("GPU-…") and PCI bus id of
// the calling thread's current device. Leaves the texts as they are when there is no driver or no current device.
// CULPRIT_CUDA=0 keeps it from asking.
void gpu_describe(char *uuid, size_t uuid_bytes, char *pci_bus_id, size_t pci_bytes);

#endif
