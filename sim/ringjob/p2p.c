// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Send and receive: a group of them is one kernel in which all make progress together.

#include "plan.h"

// Below this, one channel is enough.
#define SPLIT_BYTES (64u << 10)

int p2p_channels(const struct comm *comm, size_t bytes) {
  int channels = (int)(bytes / SPLIT_BYTES) + 1;
  return channels < comm->options->p2p_channels ? channels : comm->options->p2p_channels;
}

// In round d a rank sends to rank + d and receives from rank - d, on the same channels.
static int round_of(const struct comm *comm, const struct task *task) {
  int d = task->func == FUNC_SEND ? task->peer - comm->rank : comm->rank - task->peer;
  return (d % comm->nranks + comm->nranks) % comm->nranks;
}

static void p2p_part(struct plan *plan, const struct task *task, int round, int part, bool new_work, uint64_t group) {
  struct comm *comm = plan->comm;
  bool is_send = task->func == FUNC_SEND;
  int channel = (round + part) % comm->options->p2p_channels;
  struct conn *conn = comm_conn(comm, channel, task->peer, is_send, true);
  struct work *work = plan_work(plan, task, channel, 1, 1, 1);
  // A send and a receive of the same round are one work on the device.
  work->counter = new_work ? ++comm->work_counter[channel] : comm->work_counter[channel];

  size_t begin, size, chunk = comm->options->step_bytes / sizeof(float);
  channel_part(task->count, task->channels, part, &begin, &size);
  uint64_t transfers = 0;
  for (size_t done = 0; done == 0 || done < size; done += chunk, transfers++) {
    size_t left = size - done, at = (begin + done) * sizeof(float);
    struct prim prim = {.from = at, .to = at, .bytes = (left < chunk ? left : chunk) * sizeof(float)};
    if (is_send) {
      prim.send[0] = conn;
      prim.flags = PRIM_INPUT;
    } else {
      prim.recv[0] = conn;
      prim.flags = PRIM_OUTPUT;
    }
    work_prim(work, &prim);
  }
  plan_proxy(plan, work, conn, transfers, group);
  plan_kernel(plan, work, is_send);
}

void p2p_plan(struct plan *plan) {
  struct comm *comm = plan->comm;
  uint64_t group = ++comm->group_number;
  for (int round = 1; round < comm->nranks; round++) {
    for (int part = 0; part < comm->options->p2p_channels; part++) {
      bool new_work = true;
      for (int i = 0; i < plan->ntasks; i++) {
        const struct task *task = &plan->tasks[i];
        if (round_of(comm, task) != round || part >= task->channels) continue;
        p2p_part(plan, task, round, part, new_work, group);
        new_work = false;
      }
    }
  }
}
