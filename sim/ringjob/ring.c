// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Ring algorithms: AllReduce, ReduceScatter, AllGather, Broadcast. The ring of every channel is the order of ranks.

#include "plan.h"

// Collectives over Ring and Simple move slices of two buffer steps and chunks of two slices; Broadcast single steps.
enum { SLICE_STEPS = 2, CHUNK_SLICES = 2 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t div_up(size_t a, size_t b) { return (a + b - 1) / b; }

struct ring {
  int n, rank;
  struct conn *recv, *send;
  size_t chunk;  // Most elements of a chunk.
};

static int wrap(const struct ring *ring, int rank) { return (rank % ring->n + ring->n) % ring->n; }

static void add(const struct ring *ring, struct work *work, bool recv, bool send, size_t from, size_t to, size_t elements,
                int flags) {
  work_prim(work, &(struct prim){.recv = {recv ? ring->recv : NULL},
                                 .send = {send ? ring->send : NULL},
                                 .from = from * sizeof(float),
                                 .to = to * sizeof(float),
                                 .bytes = elements * sizeof(float),
                                 .flags = flags});
}

// One loop of AllReduce: n chunks go round twice. `at`, `size`: the loop's part of the buffer.
static void all_reduce_loop(const struct ring *ring, struct work *work, size_t at, size_t size) {
  int n = ring->n;
  size_t chunk = least(ring->chunk, div_up(size, (size_t)n));
  for (int j = 1; j <= 2 * n - 1; j++) {
    // First down from rank - 1 to rank, where the sum is complete, then on to rank + 1.
    size_t begin = least((size_t)wrap(ring, ring->rank + 2 * n - j) * chunk, size);
    size_t elements = least(chunk, size - begin);
    int flags = (j <= n ? PRIM_INPUT : 0) | (j >= n ? PRIM_OUTPUT : 0);
    add(ring, work, j > 1, j < 2 * n - 1, at + begin, at + begin, elements, flags);
  }
}

// `at`, `size`: the loop's part of each rank's share of `count` elements.
static void reduce_scatter_loop(const struct ring *ring, struct work *work, size_t count, size_t at, size_t size) {
  for (int j = 1; j <= ring->n; j++) {
    size_t share = (size_t)wrap(ring, ring->rank + ring->n - j) * count;
    add(ring, work, j > 1, j < ring->n, share + at, at, size, PRIM_INPUT | (j == ring->n ? PRIM_OUTPUT : 0));
  }
}

static void all_gather_loop(const struct ring *ring, struct work *work, size_t count, size_t at, size_t size) {
  for (int j = 0; j < ring->n; j++) {
    size_t share = (size_t)wrap(ring, ring->rank + ring->n - j) * count;
    add(ring, work, j > 0, j < ring->n - 1, at, share + at, size, (j == 0 ? PRIM_INPUT : 0) | PRIM_OUTPUT);
  }
}

static void broadcast_loop(const struct ring *ring, struct work *work, int root, size_t at, size_t size) {
  bool first = ring->rank == root, last = wrap(ring, ring->rank + 1) == root;
  add(ring, work, !first, !last, at, at, size, (first ? PRIM_INPUT : 0) | PRIM_OUTPUT);
}

static void ring_channel(struct plan *plan, const struct task *task, int channel) {
  struct comm *comm = plan->comm;
  bool broadcast = task->func == FUNC_BROADCAST;
  int slices = broadcast ? 1 : CHUNK_SLICES, slice_steps = broadcast ? 1 : SLICE_STEPS;
  struct ring ring = {.n = comm->nranks, .rank = comm->rank};
  ring.recv = comm_conn(comm, channel, wrap(&ring, comm->rank - 1), false, false);
  ring.send = comm_conn(comm, channel, wrap(&ring, comm->rank + 1), true, false);
  ring.chunk = (size_t)(slices * slice_steps) * comm->options->step_bytes / sizeof(float);
  struct work *work = plan_work(plan, task, channel, slices, slice_steps, slices * slice_steps);
  work->counter = ++comm->work_counter[channel];

  size_t begin, part;
  channel_part(task->count, task->channels, channel, &begin, &part);
  size_t loop = task->func == FUNC_ALLREDUCE ? ring.chunk * (size_t)ring.n : ring.chunk;
  // An empty part still makes one round, of empty transfers.
  for (size_t done = 0; done == 0 || done < part; done += loop) {
    size_t at = begin + done, size = least(loop, part - least(done, part));
    switch (task->func) {
      case FUNC_ALLREDUCE: all_reduce_loop(&ring, work, at, size); break;
      case FUNC_REDUCESCATTER: reduce_scatter_loop(&ring, work, task->count, at, size); break;
      case FUNC_ALLGATHER: all_gather_loop(&ring, work, task->count, at, size); break;
      default: broadcast_loop(&ring, work, task->root, at, size); break;
    }
  }
  uint64_t sends = 0, recvs = 0;
  for (size_t i = 0; i < work->nprims; i++) {
    sends += work->prims[i].send[0] != NULL;
    recvs += work->prims[i].recv[0] != NULL;
  }
  if (recvs) plan_proxy(plan, work, ring.recv, recvs * (uint64_t)slices, 0);
  if (sends) plan_proxy(plan, work, ring.send, sends * (uint64_t)slices, 0);
  plan_kernel(plan, work, true);
}

void ring_plan(struct plan *plan, const struct task *task) {
  for (int c = 0; c < task->channels; c++) ring_channel(plan, task, c);
}
