// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Operations with known data: each call fills the input, calls the operation and verifies the result on the host, all in the
// order of the communicator's stream. A wrong result ends the process with EXIT_WRONG_SUM. They return false when the process is
// being torn down.

#ifndef NCCLRUN_VERIFIED_H
#define NCCLRUN_VERIFIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm.h"

// Input and output of one kind of operation on one communicator, on the GPU and on the host; may be used again while the last use
// is queued.
struct buffers {
  struct comm *comm;
  float *in, *out;
  float *host_in, *host_out;
  size_t count;  // Elements that fit.
};

bool buffers_init(struct buffers *b, struct comm *comm, size_t count);
void buffers_free(struct buffers *b);

// Fills, or verifies, elements of the input or output; for operations inside a group: before it and after it. `first` is the index of
// the first element in the pattern, salt included.
bool buffers_fill(struct buffers *b, size_t offset, size_t count, uint64_t first, float weight);
bool buffers_check(struct buffers *b, const char *func, size_t offset, size_t count, uint64_t first, float weight);

// `salt` makes the data differ from operation to operation; equal on all ranks. `count` is per rank.
bool verified_all_reduce(struct buffers *b, size_t count, enum nccl_redop op, uint64_t salt);
bool verified_reduce(struct buffers *b, size_t count, int root, uint64_t salt);
bool verified_all_gather(struct buffers *b, size_t count, uint64_t salt);
bool verified_reduce_scatter(struct buffers *b, size_t count, uint64_t salt);
bool verified_broadcast(struct buffers *b, size_t count, int root, uint64_t salt);
// To and from every member, oneself too, in one group.
bool verified_all_to_all(struct buffers *b, size_t count, uint64_t salt);
// As that, as many elements as the lists say, at most `slot` each; NULL: `slot`.
bool verified_all_to_some(struct buffers *b, size_t slot, const size_t *to, const size_t *from, uint64_t salt);
// To the next member, from the previous one, in one group.
bool verified_shift(struct buffers *b, size_t count, uint64_t salt);

#endif
