// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A played GPU for programs that run an unmodified libnccl.so.2 on a machine without one.
//
// Environment: FAKEGPU_DIR is the played host's directory (see node.h and control.h), CUDA_VISIBLE_DEVICES chooses among its GPUs,
// FAKEGPU_VERBOSE says on stderr what is done.

#ifndef FAKEGPU_H
#define FAKEGPU_H

#include <stddef.h>

#include "cudart.h"

// Loads the library at path into the global scope, puts this library in the place of its CUDA runtime and reads the layout file.
// Returns its dlopen handle. NULL: why says which symbol or which member of the layout is missing.
void *fakegpu_load_nccl(const char *path, const char *layout, char *why, size_t size);

// Enqueues played compute. It takes ms milliseconds at normal speed, stands still while the GPU is frozen and does not start
// while it is held. Returns an enum cuda_error.
int fakegpu_compute(cudaStream stream, double ms);

#endif
