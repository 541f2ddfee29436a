// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Device memory is the host's memory; what was allocated is remembered.

#ifndef FAKEGPU_MEMORY_H
#define FAKEGPU_MEMORY_H

#include <stddef.h>

enum memory {
  MEMORY_NONE,
  MEMORY_DEVICE,
  MEMORY_IMPORTED,    // another process's, mapped here
  MEMORY_PINNED,      // the host's, allocated by the runtime
  MEMORY_REGISTERED,  // the host's, allocated by the program
};

struct memory_range {
  char *base;
  size_t size;  // bytes
  enum memory kind;
  int device;
  int fd;  // of the file that device memory is in when it is shared; -1
};

// The range that the address is in; its kind is MEMORY_NONE if there is none.
struct memory_range memory_of(const void *address);

// Remembers a range of the current device; forgets the one that begins here, of kind MEMORY_NONE if there is none.
void memory_add(void *base, size_t size, enum memory kind);
struct memory_range memory_forget(void *base);

// Lets other processes map the device memory that the address is in. Returns an enum cuda_error.
int memory_share(void *address, struct memory_range *range);

#endif
