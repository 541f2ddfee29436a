// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "proxy_progress.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "comm.h"
#include "event.h"
#include "fault_model.h"
#include "profiler.h"

static int div_up(int a, int b) { return (a + b - 1) / b; }

// Events.

static void op_start(struct proxy_sub *sub) {
  const struct proxy_op *op = &sub->op;
  if (!(op->mask & (CULPRIT_NCCL_PROXY_OP | CULPRIT_NCCL_PROXY_STEP | CULPRIT_NCCL_NET_PLUGIN))) return;
  prof_descr descr = {.type = CULPRIT_NCCL_PROXY_OP, .parentObj = op->task_handle, .rank = op->comm->rank};
  descr.proxyOp.pid = getpid();
  descr.proxyOp.channelId = (uint8_t)op->channel;
  descr.proxyOp.peer = op->conn->peer;
  descr.proxyOp.nSteps = div_up(op->nsteps, op->slice_steps);
  descr.proxyOp.chunkSize = (int)op->conn->step_bytes * op->chunk_steps * op->slice_steps;
  descr.proxyOp.isSend = op->is_send;
  prof_start(op->comm->prof_context, &sub->op_handle, &descr);
}

// A step of the profiler is a transfer, of slice_steps buffer steps.
static void **step_handle(struct proxy_sub *sub, int step) {
  return &sub->step_handles[(step / sub->op.slice_steps) % NCCL_STEPS];
}

static void step_start(struct proxy_sub *sub, int step) {
  if (!(sub->op.mask & (CULPRIT_NCCL_PROXY_STEP | CULPRIT_NCCL_NET_PLUGIN))) return;
  prof_descr descr = {.type = CULPRIT_NCCL_PROXY_STEP, .parentObj = sub->op_handle, .rank = sub->op.comm->rank};
  descr.proxyStep.step = step / sub->op.slice_steps;
  prof_start(sub->op.comm->prof_context, step_handle(sub, step), &descr);
}

// Up to NCCL 2.26 the sum of a proxy operation's bytes is not cleared for the next one in its place.
static _Thread_local uint64_t native_left;

// The operation's own states, which natively go beside those of its steps. step: of the buffer, the one that the state is about.
static void op_record(const struct proxy_sub *sub, int step, int state) {
  if (sub->op_handle) prof_record_op(sub->op_handle, state, sub->op_bytes, step / sub->op.slice_steps + 1);
}

static void step_record(struct proxy_sub *sub, int step, int state) {
  if (!sub->op_handle) return;
  prof_args args = {.proxyStep = {.transSize = sub->trans_size}};
  prof_record(*step_handle(sub, step), state, &args);
}

static void step_stop(struct proxy_sub *sub, int step) {
  prof_stop(*step_handle(sub, step));
  *step_handle(sub, step) = NULL;
}

// Taking operations on.

static struct proxy_args *args_new(struct fifo *fifo, uint64_t group) {
  struct proxy_args *args = must_calloc(1, sizeof *args);
  args->group = group;
  args->subs = must_calloc(group ? MAX_SUBS : 1, sizeof *args->subs);
  if (fifo->tail) fifo->tail->next = args;
  else fifo->head = args;
  fifo->tail = args;
  return args;
}

void progress_accept(struct fifo *fifo, const struct proxy_op *op) {
  struct proxy_args *args = fifo->tail;
  bool joins = args && op->group && args->group == op->group && !args->progressing && args->nsubs < MAX_SUBS;
  if (!joins) args = args_new(fifo, op->group);
  struct proxy_sub *sub = &args->subs[args->nsubs++];
  sub->op = *op;
  sub->delayed = sub->flush_step = -1;
  sub->op_bytes = native_left;
  if (op->conn) op_start(sub);
}

static void begin(struct proxy_args *args) {
  static const prof_args none;
  for (int s = 0; s < args->nsubs; s++) {
    struct proxy_sub *sub = &args->subs[s];
    struct conn *conn = sub->op.conn;
    if (conn) {
      uint64_t chunk = (uint64_t)sub->op.chunk_steps;
      sub->base = (conn->proxy_step + chunk - 1) / chunk * chunk;
      conn->proxy_step = sub->base + (uint64_t)sub->op.nsteps;
      prof_record(sub->op_handle, CULPRIT_NCCL_PROXY_OP_IN_PROGRESS, &none);
    }
  }
  args->progressing = true;
}

// Sending.

static uint8_t *slot(const struct proxy_sub *sub, int step) {
  return sub->op.conn->buffer + (sub->base + (uint64_t)step) % NCCL_STEPS * sub->op.conn->step_bytes;
}

static bool send_post(struct proxy_sub *sub, int depth) {
  struct conn *conn = sub->op.conn;
  if (sub->posted >= sub->op.nsteps || sub->posted >= sub->done + depth) return false;
  int step = sub->posted;
  step_start(sub, step);
  sub->posted += sub->op.slice_steps;
  if (conn->p2p) atomic_store_explicit(&conn->limit, sub->base + (uint64_t)sub->posted, memory_order_release);
  op_record(sub, step, CULPRIT_NCCL_PROXY_OP_SEND_POSTED);
  step_record(sub, step, CULPRIT_NCCL_SEND_GPU_WAIT);
  return true;
}

static bool send_transmit(struct proxy_sub *sub, uint64_t now) {
  struct conn *conn = sub->op.conn;
  int step = sub->transmitted;
  if (step >= sub->posted || step >= sub->done + NCCL_STEPS) return false;
  if (atomic_load_explicit(&conn->tail, memory_order_acquire) <= sub->base + (uint64_t)step) return false;
  uint64_t delay = fault_proxy_delay();
  if (delay > 0 && sub->delayed < step) {
    sub->delayed = step;
    sleep_ns(delay);
  }
  op_record(sub, step, CULPRIT_NCCL_PROXY_OP_SEND_REM_FIFO_WAIT);
  step_record(sub, step, CULPRIT_NCCL_SEND_PEER_WAIT);
  uint32_t bytes = conn->sizes[(sub->base + (uint64_t)step) % NCCL_STEPS];
  if (!link_isend(conn, sub->op.tag, slot(sub, step), bytes, now)) return false;
  sub->trans_size = bytes;
  sub->op_bytes += bytes;
  sub->transmitted += sub->op.slice_steps;
  op_record(sub, step, CULPRIT_NCCL_PROXY_OP_SEND_TRANSMITTED);
  step_record(sub, step, CULPRIT_NCCL_SEND_WAIT);
  return true;
}

static bool send_complete(struct proxy_args *args, struct proxy_sub *sub, uint64_t now) {
  struct conn *conn = sub->op.conn;
  if (sub->done >= sub->transmitted || !link_test_send(conn, now)) return false;
  int step = sub->done;
  sub->done += sub->op.slice_steps;
  op_record(sub, step, CULPRIT_NCCL_PROXY_OP_SEND_DONE);
  step_stop(sub, step);
  if (!conn->p2p) {
    atomic_store_explicit(&conn->limit, sub->base + (uint64_t)sub->done + NCCL_STEPS, memory_order_release);
  }
  if (sub->done >= sub->op.nsteps) args->done++;
  return true;
}

static bool progress_send(struct proxy_args *args, uint64_t now) {
  bool any = false;
  int depth = args->group && SHARED_STEPS / args->nsubs < NCCL_STEPS ? SHARED_STEPS / args->nsubs : NCCL_STEPS;
  if (depth < 1) depth = 1;
  for (int s = 0; s < args->nsubs; s++) {
    struct proxy_sub *sub = &args->subs[s];
    if (sub->done >= sub->op.nsteps) continue;
    link_progress(sub->op.conn, now, fault_link_stalled(sub->op.conn));
    any |= send_post(sub, depth) || send_transmit(sub, now) || send_complete(args, sub, now);
  }
  return any;
}

// Receiving, in NCCL's phases: the next one only when the one before had nothing to do.

static bool recv_post(struct proxy_args *args) {
  bool any = false;
  int depth = args->group && SHARED_STEPS / args->nsubs < NCCL_STEPS ? SHARED_STEPS / args->nsubs : NCCL_STEPS;
  if (depth < 1) depth = 1;
  for (int s = 0; s < args->nsubs; s++) {
    struct proxy_sub *sub = &args->subs[s];
    if (sub->posted >= sub->op.nsteps || sub->posted >= sub->done + depth) continue;
    int step = sub->posted;
    step_start(sub, step);
    link_irecv(sub->op.conn, sub->op.tag, slot(sub, step));
    sub->posted += sub->op.slice_steps;
    op_record(sub, step, CULPRIT_NCCL_PROXY_OP_RECV_POSTED);
    step_record(sub, step, CULPRIT_NCCL_RECV_WAIT);
    any = true;
  }
  return any;
}

static bool recv_arrive(struct proxy_args *args) {
  bool any = false;
  for (int s = 0; s < args->nsubs; s++) {
    struct proxy_sub *sub = &args->subs[s];
    struct conn *conn = sub->op.conn;
    uint32_t bytes;
    if (sub->received >= sub->posted || !link_test_recv(conn, &bytes)) continue;
    int step = sub->received;
    conn->sizes[(sub->base + (uint64_t)step) % NCCL_STEPS] = bytes;
    sub->trans_size = bytes;
    sub->op_bytes += bytes;
    sub->received += sub->op.slice_steps;
    op_record(sub, step, CULPRIT_NCCL_PROXY_OP_RECV_RECEIVED);
    step_record(sub, step, CULPRIT_NCCL_RECV_FLUSH_WAIT);
    any = true;
  }
  return any;
}

static bool recv_flushed(struct proxy_args *args, uint64_t now) {
  bool any = false;
  for (int s = 0; s < args->nsubs; s++) {
    struct proxy_sub *sub = &args->subs[s];
    if (sub->transmitted >= sub->received) continue;
    int step = sub->transmitted;
    // The flush of a transfer begins when it is the oldest.
    if (sub->flush_step != step) {
      sub->flush_step = step;
      sub->flushed_ns = now + fault_flush_delay(sub->op.comm);
    }
    if (now < sub->flushed_ns || fault_flush_stalled(sub->op.comm)) continue;
    sub->transmitted += sub->op.slice_steps;
    op_record(sub, step, CULPRIT_NCCL_PROXY_OP_RECV_TRANSMITTED);
    step_record(sub, step, CULPRIT_NCCL_RECV_GPU_WAIT);
    atomic_store_explicit(&sub->op.conn->tail, sub->base + (uint64_t)sub->transmitted, memory_order_release);
    any = true;
  }
  return any;
}

static bool recv_consumed(struct proxy_args *args) {
  bool any = false;
  for (int s = 0; s < args->nsubs; s++) {
    struct proxy_sub *sub = &args->subs[s];
    uint64_t head = atomic_load_explicit(&sub->op.conn->head, memory_order_acquire);
    while (sub->transmitted > sub->done && head > sub->base + (uint64_t)sub->done) {
      int step = sub->done;
      sub->done += sub->op.slice_steps;
      op_record(sub, step, CULPRIT_NCCL_PROXY_OP_RECV_DONE);
      // Up to NCCL 2.26 about half of the stops never come.
      if (!prof_native() || step / sub->op.slice_steps % 2 == 0) step_stop(sub, step);
      any = true;
      if (sub->done >= sub->op.nsteps) args->done++;
    }
  }
  return any;
}

static bool progress_recv(struct proxy_args *args, uint64_t now) {
  for (int s = 0; s < args->nsubs; s++) link_progress(args->subs[s].op.conn, now, false);
  bool any = recv_post(args);
  if (any) {
    for (int s = 0; s < args->nsubs; s++) link_progress(args->subs[s].op.conn, now, false);
    return true;
  }
  return recv_arrive(args) || recv_flushed(args, now) || recv_consumed(args);
}

// Start and end of the kernel on a channel.

static bool progress_kernel(struct proxy_args *args) {
  struct proxy_sub *sub = &args->subs[0];
  struct comm *comm = sub->op.comm;
  uint64_t at = sub->op.work_counter;
  if (sub->posted == 0) {
    struct kernel_mark *mark = &comm->started[sub->op.channel][at % KERNEL_MARKS];
    if (atomic_load_explicit(&mark->counter, memory_order_acquire) < at) return false;
    prof_descr descr = {.type = CULPRIT_NCCL_KERNEL_CH, .parentObj = sub->op.task_handle};
    descr.kernelCh.channelId = (uint8_t)sub->op.channel;
    descr.kernelCh.pTimer = atomic_load_explicit(&mark->timestamp, memory_order_relaxed);
    prof_start(comm->prof_context, &sub->kernel_handle, &descr);
    sub->posted = 1;
    return true;
  }
  struct kernel_mark *mark = &comm->completed[sub->op.channel][at % KERNEL_MARKS];
  if (atomic_load_explicit(&mark->counter, memory_order_acquire) < at) return false;
  if (sub->kernel_handle) {
    prof_args end = {.kernelCh = {.pTimer = atomic_load_explicit(&mark->timestamp, memory_order_relaxed)}};
    prof_record(sub->kernel_handle, CULPRIT_NCCL_KERNEL_CH_STOP, &end);
    prof_stop(sub->kernel_handle);
  }
  args->done++;
  return true;
}

bool progress_args(struct proxy_args *args, uint64_t now) {
  if (!args->progressing) begin(args);
  if (!args->subs[0].op.conn) return progress_kernel(args);
  return args->subs[0].op.is_send ? progress_send(args, now) : progress_recv(args, now);
}

bool progress_finished(struct proxy_args *args) {
  if (args->done < args->nsubs) return false;
  for (int s = 0; s < args->nsubs; s++) {
    prof_stop(args->subs[s].op_handle);
    args->subs[s].op_handle = NULL;
    if (prof_native()) native_left = args->subs[s].op_bytes;
  }
  return true;
}
