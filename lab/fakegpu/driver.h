// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Entry points of the CUDA driver, which NCCL asks the runtime for by name.

#ifndef FAKEGPU_DRIVER_H
#define FAKEGPU_DRIVER_H

// The function of this name; a stub that says its name if it is not played.
void *driver_entry_point(const char *name);

#endif
