// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Tree AllReduce: sums go up a binary tree, the result comes down. Odd channels use the mirrored tree, so that a rank
// that is a leaf in one is inside the other.

#include "plan.h"

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

struct tree {
  int up;  // -1 at the root.
  int down[TREE_CHILDREN];  // -1: none.
};

static struct tree tree_of(int rank, int n, bool mirrored) {
  int at = mirrored ? n - 1 - rank : rank;
  struct tree tree = {.up = at == 0 ? -1 : (at - 1) / 2};
  for (int i = 0; i < TREE_CHILDREN; i++) tree.down[i] = 2 * at + 1 + i < n ? 2 * at + 1 + i : -1;
  if (mirrored) {
    if (tree.up >= 0) tree.up = n - 1 - tree.up;
    for (int i = 0; i < TREE_CHILDREN; i++) {
      if (tree.down[i] >= 0) tree.down[i] = n - 1 - tree.down[i];
    }
  }
  return tree;
}

static void tree_channel(struct plan *plan, const struct task *task, int channel) {
  struct comm *comm = plan->comm;
  struct tree tree = tree_of(comm->rank, comm->nranks, channel % 2 == 1);
  struct work *work = plan_work(plan, task, channel, 1, 1, 1);
  work->counter = ++comm->work_counter[channel];
  struct conn *from_up = NULL, *to_up = NULL, *from_down[TREE_CHILDREN] = {0}, *to_down[TREE_CHILDREN] = {0};
  int children = 0;
  for (int i = 0; i < TREE_CHILDREN; i++) {
    if (tree.down[i] < 0) continue;
    from_down[children] = comm_conn(comm, channel, tree.down[i], false, false);
    to_down[children++] = comm_conn(comm, channel, tree.down[i], true, false);
  }
  if (tree.up >= 0) {
    to_up = comm_conn(comm, channel, tree.up, true, false);
    from_up = comm_conn(comm, channel, tree.up, false, false);
  }

  size_t begin, part, chunk = comm->options->step_bytes / sizeof(float);
  channel_part(task->count, task->channels, channel, &begin, &part);
  uint64_t chunks = part ? (part + chunk - 1) / chunk : 1;
  for (int down = 0; down < 2; down++) {
    for (uint64_t i = 0; i < chunks; i++) {
      size_t at = (begin + i * chunk) * sizeof(float), bytes = least(chunk, part - i * chunk) * sizeof(float);
      struct prim prim = {.from = at, .to = at, .bytes = bytes};
      for (int c = 0; c < TREE_CHILDREN; c++) {
        if (down) prim.send[c] = to_down[c];
        else prim.recv[c] = from_down[c];
      }
      if (!down) {
        prim.flags = PRIM_INPUT | (to_up ? 0 : PRIM_OUTPUT);
        prim.send[0] = to_up;
      } else {
        prim.flags = from_up ? PRIM_OUTPUT : PRIM_AGAIN;
        prim.recv[0] = from_up;
        if (!from_up && !children) continue;
      }
      work_prim(work, &prim);
    }
  }
  // As ncclProxySaveOp: what goes up, then what comes down.
  for (int c = 0; c < children; c++) plan_proxy(plan, work, from_down[c], chunks, 0);
  if (to_up) plan_proxy(plan, work, to_up, chunks, 0);
  for (int c = 0; c < children; c++) plan_proxy(plan, work, to_down[c], chunks, 0);
  if (from_up) plan_proxy(plan, work, from_up, chunks, 0);
  plan_kernel(plan, work, true);
}

void tree_plan(struct plan *plan, const struct task *task) {
  for (int c = 0; c < task->channels; c++) tree_channel(plan, task, c);
}
