// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The listening socket of a process: senders connect to the receiver and say for whom.

#ifndef RINGJOB_LISTENER_H
#define RINGJOB_LISTENER_H

#include <stdint.h>

#define LISTENER_MAGIC 0x676e6972u

// First bytes of every connection.
struct listener_hello {
  uint32_t magic;
  uint32_t channel;
  uint64_t comm_id;
  uint32_t rank;  // The sender's, in the communicator.
  uint32_t p2p;
};

#endif
