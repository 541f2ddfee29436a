// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "profiler.h"

struct plan *plan_new(struct comm *comm, bool collective, const struct task *tasks, int ntasks) {
  struct plan *plan = must_calloc(1, sizeof *plan);
  plan->comm = comm;
  plan->collective = collective;
  plan->tasks = must_calloc((size_t)ntasks, sizeof *tasks);
  memcpy(plan->tasks, tasks, (size_t)ntasks * sizeof *tasks);
  plan->ntasks = ntasks;
  plan->work_room = ntasks * MAX_CHANNELS;
  plan->works = must_calloc((size_t)plan->work_room, sizeof *plan->works);
  plan->proxy_end = &plan->proxy_ops;
  atomic_init(&plan->references, 2);
  return plan;
}

void plan_release(struct plan *plan) {
  if (atomic_fetch_sub(&plan->references, 1) > 1) return;
  for (int i = 0; i < plan->nworks; i++) free(plan->works[i].prims);
  free(plan->works);
  free(plan->tasks);
  free(plan);
}

struct work *plan_work(struct plan *plan, const struct task *task, int channel, int slices, int slice_steps,
                       int chunk_steps) {
  struct work *work = &plan->works[plan->nworks++];
  *work = (struct work){.task = task,
                        .channel = channel,
                        .slices = slices,
                        .slice_steps = slice_steps,
                        .chunk_steps = chunk_steps};
  return work;
}

void work_prim(struct work *work, const struct prim *prim) {
  if (work->nprims == work->room) {
    work->room = work->room ? work->room * 2 : 16;
    work->prims = realloc(work->prims, work->room * sizeof *work->prims);
    if (!work->prims) die(EXIT_SYSTEM, "out of memory");
  }
  work->prims[work->nprims++] = *prim;
}

static void append(struct plan *plan, const struct proxy_op *from) {
  struct proxy_op *op = must_calloc(1, sizeof *op);
  *op = *from;
  *plan->proxy_end = op;
  plan->proxy_end = &op->next;
}

void plan_proxy(struct plan *plan, const struct work *work, struct conn *conn, uint64_t transfers, uint64_t group) {
  append(plan, &(struct proxy_op){.comm = plan->comm,
                                  .conn = conn,
                                  .channel = work->channel,
                                  .is_send = conn->is_send,
                                  .nsteps = (int)transfers * work->slice_steps,
                                  .slice_steps = work->slice_steps,
                                  .chunk_steps = work->chunk_steps,
                                  .tag = work->task->tag,
                                  .group = group,
                                  // An edge without a proxy in NCCL has no events.
                                  .mask = conn->net ? work->task->mask : 0,
                                  .task = (int)(work->task - plan->tasks)});
}

void plan_kernel(struct plan *plan, const struct work *work, bool is_send) {
  if (!(work->task->mask & CULPRIT_NCCL_KERNEL_CH)) return;
  append(plan, &(struct proxy_op){.comm = plan->comm,
                                  .channel = work->channel,
                                  .is_send = is_send,
                                  .nsteps = 1,
                                  .slice_steps = 1,
                                  .chunk_steps = 1,
                                  .mask = work->task->mask,
                                  .task = (int)(work->task - plan->tasks),
                                  .work_counter = work->counter});
}

void channel_part(size_t count, int channels, int index, size_t *begin, size_t *size) {
  size_t part = (count + (size_t)channels - 1) / (size_t)channels;
  *begin = part * (size_t)index < count ? part * (size_t)index : count;
  *size = count - *begin < part ? count - *begin : part;
}
