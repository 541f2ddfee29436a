// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The device side of NCCL: what its kernels do, played on the CPU.

#ifndef FAKEGPU_DEVICE_H
#define FAKEGPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

// Reads where members of the library's structs lie; false and the name of what is missing.
bool device_open(const char *layout_path, char *why, size_t size);

// Runs all blocks of a kernel of the library and returns when they have ended: an enum cuda_error.
int device_kernel(int gpu, const void *function, const void *args, size_t size);

// The parameters of a kernel that is launched with an array of pointers to them, as the bytes that device_kernel takes. 0: the
// kernel is not known.
size_t device_pack(const void *function, void *const *parameters, void *args, size_t size);

#endif
