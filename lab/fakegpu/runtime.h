// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The device of each thread and what a device can do.

#ifndef FAKEGPU_RUNTIME_H
#define FAKEGPU_RUNTIME_H

#include <stddef.h>

enum { RUNTIME_VERSION = 12080 };  // of the runtime and of the driver that are played
#define RUNTIME_MEMORY_BYTES (80ul << 30)

// The device that this thread has chosen.
int runtime_device(void);

// A device attribute, by its number in CUDA.
int runtime_attribute(int attribute, int device);

const char *runtime_error_text(int error);

#endif
