// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Which events to ask NCCL for.

#ifndef CULPRIT_MASK_H
#define CULPRIT_MASK_H

#include "profiler_abi.h"

#include <stdint.h>

// mask_known gives all events of an ABI version that the shim can use.
uint32_t mask_known(uint32_t abi);

// mask_default gives the events that cost and risk little enough to be on everywhere. *why_no_kernel says why KernelCh is
// not among them, or is NULL.
uint32_t mask_default(uint32_t abi, const char **why_no_kernel);

// mask_capabilities gives the CULPRIT_CAP_* bits of an event mask under an ABI version.
uint64_t mask_capabilities(uint32_t abi, uint32_t mask);

#endif
