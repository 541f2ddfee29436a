// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// One operation of a communicator, with inputs and results that are known.

#ifndef FAKEGPU_DEVICE_CHECK_OPS_H
#define FAKEGPU_DEVICE_CHECK_OPS_H

#include "nccl.h"
#include "value.h"

struct op {
  char name[32];
  enum data_type type;
  enum reduction_kind kind;
  size_t bytes;   // of the largest buffer
  bool in_place;
};

struct member {
  comm_t comm;
  int rank, ranks;
  stream_t stream;
};

// Reads "allreduce:f32:sum:1024[:in]"; false if it is no operation.
bool op_parse(const char *text, struct op *op);

// The buffers of an operation on this rank.
struct op_run {
  const struct op *op;
  struct member member;
  int round;
  size_t count, each;  // elements; of them for each rank
  char *in, *out;
  int premul;          // an operation made for this communicator, -1: none
};

// Prepares buffers, enqueues the operation, and, after the stream was waited for, compares the results: -1, or the first element
// that is wrong. A NULL result of begin means success; otherwise it is the call that failed.
const char *op_begin(struct op_run *run, const struct op *op, const struct member *m, int round);
const char *op_enqueue(struct op_run *run);
long op_wrong(const struct op_run *run);
void op_end(struct op_run *run);

#endif
