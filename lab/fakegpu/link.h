// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Faults on the connections over which the loaded library's socket transport sends data.

#ifndef FAKEGPU_LINK_H
#define FAKEGPU_LINK_H

#include <stdbool.h>
#include <stddef.h>

// Lets the transport of the library behind the dlopen handle pass through here; false and a reason when something is missing.
bool link_divert(void *handle, char *why, size_t size);

#endif
