// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A block of a kernel: it does the work of one channel of a communicator.

#ifndef FAKEGPU_DEVICE_BLOCK_H
#define FAKEGPU_DEVICE_BLOCK_H

#include "functions.h"

struct block {
  const char *comm;  // NCCL's structs
  char *channel;
  int channel_id, rank, ranks;
};

// A communicator's buffer of a protocol, in bytes, is divided into this many steps.
enum { NCCL_STEPS = 8 };

size_t block_step_bytes(const struct block *b, enum protocol proto);

#endif
