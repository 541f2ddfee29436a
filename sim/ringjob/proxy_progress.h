// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// One pass over one operation of the proxy.

#ifndef RINGJOB_PROXY_PROGRESS_H
#define RINGJOB_PROXY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "conn.h"
#include "proxy.h"

#define MAX_SUBS 64
#define SHARED_STEPS 16  // Buffers of a channel that send/recv to several peers share (NCCL_SHARED_STEPS).

// One connection's part of an operation. Steps count in buffer steps, as in NCCL.
struct proxy_sub {
  struct proxy_op op;
  uint64_t base;  // First step on the connection.
  int posted, received, transmitted, done;
  int delayed;    // Step before which an injected delay has been served.
  int flush_step;  // Step whose flush has begun, done at flushed_ns.
  uint64_t flushed_ns;
  uint32_t trans_size;
  uint64_t op_bytes;  // Transferred so far; up to NCCL 2.26 it begins with what its former user left (native_left).
  void *op_handle;
  void *step_handles[NCCL_STEPS];
  void *kernel_handle;
};

struct proxy_args {
  bool progressing;
  uint64_t group;
  int done;
  int nsubs;
  struct proxy_sub *subs;  // Room for MAX_SUBS where group is not 0, else one.
  struct proxy_args *next;
};

// Takes an operation off the inbox: a new args, or one more sub of the last in its fifo. Announces it (ProxyOp).
void progress_accept(struct fifo *fifo, const struct proxy_op *op);
// Moves what can be moved now; true if anything did.
bool progress_args(struct proxy_args *args, uint64_t now);
// Whether every sub is done; closes the events then.
bool progress_finished(struct proxy_args *args);

#endif
