// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What one kernel does: the works of a group of operations, each a list of primitives on one channel, in the manner of
// NCCL's device code.

#ifndef RINGJOB_PLAN_H
#define RINGJOB_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm.h"

#define TREE_CHILDREN 2

enum algo { ALGO_RING, ALGO_TREE };

// One operation as the user called it.
struct task {
  enum func func;
  enum algo algo;
  const void *send;
  void *recv;
  size_t count;  // Elements of float32; of one rank for AllGather and ReduceScatter.
  int peer;
  int root;
  int channels;
  uint64_t tag;
  // Profiler.
  int mask;
  void *group_api, *api, *event;
};

enum {
  PRIM_INPUT = 1,   // The own input takes part: it is the source, or what is added to the received.
  PRIM_OUTPUT = 2,  // The result is written to the output.
  PRIM_AGAIN = 4,   // The source is the output buffer.
};

// Receive from some, combine, send to some: one chunk.
struct prim {
  struct conn *recv[TREE_CHILDREN];
  struct conn *send[TREE_CHILDREN];
  size_t from, to;  // Offsets of the chunk in input and output, bytes.
  size_t bytes;
  int flags;
};

// One operation on one channel.
struct work {
  const struct task *task;
  int channel;
  uint64_t counter;  // Number of the work on the channel, for KernelCh.
  struct prim *prims;
  size_t nprims, room;
  int slices;        // Of a primitive.
  int slice_steps;   // Buffer steps of a slice.
  int chunk_steps;   // The first step is a multiple of it.
  // Execution.
  size_t prim;
  int slice;
};

struct plan {
  struct comm *comm;
  bool collective;
  struct task *tasks;
  int ntasks;
  struct work *works;
  int nworks, work_room;
  struct proxy_op *proxy_ops, **proxy_end;
  atomic_int references;  // The user's thread and the GPU.
};

struct plan *plan_new(struct comm *comm, bool collective, const struct task *tasks, int ntasks);
void plan_release(struct plan *plan);

// Adds a work of `task` on a channel.
struct work *plan_work(struct plan *plan, const struct task *task, int channel, int slices, int slice_steps,
                       int chunk_steps);
void work_prim(struct work *work, const struct prim *prim);
// Adds the proxy's share for one connection: `transfers` slices of the work.
void plan_proxy(struct plan *plan, const struct work *work, struct conn *conn, uint64_t transfers, uint64_t group);
// Adds the report of the work's kernel.
void plan_kernel(struct plan *plan, const struct work *work, bool is_send);

// Fill a plan with the works of one task.
void ring_plan(struct plan *plan, const struct task *task);
void tree_plan(struct plan *plan, const struct task *task);
// All send/recv tasks of the plan.
void p2p_plan(struct plan *plan);
int p2p_channels(const struct comm *comm, size_t bytes);

// The part of `count` elements that belongs to channel `index` of `channels`.
void channel_part(size_t count, int channels, int index, size_t *begin, size_t *size);

#endif
