// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The work of a block: batches of structs that the host has put into the kernel's parameters, into a fifo or, for graphs, into
// memory of their own.

#ifndef FAKEGPU_DEVICE_WORK_H
#define FAKEGPU_DEVICE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"

enum work_type { WORK_P2P, WORK_COLL, WORK_COLL_REG, WORK_BCAST };

struct batch {
  enum work_type type;
  int function;  // of all its works
  char *works;   // count structs of size bytes; freed by work_free
  size_t count, size;
};

// A collective's struct, of either type.
const char *work_at(const struct batch *batch, size_t i);

// Copies the batch that begins at *next, and those that extend it; *next becomes the block's next one, -1 after the last. False: why
// says what is wrong with it.
bool work_load(const struct block *b, const char *args, size_t args_size, int *next, struct batch *batch, char *why, size_t size);
void work_free(struct batch *batch);

// A collective's share that a channel does. Elements, or bytes where nothing is reduced.
struct share {
  size_t count;   // of a rank's buffer
  size_t offset;  // of the channel's share in it
  size_t mine;    // of the share
  size_t chunk;   // of what is handled at once
};
struct share work_share(const struct block *b, const char *work, enum protocol proto, size_t type_bytes);

#endif
