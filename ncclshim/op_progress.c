// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the proxies and the GPU tell of an operation.

#include "op_state.h"

#include "comm.h"
#include "completion.h"

#define EARLY_NS UINT64_C(1000000)  // By which a kernel may seem to begin before it was enqueued, or to end before it began: clocks differ.
#define ANCHOR_NS INT64_C(10000000000)  // For how long the GPU's clock and ours are taken to run alike.

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
    o->unproven = false;
    if ((o->flags & CULPRIT_OP_P2P) != 0) comm_p2p_learn(comm, o->peer, o->func == CULPRIT_FUNC_SEND, P2P_PROXIED);
    out->number = o->number;
    out->seq = o->seq;
    out->func = o->func;
    out->comm = comm;
    out->progress_ns = &trace_op(&shim.file, i)->last_progress_ns;
  }
  op_settle(i);
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

void op_on_gpu(handle op, bool is_send, uint64_t now) {
  const uint32_t i = op_lock(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  if (is_send && (o->gpu_ready_ns == 0 || now < o->gpu_ready_ns)) {
    o->gpu_ready_ns = now;
    PUT(trace_op(&shim.file, i)->gpu_ready_ns, now);
  }
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

void op_proxy_closed(handle op, bool is_send, const struct flow_share *share, bool ended, uint64_t now) {
  const uint32_t i = op_lock(op);
  if (i == NONE) {
    if (ended) proxy_missed(op);
    return;
  }
  struct op_ctl *o = &shim.ops[i];
  if (share != NULL) share_add(&o->directions[is_send ? 1 : 0], share);
  if (ended) {
    o->proxy_stopped++;
    COUNT(shim.comms[o->comm_index].proxies_open, UINT32_MAX);
    o->last_proxy_ns = op_later(o->last_proxy_ns, share != NULL && share->sums.last_step_ns != 0 ? share->sums.last_step_ns : now);
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

// kernel_time gives when a channel's kernel was at what the GPU's timer told, at the earliest at a time that is known. NCCL tells late: of
// stops when the proxy thread comes to them, and up to 2.30 of operations that share a kernel of the later ones' starts only when the
// earlier ones have stopped. The GPU's time, counted from the quickest of the last seconds' tellings, says when. What would lie before the
// earliest shows that the GPU's clock was set back: counting starts anew.
static uint64_t kernel_time(uint32_t comm, uint32_t channel, uint64_t timer, uint64_t earliest, uint64_t now) {
  struct kernel_told *k = &shim.comms[comm].kernels_told[channel];
  const int64_t later = (int64_t)(timer - GET(k->timer));
  if (timer != 0 && GET(k->timer) != 0 && later > -ANCHOR_NS && later < ANCHOR_NS) {
    const uint64_t at = GET(k->at_ns) + (uint64_t)later;
    if (at < now && at + EARLY_NS >= earliest) return op_later(at, earliest);
  }
  PUT(k->timer, timer);
  PUT(k->at_ns, now);
  return now;
}

bool op_kernel_started(handle op, uint32_t channel, uint64_t timer, uint64_t now) {
  if (channel >= CULPRIT_MAX_CHANNELS) return false;
  const uint32_t i = op_lock(op);
  if (i == NONE) return false;
  struct op_ctl *o = &shim.ops[i];
  if (!comm_kernel_trusted(o->comm_index, o->number)) {
    op_unlock(i);
    return false;
  }
  o->kernel_started |= UINT64_C(1) << channel;
  o->gpu_start[channel] = timer;
  const uint64_t began = kernel_time(o->comm_index, channel, timer, o->enqueued_ns, now);
  if (o->entered_ns == 0 || began < o->entered_ns) o->entered_ns = began;
  if (o->state < CULPRIT_OP_ENTERED) o->state = CULPRIT_OP_ENTERED;
  PUT(trace_op(&shim.file, i)->last_progress_ns, now);
  PUT(trace_comm(&shim.file, o->comm_index)->last_progress_ns, now);
  op_publish(i);
  op_unlock(i);
  return true;
}

void op_kernel_timed(handle op, uint32_t channel, uint64_t timer, uint64_t now) {
  if (channel >= CULPRIT_MAX_CHANNELS) return;
  const uint32_t i = op_lock(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  const uint64_t bit = UINT64_C(1) << channel;
  if ((o->kernel_started & bit) != 0 && o->gpu_start[channel] != 0 && timer != 0) {
    o->gpu_ns = op_later(o->gpu_ns, clock_since(timer, o->gpu_start[channel]));
    o->kernel_left_ns = op_later(o->kernel_left_ns, kernel_time(o->comm_index, channel, timer, o->entered_ns, now));
    o->kernel_timed |= bit;
  }
  op_unlock(i);
}

void op_kernel_stopped(handle op, uint32_t channel, uint64_t now) {
  if (channel >= CULPRIT_MAX_CHANNELS) return;
  const uint32_t i = op_lock(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  const uint64_t bit = UINT64_C(1) << channel;
  if (!comm_kernel_trusted(o->comm_index, o->number)) {
    op_unlock(i);
    return;
  }
  if ((o->kernel_stopped & bit) != 0) {
    op_unlock(i);
    COUNT(shim.file.header->repeated_events, 1);
    return;
  }
  o->kernel_started |= bit;
  o->kernel_stopped |= bit;
  if ((o->kernel_timed & bit) == 0) o->kernel_left_ns = now;
  PUT(trace_op(&shim.file, i)->last_progress_ns, now);
  PUT(trace_comm(&shim.file, o->comm_index)->last_progress_ns, now);
  op_settle(i);
}
