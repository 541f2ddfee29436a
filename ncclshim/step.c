// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The hot path: a time step of a proxy operation. One reading of the clock, plain stores, no locked instruction, no
// call out except at a proxy operation's first step, first sign of the GPU, and end.
//
// Steps pass every stage in order and number themselves from 0, so the number alone is the counter: an event that comes
// twice changes nothing, one that was lost is made up for by the next.

#include "flow.h"
#include "flow_lock.h"
#include "flow_state.h"
#include "op.h"
#include "qp.h"
#include "transfer.h"

enum outcome { OUTCOME_FIRST = 1, OUTCOME_ON_GPU = 2, OUTCOME_CLOSED = 4 };

// find_proxy gives the proxy operation of a handle, NULL when it is stale.
static inline struct proxy_ctl *find_proxy(handle h) {
  const uint32_t i = handle_index(h);
  if (__builtin_expect(handle_cookie(h) != shim.cookie || i >= shim.proxy_count, 0)) return NULL;
  struct proxy_ctl *p = &shim.proxies[i];
  return __builtin_expect((GET(p->generation) & HANDLE_GENERATION_MASK) == handle_generation(h), 1) ? p : NULL;
}

// A forked child finds the table of proxy operations empty (session.c), so a handle that is good here says that tracing is
// on and this is no child.
handle flow_step_started(handle proxy, int step) {
  if (__builtin_expect(handle_kind_of(proxy) != HANDLE_PROXY_OP || find_proxy(proxy) == NULL, 0)) {
    if (proxy != 0) shim_stale();
    return 0;
  }
  if ((unsigned)step >= HANDLE_AUX_LIMIT) return 0;
  if (__builtin_expect(GET(shim.qps_on) != 0, 0)) qp_flow_other();
  return handle_as(proxy, HANDLE_STEP, (uint32_t)step);
}

// advance_shown moves the proxy operation that the slot shows.
static inline __attribute__((always_inline)) unsigned advance_shown(struct flow_ctl *f, struct culprit_flow *s, struct proxy_ctl *p,
                                                                    bool is_send, unsigned stage, uint32_t n,
                                                                    uint64_t bytes, uint64_t now) {
  const uint32_t done = p->counts[STAGE_DONE];
  unsigned outcome = 0;
  if (__builtin_expect(p->counts[stage] + 1 == n && (stage == 0 || p->counts[stage - 1] >= n), 1)) {
    BUMP(*flow_total(s, stage), 1);
    PUT(p->counts[stage], n);
    PUT(*flow_counter(s, stage), n);
  } else {
    for (unsigned k = 0; k <= stage; k++) flow_count(p, s, k, n, true);
  }

  const uint8_t state = flow_state_of(p, is_send);
  if (state != f->state || p->counts[STAGE_DONE] != done) {
    flow_charge(f, s, is_send, now);
    flow_enter(f, s, state, now);
  }
  flow_activity(f, s, p, is_send, now);
  const uint64_t gap = clock_since(now, f->last_progress);
  if (gap > GET(s->largest_gap_ns)) PUT(s->largest_gap_ns, gap);
  f->last_progress = now;
  PUT(s->last_progress_ns, now);
  PUT(*p->op_progress_ns, now);
  if (bytes != 0) {
    BUMP(s->bytes, bytes);
    BUMP(s->total_bytes, bytes);
  }
  if (GET(s->peer_polls) != 0) PUT(s->peer_polls, 0);
  if (__builtin_expect(p->first_step_ns == 0, 0)) {
    p->first_step_ns = now;
    PUT(s->first_step_ns, now);
    outcome |= OUTCOME_FIRST;
  }
  p->last_step_ns = now;
  if (__builtin_expect(!p->gpu_seen, 0) && (is_send ? stage >= STAGE_READY : stage == STAGE_DONE)) {
    p->gpu_seen = true;
    outcome |= OUTCOME_ON_GPU;
  }
  if (__builtin_expect(p->counts[STAGE_DONE] >= p->total, 0)) outcome |= OUTCOME_CLOSED;
  return outcome;
}

// advance_hidden moves a proxy operation behind an unfinished one: on another connection of the same flow.
static __attribute__((noinline)) unsigned advance_hidden(struct culprit_flow *s, struct proxy_ctl *p, unsigned stage, uint32_t n, uint64_t bytes,
                               uint64_t now) {
  unsigned outcome = 0;
  for (unsigned k = 0; k <= stage; k++) flow_count(p, s, k, n, false);
  p->bytes += bytes;
  BUMP(s->total_bytes, bytes);
  PUT(*p->op_progress_ns, now);
  if (p->first_step_ns == 0) {
    p->first_step_ns = now;
    outcome |= OUTCOME_FIRST;
  }
  p->last_step_ns = now;
  if (!p->gpu_seen && (p->is_send != 0 ? stage >= STAGE_READY : stage == STAGE_DONE)) {
    p->gpu_seen = true;
    outcome |= OUTCOME_ON_GPU;
  }
  if (p->counts[STAGE_DONE] >= p->total) outcome |= OUTCOME_CLOSED;
  return outcome;
}

// conclude lets the flow go and tells the operation what a step has shown.
static __attribute__((noinline)) void conclude(struct flow_ctl *f, uint32_t proxy, unsigned outcome, uint64_t now,
                                               struct flow_hold hold) {
  struct proxy_ctl *p = &shim.proxies[proxy];
  struct culprit_flow *s = trace_flow(&shim.file, GET(p->flow));
  const handle op = p->op;
  const bool is_send = p->is_send != 0;
  struct culprit_direction sums;
  if ((outcome & OUTCOME_CLOSED) != 0) flow_close(f, s, proxy, now, &sums);
  flow_drop(f, &s->version, hold);
  if (op == 0) return;
  if ((outcome & OUTCOME_FIRST) != 0) op_moving(op, now);
  if ((outcome & OUTCOME_ON_GPU) != 0) op_on_gpu(op, now);
  if ((outcome & OUTCOME_CLOSED) != 0) op_proxy_closed(op, is_send, &sums, true, now);
}

// unusual is the way of a step whose proxy operation is not the one in the slot: behind another one, ended, or replaced
// since its handle was checked.
static __attribute__((noinline)) void unusual(handle h, struct flow_ctl *f, struct culprit_flow *s, struct proxy_ctl *p,
                                              unsigned stage, uint64_t bytes, uint64_t now, struct flow_hold hold) {
  if ((p->generation & HANDLE_GENERATION_MASK) != handle_generation(h)) {
    flow_drop(f, &s->version, hold);
    shim_stale();
    return;
  }
  if (p->closed) {  // A step beyond the announced number.
    flow_drop(f, &s->version, hold);
    COUNT(shim.file.header->repeated_events, 1);
    return;
  }
  const unsigned outcome = advance_hidden(s, p, stage, handle_aux(h) + 1, bytes, now);
  conclude(f, handle_index(h), outcome, now, hold);
}

static __attribute__((noinline)) void repeated(struct culprit_flow *s, const struct proxy_ctl *p, unsigned stage) {
  if (stage == STAGE_READY && GET(p->is_send) != 0) {
    BUMP(s->peer_polls, 1);  // Polled while the receiver posts nothing, millions of times a second.
    if (__builtin_expect(GET(shim.qps_on) != 0, 0)) qp_flow_sending(GET(p->flow));
  } else {
    COUNT(shim.file.header->repeated_events, 1);
  }
}

static inline __attribute__((always_inline)) void step_event(handle h, struct proxy_ctl *p, bool is_send, unsigned stage,
                                                             uint64_t bytes) {
  const uint32_t n = handle_aux(h) + 1;
  const uint32_t fi = GET(p->flow);
  struct culprit_flow *s = trace_flow(&shim.file, fi);
  if (__builtin_expect(GET(p->counts[stage]) >= n, 0)) {
    repeated(s, p, stage);
    return;
  }
  const uint64_t now = shim_now();
  if (is_send && stage == STAGE_READY && __builtin_expect(GET(shim.qps_on) != 0, 0)) qp_flow_sending(fi);
  if (is_send && stage == STAGE_TRANSMITTED && __builtin_expect(GET(shim.qps_on) != 0, 0)) qp_flow_other();
  struct flow_ctl *f = &shim.flows[fi];
  struct flow_hold hold;
  if (__builtin_expect(!flow_take(f, &s->version, &hold), 0)) {
    shim_contended();
    return;
  }
  if (__builtin_expect(f->current != handle_index(h) || (p->generation & HANDLE_GENERATION_MASK) != handle_generation(h), 0)) {
    unusual(h, f, s, p, stage, bytes, now, hold);
    return;
  }
  const unsigned outcome = advance_shown(f, s, p, is_send, stage, n, bytes, now);
  if (stage == (is_send ? STAGE_TRANSMITTED : STAGE_POSTED) && __builtin_expect(GET(shim.transfers_on) != 0, 0)) {
    transfer_begin(handle_index(h), n - 1, bytes, now);
  }
  if (stage == (is_send ? STAGE_DONE : STAGE_READY) && __builtin_expect(GET(shim.transfers_on) != 0, 0)) {
    transfer_end(handle_index(h), n - 1, bytes, now);
  }
  if (__builtin_expect(outcome != 0, 0)) {
    conclude(f, handle_index(h), outcome, now, hold);
  } else {
    flow_drop(f, &s->version, hold);
  }
}

void flow_step_state(handle step, int state, uint64_t bytes) {
  struct proxy_ctl *p = find_proxy(step);
  if (p == NULL) {
    shim_stale();
    return;
  }
  const bool is_send = GET(p->is_send) != 0;
  switch (state) {
    case CULPRIT_NCCL_SEND_GPU_WAIT:
      if (is_send) step_event(step, p, true, STAGE_POSTED, 0);
      return;
    case CULPRIT_NCCL_SEND_PEER_WAIT:
      if (is_send) step_event(step, p, true, STAGE_READY, 0);
      return;
    case CULPRIT_NCCL_SEND_WAIT:
      if (is_send) step_event(step, p, true, STAGE_TRANSMITTED, bytes);
      return;
    case CULPRIT_NCCL_RECV_WAIT:
      if (!is_send) step_event(step, p, false, STAGE_POSTED, 0);
      return;
    case CULPRIT_NCCL_RECV_FLUSH_WAIT:
      if (!is_send) step_event(step, p, false, STAGE_READY, bytes);
      return;
    case CULPRIT_NCCL_RECV_GPU_WAIT:
      if (!is_send) step_event(step, p, false, STAGE_TRANSMITTED, 0);
      return;
    default: return;
  }
}

void flow_step_stopped(handle step) {
  struct proxy_ctl *p = find_proxy(step);
  if (__builtin_expect(p == NULL, 0)) {
    shim_stale();
    return;
  }
  if (GET(p->is_send) != 0) {
    step_event(step, p, true, STAGE_DONE, 0);
  } else {
    step_event(step, p, false, STAGE_DONE, 0);
  }
}
