// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the proxies and the GPU tell of an operation.

#include "op_state.h"

#include "comm.h"
#include "completion.h"

enum op_proxy_verdict op_proxy_started(handle op, int32_t peer, uint64_t now, struct op_proxy *out) {
  const uint32_t i = op_lock(op);
  if (i == NONE) return OP_PROXY_UNKNOWN;
  struct op_ctl *o = &shim.ops[i];
  struct comm_ctl *c = &shim.comms[o->comm_index];
  const uint32_t comm = o->comm_index;
  if (c->nranks > 0 && peer >= c->nranks) o->flags |= CULPRIT_OP_PROXY_UNRELIABLE;  // CollNet's peer is nobody.
  const bool follow = (o->flags & CULPRIT_OP_PROXY_UNRELIABLE) == 0;
  const bool first = follow && !o->announced;
  const uint64_t before = o->group_first;
  if (follow) {
    o->proxy_started++;
    COUNT(c->proxies_open, 1);
    o->announced = true;
    o->flags &= ~CULPRIT_OP_NO_COMPLETION;
    out->number = o->number;
    out->seq = o->seq;
    out->func = o->func;
    out->comm = comm;
    out->progress_ns = &trace_op(&shim.file, i)->last_progress_ns;
  }
  op_settle(i);
  if (follow && GET(c->has_proxy) == 0) {
    PUT(c->has_proxy, 1);
    __atomic_fetch_or(&trace_comm(&shim.file, comm)->flags, CULPRIT_COMM_HAS_PROXY, __ATOMIC_RELAXED);
  }
  PUT(trace_comm(&shim.file, comm)->last_progress_ns, now);
  if (first) op_advance(comm, &c->final_before, before);
  return follow ? OP_PROXY_FOLLOW : OP_PROXY_IGNORE;
}

void op_moving(handle op, uint64_t now) {
  const uint32_t i = op_lock(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  if (o->state < CULPRIT_OP_MOVING) {
    o->state = CULPRIT_OP_MOVING;
    PUT(trace_op(&shim.file, i)->first_step_ns, now);
  }
  op_publish(i);
  op_unlock(i);
}

void op_on_gpu(handle op, uint64_t now) {
  const uint32_t i = op_lock(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  struct comm_ctl *c = &shim.comms[o->comm_index];
  const uint32_t comm = o->comm_index;
  const bool first = !o->passed;
  const uint64_t before = o->group_first;
  o->passed = true;
  op_unlock(i);
  PUT(trace_comm(&shim.file, comm)->last_progress_ns, now);
  if (first) op_advance(comm, &c->passed_before, before);
}

// A proxy operation that has not ended keeps its operation's slot from being given away, so that a stop can be noted
// without holding the slot.
static void proxy_missed(handle op) {
  const uint32_t i = handle_index(op);
  if (i >= shim.file.op_count) return;
  struct op_ctl *o = &shim.ops[i];
  if ((GET(o->generation) & HANDLE_GENERATION_MASK) != handle_generation(op)) return;
  COUNT(o->proxy_missed, 1);
  COUNT(shim.comms[o->comm_index].proxies_open, UINT32_MAX);
}

void op_proxy_closed(handle op, bool is_send, const struct culprit_direction *sums, bool ended, uint64_t now) {
  const uint32_t i = op_lock(op);
  if (i == NONE) {
    if (ended) proxy_missed(op);
    return;
  }
  struct op_ctl *o = &shim.ops[i];
  if (sums != NULL) direction_add(&o->directions[is_send ? 1 : 0], sums);
  if (ended) {
    o->proxy_stopped++;
    COUNT(shim.comms[o->comm_index].proxies_open, UINT32_MAX);
    o->last_proxy_ns = op_later(o->last_proxy_ns, sums != NULL && sums->last_step_ns != 0 ? sums->last_step_ns : now);
  }
  PUT(trace_comm(&shim.file, o->comm_index)->last_progress_ns, now);
  op_settle(i);
}

void op_proxy_lost(handle op) {
  const uint32_t i = op_lock(op);
  if (i == NONE) return;
  COUNT(shim.comms[shim.ops[i].comm_index].proxies_open, UINT32_MAX);
  shim.ops[i].proxies_unknown = true;
  shim.ops[i].flags |= CULPRIT_OP_PROXY_UNRELIABLE;
  op_settle(i);
}

bool op_kernel_started(handle op, uint32_t channel, uint64_t timer, uint64_t now) {
  if (channel >= CULPRIT_MAX_CHANNELS) return false;
  const uint32_t i = op_lock(op);
  if (i == NONE) return false;
  struct op_ctl *o = &shim.ops[i];
  o->kernel_started |= UINT64_C(1) << channel;
  o->gpu_start[channel] = timer;
  if (o->entered_ns == 0) o->entered_ns = now;
  if (o->state < CULPRIT_OP_ENTERED) o->state = CULPRIT_OP_ENTERED;
  PUT(trace_op(&shim.file, i)->last_progress_ns, now);
  PUT(trace_comm(&shim.file, o->comm_index)->last_progress_ns, now);
  op_publish(i);
  op_unlock(i);
  return true;
}

void op_kernel_timed(handle op, uint32_t channel, uint64_t timer) {
  if (channel >= CULPRIT_MAX_CHANNELS) return;
  const uint32_t i = op_lock(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  if ((o->kernel_started & UINT64_C(1) << channel) != 0 && o->gpu_start[channel] != 0) {
    o->gpu_ns = op_later(o->gpu_ns, clock_since(timer, o->gpu_start[channel]));
  }
  op_unlock(i);
}

void op_kernel_stopped(handle op, uint32_t channel, uint64_t now) {
  if (channel >= CULPRIT_MAX_CHANNELS) return;
  const uint32_t i = op_lock(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  const uint64_t bit = UINT64_C(1) << channel;
  if ((o->kernel_stopped & bit) != 0) {
    op_unlock(i);
    COUNT(shim.file.header->repeated_events, 1);
    return;
  }
  o->kernel_started |= bit;
  o->kernel_stopped |= bit;
  o->kernel_left_ns = now;
  PUT(trace_op(&shim.file, i)->last_progress_ns, now);
  PUT(trace_comm(&shim.file, o->comm_index)->last_progress_ns, now);
  op_settle(i);
}
