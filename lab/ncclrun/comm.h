// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A rank of this process with its GPU, and its communicators. As in PyTorch, each communicator has a stream of its own.

#ifndef NCCLRUN_COMM_H
#define NCCLRUN_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "nccl.h"
#include "options.h"

struct rank {
  const struct options *options;
  int rank;            // In the job.
  int device;          // In the process.
  cudaStream compute;  // Forward and backward passes.
};

struct comm {
  char name[16];
  const struct rank *owner;
  nccl_comm handle;
  int nranks, rank;
  cudaStream stream;
  cudaEvent before, after;  // What its operations wait for, and what waits for them.
  uint64_t ops;             // Called so far; the same on all members.
  struct comm *next;        // All of the process's.
};

// The GPU of the rank becomes the calling thread's.
bool rank_open(struct rank *rank, const struct options *options, int number);

// The communicator of all ranks; `id` is rank 0's. NULL: the process is being torn down, as everywhere below.
struct comm *comm_world(const struct rank *rank, const struct nccl_id *id);
// The communicators of all ranks where one process has them all, with ncclCommInitAll.
bool comm_world_of_all(const struct rank *ranks, int count, struct comm **worlds);
// As ncclCommSplit, collective over the parent. `*child` is NULL where the color is NCCL_SPLIT_NOCOLOR.
bool comm_split(struct comm *parent, int color, int key, const char *name, int nranks, int rank, struct comm **child);
// As ncclCommShrink without the parent's last member, which does not call it.
bool comm_shrink(struct comm *parent, const char *name, struct comm **child);
// A communicator of its own, as JAX makes them; `id` is its first member's.
bool comm_clique(const struct rank *rank, const struct nccl_id *id, const char *name, int nranks, int member, struct comm **comm);
// Ends it in order. Nothing for NULL.
bool comm_destroy(struct comm *comm);

// Aborts all communicators of the process, each in a thread of its own, as a watchdog does; returns at once.
void comm_abort_all(void);
// Waits until that is over.
void comm_await_abort(void);

// Operations called from here on wait for what has been enqueued on the compute stream.
bool comm_enter(struct comm *comm);
// The compute stream waits for the communicator's operations.
bool comm_join(struct comm *comm);

// Waits for the event, or until the process is being torn down: false.
bool gpu_await(cudaEvent event);
// Waits for all that was enqueued on the stream.
bool gpu_sync(cudaStream stream);

#endif
