// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernel.h"

#include <string.h>

#include "clock.h"
#include "fault_model.h"
#include "rendezvous.h"

static void mark(struct kernel_mark *marks, uint64_t counter, uint64_t real_ns) {
  struct kernel_mark *m = &marks[counter % KERNEL_MARKS];
  atomic_store_explicit(&m->timestamp, real_ns, memory_order_relaxed);
  atomic_store_explicit(&m->counter, counter, memory_order_release);
}

// An operation begins on a multiple of its chunk; a receiver returns the credits of what is skipped.
static void align_conn(struct conn *conn, int chunk_steps) {
  if (!conn) return;
  uint64_t chunk = (uint64_t)chunk_steps;
  uint64_t step = (conn->gpu_step + chunk - 1) / chunk * chunk;
  if (step == conn->gpu_step) return;
  conn->gpu_step = step;
  if (!conn->is_send) atomic_store_explicit(&conn->head, step, memory_order_release);
}

void kernel_begin(struct plan *plan) {
  fault_before_kernel(plan->comm);
  if (abort_requested()) return;
  uint64_t now = now_real_ns();
  for (int w = 0; w < plan->nworks; w++) {
    struct work *work = &plan->works[w];
    mark(plan->comm->started[work->channel], work->counter, now);
    for (size_t p = 0; p < work->nprims; p++) {
      // Aligned once: the steps of an operation are whole chunks.
      for (int i = 0; i < TREE_CHILDREN; i++) {
        align_conn(work->prims[p].recv[i], work->chunk_steps);
        align_conn(work->prims[p].send[i], work->chunk_steps);
      }
    }
  }
  proxy_wake(plan->comm->proxy);
}

static bool ready(const struct work *work, const struct prim *prim) {
  uint64_t steps = (uint64_t)work->slice_steps;
  for (int i = 0; i < TREE_CHILDREN; i++) {
    struct conn *recv = prim->recv[i], *send = prim->send[i];
    if (recv && atomic_load_explicit(&recv->tail, memory_order_acquire) < recv->gpu_step + steps) return false;
    if (send && atomic_load_explicit(&send->limit, memory_order_acquire) < send->gpu_step + steps) return false;
  }
  return true;
}

static uint8_t *slot(struct conn *conn) { return conn->buffer + conn->gpu_step % NCCL_STEPS * conn->step_bytes; }

static void add(float *to, const float *more, size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof(float); i++) to[i] += more[i];
}

// Combines one slice into a buffer that the result goes to, then copies it to the others.
static void combine(const struct task *task, const struct prim *prim, size_t offset, size_t bytes) {
  const uint8_t *input = (const uint8_t *)task->send + prim->from + offset;
  uint8_t *output = (uint8_t *)task->recv + prim->to + offset;
  uint8_t *result = prim->send[0] ? slot(prim->send[0]) : output;
  bool wrote_output = !prim->send[0];
  if (prim->flags & PRIM_AGAIN) {
    memcpy(result, output, bytes);
  } else if (prim->recv[0]) {
    memcpy(result, slot(prim->recv[0]), bytes);
    for (int i = 1; i < TREE_CHILDREN; i++) {
      if (prim->recv[i]) add((float *)(void *)result, (const float *)(const void *)slot(prim->recv[i]), bytes);
    }
    if (prim->flags & PRIM_INPUT) add((float *)(void *)result, (const float *)(const void *)input, bytes);
  } else {
    memmove(result, input, bytes);
  }
  if ((prim->flags & PRIM_OUTPUT) && !wrote_output) memcpy(output, result, bytes);
  if (prim->send[1]) memcpy(slot(prim->send[1]), result, bytes);
}

static void advance(const struct prim *prim, uint64_t steps, uint32_t bytes) {
  for (int i = 0; i < TREE_CHILDREN; i++) {
    struct conn *recv = prim->recv[i], *send = prim->send[i];
    if (send) {
      send->sizes[send->gpu_step % NCCL_STEPS] = bytes;
      send->gpu_step += steps;
      atomic_store_explicit(&send->tail, send->gpu_step, memory_order_release);
    }
    if (recv) {
      // Ranks that disagree about the operation: the data is rubbish, as it would be in NCCL.
      if (recv->sizes[recv->gpu_step % NCCL_STEPS] != bytes) control_taint();
      recv->gpu_step += steps;
      atomic_store_explicit(&recv->head, recv->gpu_step, memory_order_release);
    }
  }
}

// The slices of a chunk: equal, but for the last.
static void slice_bounds(const struct work *work, const struct prim *prim, size_t *offset, size_t *bytes) {
  size_t slice = prim->bytes / (size_t)work->slices;
  slice = (slice + 15) / 16 * 16;
  size_t begin = slice * (size_t)work->slice;
  if (begin > prim->bytes) begin = prim->bytes;
  *offset = begin;
  bool last = work->slice == work->slices - 1;
  *bytes = last || prim->bytes - begin < slice ? prim->bytes - begin : slice;
}

static bool step_work(struct work *work) {
  const struct prim *prim = &work->prims[work->prim];
  if (!ready(work, prim)) return false;
  size_t offset, bytes;
  slice_bounds(work, prim, &offset, &bytes);
  combine(work->task, prim, offset, bytes);
  advance(prim, (uint64_t)work->slice_steps, (uint32_t)bytes);
  if (++work->slice == work->slices) {
    work->slice = 0;
    work->prim++;
  }
  return true;
}

enum kernel_state kernel_step(struct plan *plan) {
  uint64_t done = 0, total = 0;
  for (int w = 0; w < plan->nworks; w++) {
    const struct work *work = &plan->works[w];
    done += work->prim * (uint64_t)work->slices + (uint64_t)work->slice;
    total += work->nprims * (uint64_t)work->slices;
  }
  if (done == total) return KERNEL_DONE;
  if (fault_gpu_frozen(plan->comm, done, total)) return KERNEL_FROZEN;
  bool moved = false;
  for (int w = 0; w < plan->nworks; w++) {
    struct work *work = &plan->works[w];
    if (work->prim < work->nprims) moved |= step_work(work);
  }
  if (!moved) return KERNEL_WAITING;
  proxy_wake(plan->comm->proxy);
  return KERNEL_MOVED;
}

void kernel_end(struct plan *plan) {
  if (!abort_requested()) {
    uint64_t now = now_real_ns();
    for (int w = 0; w < plan->nworks; w++) {
      mark(plan->comm->completed[plan->works[w].channel], plan->works[w].counter, now);
    }
    proxy_wake(plan->comm->proxy);
  }
  plan_release(plan);
}
