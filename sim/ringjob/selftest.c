// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Operations of all kinds and awkward sizes, on the whole job and on a split of it in reverse order.

#include "event.h"
#include "gpu.h"
#include "profiler.h"
#include "train.h"
#include "verified.h"

static const size_t sizes[] = {1, 2, 3, 5, 16, 61, 127, 1000, 1024, 4097, 16384, 50000, 131073};

enum { SIZES = sizeof sizes / sizeof *sizes };

// Everybody sends to everybody else in one group.
static void all_to_all(struct buffers *pairs, const struct comm *comm, size_t count, uint64_t salt) {
  for (int r = 0; r < comm->nranks; r++) {
    if (r != comm->rank) verified_fill_send(&pairs[r], count, salt);
  }
  api_group_start();
  for (int r = 0; r < comm->nranks; r++) {
    if (r == comm->rank) continue;
    api_send(pairs[r].comm, pairs[r].in, count, r);
    api_recv(pairs[r].comm, pairs[r].out, count, r);
  }
  api_group_end();
  for (int r = 0; r < comm->nranks; r++) {
    if (r != comm->rank) verified_check_recv(&pairs[r], count, r, salt);
  }
}

static bool run_sizes(struct comm *comm, struct gpu *gpu) {
  struct buffers b, pairs[64];
  buffers_init(&b, comm, sizes[SIZES - 1]);
  bool small = comm->nranks <= (int)(sizeof pairs / sizeof *pairs) / 2;
  for (int r = 0; small && r < comm->nranks; r++) buffers_init(&pairs[r], comm, sizes[SIZES - 1]);
  bool going = true;
  for (int i = 0; i < SIZES && going; i++) {
    uint64_t salt = (uint64_t)i * 17;
    verified_all_reduce(&b, sizes[i], ALGO_RING, salt);
    verified_all_reduce(&b, sizes[i], ALGO_TREE, salt + 1);
    verified_reduce_scatter(&b, sizes[i], salt + 2);
    verified_all_gather(&b, sizes[i], salt + 3);
    verified_broadcast(&b, sizes[i], i % comm->nranks, salt + 4);
    if (small) all_to_all(pairs, comm, sizes[i], salt + 5);
    going = gpu_sync(gpu);
  }
  if (!going) return false;
  buffers_free(&b);
  for (int r = 0; small && r < comm->nranks; r++) buffers_free(&pairs[r]);
  return true;
}

bool selftest(const struct job *job) {
  if (job->world->nranks > 1 && !run_sizes(job->world, job->gpu)) return false;
  int rank = job->world->rank;
  // The last rank stays outside when the number is odd.
  bool outside = job->world->nranks % 2 == 1 && rank == job->world->nranks - 1;
  struct comm *half = comm_split(job->world, outside ? -1 : rank % 2, -rank + job->world->nranks, "half");
  if (half) {
    bool going = half->nranks == 1 || run_sizes(half, job->gpu);
    if (!going) return false;
    comm_destroy(half);
  }
  event_emit("selftest", ",\"result\":\"ok\"");
  return true;
}
