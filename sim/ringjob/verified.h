// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Operations with known data: each call fills the input, calls the operation and verifies the result, all in stream
// order. A wrong result ends the process with EXIT_WRONG_SUM.

#ifndef RINGJOB_VERIFIED_H
#define RINGJOB_VERIFIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api.h"

// Input and output of one kind of operation on one communicator; may be used again while the last use is queued.
struct buffers {
  struct comm *comm;
  float *in, *out;
  size_t count;  // Elements per rank that fit.
  bool check;
};

// Room for any operation of up to `count` elements per rank.
void buffers_init(struct buffers *buffers, struct comm *comm, size_t count);
void buffers_free(struct buffers *buffers);

// `salt` makes the data differ from operation to operation; equal on all ranks.
void verified_all_reduce(struct buffers *b, size_t count, enum algo algo, uint64_t salt);
void verified_all_gather(struct buffers *b, size_t count, uint64_t salt);
void verified_reduce_scatter(struct buffers *b, size_t count, uint64_t salt);
void verified_broadcast(struct buffers *b, size_t count, int root, uint64_t salt);

// Send and receive for use inside a group: data before it, verification after it.
void verified_fill_send(struct buffers *b, size_t count, uint64_t salt);
void verified_check_recv(struct buffers *b, size_t count, int peer, uint64_t salt);

#endif
