// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The kernel of a communicator of one rank: it multiplies, because an average or a sum with a factor is more than a copy.

#ifndef FAKEGPU_DEVICE_ONERANK_H
#define FAKEGPU_DEVICE_ONERANK_H

#include <stdbool.h>
#include <stddef.h>

// Whether a kernel's name is its, and the bytes of its parameters from the array of pointers that cudaLaunchKernel gets.
bool onerank_is(const char *name);
size_t onerank_pack(void *const *parameters, void *args, size_t size);

// Returns an enum cuda_error.
int onerank_run(const char *name, const void *args, size_t size);

#endif
