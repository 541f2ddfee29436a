// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The hot path: a time step of a proxy operation. One reading of the clock, plain stores, no locked instruction, no
// call out except at a proxy operation's first step, first sign of the GPU, and end.
//
// Steps pass every stage in order and number themselves from 0, so the number alone is the counter: an event that comes
// twice changes nothing, one that was lost is made up for by the next.
//
// Nearly every event is the next one of its stage, on the thread that owns the flow, with nobody to be told of it:
// advance_usual, one copy for each direction and stage, in which what such an event cannot change is left out. All others
// take advance_any.

#include "flow.h"
#include "flow_lock.h"
#include "flow_state.h"
#include "op.h"
#include "qp.h"
#include "transfer.h"

enum outcome { OUTCOME_FIRST = UNTOLD_FIRST, OUTCOME_ON_GPU = UNTOLD_ON_GPU, OUTCOME_CLOSED = 4 };

// find_step finds the proxy operation of a step's handle; false when it is stale.
static inline __attribute__((always_inline)) bool find_step(handle step, struct proxy_ctl **p) {
  const uint32_t i = handle_index(step);
  if (__builtin_expect(i >= shim.proxy_count, 0)) return false;
  *p = &shim.proxies[i];
  return __builtin_expect(GET((*p)->step_tag) == handle_tag(step), 1);
}

static __attribute__((noinline, cold)) void stale(void) { shim_stale(); }

// refused counts a start that gives no handle.
static __attribute__((noinline, cold)) handle refused(handle proxy, bool known) {
  if (!known && proxy != 0) shim_stale();
  return 0;
}

// A forked child finds the table of proxy operations empty (session.c), so a handle that is good here says that tracing is
// on and this is no child.
handle flow_step_started(handle proxy, int step) {
  struct proxy_ctl *p;
  // The handle of the first step: that of the proxy operation but for the kind.
  const handle first = proxy + ((uint64_t)(HANDLE_STEP - HANDLE_PROXY_OP) << HANDLE_KIND_SHIFT);
  if (__builtin_expect(!find_step(first, &p), 0)) return refused(proxy, false);
  if (__builtin_expect((unsigned)step >= HANDLE_AUX_LIMIT, 0)) return refused(proxy, true);
  if (__builtin_expect(GET(shim.qps_on) != 0, 0)) qp_flow_other();
  return first | (unsigned)step;
}

// tell gives what the operation is to be told of a step, and notes that it has been.
static unsigned tell(struct proxy_ctl *p, bool is_send, unsigned stage, uint64_t now) {
  unsigned outcome = 0;
  if ((p->untold & UNTOLD_FIRST) != 0) {
    p->first_step_ns = now;
    outcome |= OUTCOME_FIRST;
  }
  if (is_send ? stage >= STAGE_READY : stage == STAGE_DONE) outcome |= p->untold & UNTOLD_ON_GPU;
  p->untold &= (uint8_t)~outcome;
  p->last_step_ns = now;
  if (p->counts[STAGE_DONE] >= p->total) outcome |= OUTCOME_CLOSED;
  return outcome;
}

// put_progress writes that the operation in the slot has moved, for the first time since `then`.
static inline void put_progress(struct culprit_flow *s, const struct proxy_ctl *p, uint64_t then, uint64_t now) {
  const uint64_t gap = clock_since(now, then);
  if (gap > GET(s->largest_gap_ns)) PUT(s->largest_gap_ns, gap);
  PUT(s->last_progress_ns, now);
  PUT(*p->op_progress_ns, now);
  PUT(s->peer_polls, 0);
}

// advance_shown moves the proxy operation that the slot shows.
static unsigned advance_shown(struct flow_ctl *f, struct culprit_flow *s, struct proxy_ctl *p, bool is_send, unsigned stage,
                              uint32_t n, uint64_t bytes, uint64_t now) {
  const uint32_t done = p->counts[STAGE_DONE];
  const uint32_t counted = p->counts[flow_counted(is_send)];
  for (unsigned k = 0; k <= stage; k++) flow_count(p, s, k, n, true);
  if (p->counts[flow_counted(is_send)] != counted) flow_probed(f, now);
  const uint8_t state = flow_state_of(p, is_send);
  if (state != f->state || p->counts[STAGE_DONE] != done) {
    flow_charge(f, s, is_send, now);
    flow_enter(f, s, state, now);
  }
  put_progress(s, p, f->last_progress, now);
  flow_activity(f, s, p, is_send, now);
  BUMP(s->bytes, bytes);
  BUMP(s->total_bytes, bytes);
  const unsigned outcome = tell(p, is_send, stage, now);
  if ((outcome & OUTCOME_FIRST) != 0) PUT(s->first_step_ns, now);
  return outcome;
}

// advance_hidden moves a proxy operation behind an unfinished one: on another connection of the same flow.
static unsigned advance_hidden(struct culprit_flow *s, struct proxy_ctl *p, unsigned stage, uint32_t n, uint64_t bytes,
                               uint64_t now) {
  for (unsigned k = 0; k <= stage; k++) flow_count(p, s, k, n, false);
  p->bytes += bytes;
  BUMP(s->total_bytes, bytes);
  PUT(*p->op_progress_ns, now);
  return tell(p, p->is_send != 0, stage, now);
}

// conclude lets the flow go and tells the operation what a step has shown.
static void conclude(struct flow_ctl *f, uint32_t proxy, unsigned outcome, uint64_t now, struct flow_hold hold) {
  struct proxy_ctl *p = &shim.proxies[proxy];
  struct culprit_flow *s = trace_flow(&shim.file, GET(p->flow));
  const handle op = p->op;
  const bool is_send = p->is_send != 0;
  struct flow_share share;
  if ((outcome & OUTCOME_CLOSED) != 0) flow_close(f, s, proxy, now, &share);
  flow_drop(f, &s->version, hold);
  if (op == 0) return;
  if ((outcome & OUTCOME_FIRST) != 0) op_moving(op, now);
  if ((outcome & OUTCOME_ON_GPU) != 0) op_on_gpu(op, is_send, now);
  if ((outcome & OUTCOME_CLOSED) != 0) op_proxy_closed(op, is_send, &share, true, now);
}

static __attribute__((noinline)) void repeated(const struct proxy_ctl *p, unsigned stage) {
  if (stage == STAGE_READY && GET(p->is_send) != 0) {
    BUMP(GET(p->slot)->peer_polls, 1);  // Polled while the receiver posts nothing, millions of times a second.
    if (__builtin_expect(GET(shim.qps_on) != 0, 0)) qp_flow_sending(GET(p->flow));
  } else {
    COUNT(shim.file.header->repeated_events, 1);
  }
}

// advance_any takes any event of a step whose stage has not been passed.
static __attribute__((noinline)) void advance_any(handle h, unsigned stage, uint64_t bytes) {
  const uint32_t i = handle_index(h), n = handle_aux(h) + 1;
  struct proxy_ctl *p = &shim.proxies[i];
  struct flow_ctl *f = GET(p->at);
  struct culprit_flow *s = GET(p->slot);
  const bool is_send = GET(p->is_send) != 0;
  const uint64_t now = shim_now();
  if (is_send && GET(shim.qps_on) != 0) {
    if (stage == STAGE_READY) qp_flow_sending(GET(p->flow));
    if (stage == STAGE_TRANSMITTED) qp_flow_other();
  }
  struct flow_hold hold;
  if (!flow_take(f, &s->version, &hold)) {
    shim_contended();
    return;
  }
  if (GET(p->step_tag) != handle_tag(h)) {  // Replaced since its handle was checked.
    flow_drop(f, &s->version, hold);
    stale();
    return;
  }
  if (p->closed) {  // A step beyond the announced number.
    flow_drop(f, &s->version, hold);
    COUNT(shim.file.header->repeated_events, 1);
    return;
  }
  const bool shown = f->current == i;
  const unsigned outcome =
      shown ? advance_shown(f, s, p, is_send, stage, n, bytes, now) : advance_hidden(s, p, stage, n, bytes, now);
  if (shown && GET(shim.transfers_on) != 0) {
    if (stage == (is_send ? STAGE_TRANSMITTED : STAGE_POSTED)) transfer_begin(i, n - 1, bytes, now);
    if (stage == (is_send ? STAGE_DONE : STAGE_READY)) transfer_end(i, n - 1, bytes, now);
  }
  if (outcome != 0) {
    conclude(f, i, outcome, now, hold);
  } else {
    flow_drop(f, &s->version, hold);
  }
}

// observed says whether anything but the flow may take part in events of a stage.
static inline bool observed(bool is_send, unsigned stage) {
  if (is_send && (stage == STAGE_READY || stage == STAGE_TRANSMITTED) && GET(shim.qps_on) != 0) return true;
  const bool transfer = is_send ? stage >= STAGE_TRANSMITTED : stage <= STAGE_READY;
  return transfer && GET(shim.transfers_on) != 0;
}

// usual says whether advance_usual has nothing to do but what it does. The owner of the flow is the only one to ask.
static inline __attribute__((always_inline)) bool usual(const struct flow_ctl *f, const struct proxy_ctl *p, handle h, bool is_send,
                                                        unsigned stage, uint32_t n) {
  const uint8_t untold = (is_send ? stage >= STAGE_READY : stage == STAGE_DONE) ? UNTOLD_FIRST | UNTOLD_ON_GPU : UNTOLD_FIRST;
  return flow_owned(f) && f->current == handle_index(h) && p->counts[stage] + 1 == n &&
         (stage == STAGE_POSTED || p->counts[stage - 1] >= n) && (p->untold & untold) == 0 &&
         (stage != STAGE_DONE || n < p->total);
}

// advance_usual takes the next event of a stage. It relies on
//  - posted >= ready >= transmitted >= done, and a flow's state being what flow_state_of says whenever nobody holds it: the
//    state changes only when the oldest step moves, and then the stage tells what it was;
//  - the flow's owner alone changing its proxy operations while it is not shared: what was looked at before holds.
static inline __attribute__((always_inline)) void advance_usual(handle h, struct proxy_ctl *p, bool is_send, unsigned stage,
                                                                uint64_t bytes) {
  const uint32_t n = handle_aux(h) + 1;
  if (__builtin_expect(GET(p->counts[stage]) >= n, 0)) {
    repeated(p, stage);
    return;
  }
  struct flow_ctl *f = GET(p->at);
  struct culprit_flow *s = GET(p->slot);
  const struct clock_anchor *anchor = clock_anchored(&shim.clock);
  if (__builtin_expect(GET(f->owner) != thread_pointer() || anchor == NULL || observed(is_send, stage), 0)) {
    advance_any(h, stage, bytes);
    return;
  }
  flow_own(f);
  if (__builtin_expect(!usual(f, p, h, is_send, stage, n), 0)) {
    flow_disown(f);
    advance_any(h, stage, bytes);
    return;
  }
  const uint64_t now = clock_at(anchor, clock_ticks());
  const uint32_t even = seqlock_enter(&s->version);
  BUMP(*flow_total(s, stage), 1);
  PUT(p->counts[stage], n);
  PUT(*flow_counter(s, stage), n);
  if (stage == STAGE_DONE) {
    flow_charge_wait(f, s, 2, now);
    flow_enter(f, s, flow_state_of(p, is_send), now);
  } else if (p->counts[STAGE_DONE] + 1 == n) {
    if (stage > 0) flow_charge_wait(f, s, stage - 1, now);
    flow_enter(f, s, (uint8_t)(flow_first_wait(is_send) + stage), now);
  }
  const uint64_t then = f->last_progress;
  flow_active(f, s, then, now);
  if (stage == (is_send ? STAGE_TRANSMITTED : STAGE_POSTED)) f->active = 1;
  if (stage == (is_send ? STAGE_DONE : STAGE_READY)) f->active = p->counts[stage - 1] > n;
  put_progress(s, p, then, now);
  if (stage == flow_counted(is_send)) flow_probed(f, now);
  f->last_progress = now;
  p->last_step_ns = now;
  if (stage == (is_send ? STAGE_TRANSMITTED : STAGE_READY)) {
    BUMP(s->bytes, bytes);
    BUMP(s->total_bytes, bytes);
  }
  seqlock_leave(&s->version, even);
  flow_disown(f);
}

void flow_step_state(handle step, int state, uint64_t bytes) {
  struct proxy_ctl *p;
  if (__builtin_expect(!find_step(step, &p), 0)) {
    stale();
    return;
  }
  const bool is_send = GET(p->is_send) != 0;
  switch (state) {
    case CULPRIT_NCCL_SEND_GPU_WAIT:
      if (is_send) advance_usual(step, p, true, STAGE_POSTED, 0);
      return;
    case CULPRIT_NCCL_SEND_PEER_WAIT:
      if (is_send) advance_usual(step, p, true, STAGE_READY, 0);
      return;
    case CULPRIT_NCCL_SEND_WAIT:
      if (is_send) advance_usual(step, p, true, STAGE_TRANSMITTED, bytes);
      return;
    case CULPRIT_NCCL_RECV_WAIT:
      if (!is_send) advance_usual(step, p, false, STAGE_POSTED, 0);
      return;
    case CULPRIT_NCCL_RECV_FLUSH_WAIT:
      if (!is_send) advance_usual(step, p, false, STAGE_READY, bytes);
      return;
    case CULPRIT_NCCL_RECV_GPU_WAIT:
      if (!is_send) advance_usual(step, p, false, STAGE_TRANSMITTED, 0);
      return;
    default: return;
  }
}

void flow_step_received(handle step) {
  struct proxy_ctl *p;
  if (!find_step(step, &p)) return;  // Its stop has come first, and the proxy operation's.
  if (GET(p->is_send) != 0 || GET(p->counts[STAGE_DONE]) > handle_aux(step)) return;
  advance_usual(step, p, false, STAGE_DONE, 0);
}

void flow_step_stopped(handle step) {
  struct proxy_ctl *p;
  if (__builtin_expect(!find_step(step, &p), 0)) {
    stale();
  } else if (GET(p->is_send) != 0) {
    advance_usual(step, p, true, STAGE_DONE, 0);
  } else {
    advance_usual(step, p, false, STAGE_DONE, 0);
  }
}
