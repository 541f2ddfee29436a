// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// How a flow's slot changes. The caller holds the flow (flow_lock.h).

#ifndef CULPRIT_FLOW_STATE_H
#define CULPRIT_FLOW_STATE_H

#include "shim.h"

enum flow_stage { STAGE_POSTED = 0, STAGE_READY = 1, STAGE_TRANSMITTED = 2, STAGE_DONE = 3 };

static_assert(offsetof(struct culprit_flow, done) == offsetof(struct culprit_flow, posted) + 12, "counters in a row");
static_assert(offsetof(struct culprit_flow, total_done) == offsetof(struct culprit_flow, total_posted) + 24, "totals in a row");
static_assert(CULPRIT_EPOCH_NS == 1u << 15, "epoch is a shift");
#define EPOCH_SHIFT 15
static_assert(CULPRIT_PROBE_NS == 1u << 20, "probe is a shift");
#define PROBE_SHIFT 20

static inline uint32_t *flow_counter(struct culprit_flow *s, unsigned stage) {
  return (uint32_t *)(void *)((unsigned char *)s + offsetof(struct culprit_flow, posted)) + stage;
}
static inline uint64_t *flow_total(struct culprit_flow *s, unsigned stage) {
  return (uint64_t *)(void *)((unsigned char *)s + offsetof(struct culprit_flow, total_posted)) + stage;
}

// flow_first_wait is the state of the head step before its first advance; wait_ns counts from there.
static inline uint8_t flow_first_wait(bool is_send) {
  return is_send ? (uint8_t)CULPRIT_FLOW_SEND_GPU : (uint8_t)CULPRIT_FLOW_RECV_NET;
}

// flow_state_of tells what the head step waits for.
static inline uint8_t flow_state_of(const struct proxy_ctl *p, bool is_send) {
  const uint32_t done = p->counts[STAGE_DONE];
  for (unsigned stage = STAGE_DONE; stage-- > 0;) {
    if (p->counts[stage] > done) return (uint8_t)(flow_first_wait(is_send) + stage);
  }
  return done < p->total ? CULPRIT_FLOW_BETWEEN : CULPRIT_FLOW_IDLE;
}

// flow_charge adds the time that the head step has spent in its state; flow_charge_wait where its index in wait_ns is known.
static inline void flow_charge_wait(const struct flow_ctl *f, struct culprit_flow *s, unsigned wait, uint64_t now) {
  const uint64_t spent = clock_since(now, f->state_since);
  BUMP(s->wait_ns[wait], spent);
  BUMP(s->total_wait_ns[wait], spent);
}
static inline void flow_charge(const struct flow_ctl *f, struct culprit_flow *s, bool is_send, uint64_t now) {
  const unsigned wait = (unsigned)f->state - flow_first_wait(is_send);
  if (wait < 3) flow_charge_wait(f, s, wait, now);
}

static inline void flow_enter(struct flow_ctl *f, struct culprit_flow *s, uint8_t state, uint64_t now) {
  f->state = state;
  f->state_since = now;
  PUT(s->state, state);
  PUT(s->state_since_ns, now);
}

// flow_active adds the time since the last change, at `then`, when a transfer has been outstanding since.
static inline void flow_active(struct flow_ctl *f, struct culprit_flow *s, uint64_t then, uint64_t now) {
  if (f->active == 0) return;
  const uint64_t spent = clock_since(now, then);
  BUMP(s->active_ns, spent);
  BUMP(s->total_active_ns, spent);
  const uint64_t last = now >> EPOCH_SHIFT;
  if (__builtin_expect(last > f->last_epoch, 0)) {
    uint64_t first = then >> EPOCH_SHIFT;
    if (first <= f->last_epoch) first = f->last_epoch + 1;
    BUMP(s->epochs, (uint32_t)(last - first + 1));
    BUMP(s->total_epochs, last - first + 1);
    f->last_epoch = last;
  }
}

// flow_activity brings the active time up to now and notes whether a transfer is outstanding from here on: handed to
// the network and not acknowledged, or a buffer posted and not filled.
static inline void flow_activity(struct flow_ctl *f, struct culprit_flow *s, const struct proxy_ctl *p, bool is_send,
                                 uint64_t now) {
  flow_active(f, s, f->last_progress, now);
  f->last_progress = now;
  f->active = is_send ? p->counts[STAGE_TRANSMITTED] > p->counts[STAGE_DONE]
                      : p->counts[STAGE_POSTED] > p->counts[STAGE_READY];
}

// flow_counted is the stage whose counter is CCL-D's SendCount or RecvCount.
static inline unsigned flow_counted(bool is_send) { return is_send ? STAGE_DONE : STAGE_READY; }

// flow_probed notes that this counter has changed. A probe every CULPRIT_PROBE_NS would find it changed once, however often it did
// in between. Time that runs back over a probe by the microsecond of a clock's refresh counts as none.
static inline void flow_probed(struct flow_ctl *f, uint64_t now) {
  const uint64_t probe = now >> PROBE_SHIFT;
  if (probe <= f->last_probe) return;
  f->last_probe = probe;
  f->probes++;
}

// flow_count raises a counter of p to n, in the slot too when p is the one shown there.
static inline void flow_count(struct proxy_ctl *p, struct culprit_flow *s, unsigned stage, uint32_t n, bool shown) {
  if (p->counts[stage] >= n) return;
  BUMP(*flow_total(s, stage), n - p->counts[stage]);
  PUT(p->counts[stage], n);
  if (shown) PUT(*flow_counter(s, stage), n);
}

// flow_sums gives a proxy operation's own figures. shown: its times are in the slot.
void flow_sums(const struct flow_ctl *f, const struct culprit_flow *s, const struct proxy_ctl *p, bool shown,
               struct flow_share *share);

// flow_close takes a finished proxy operation out of the count: sums are made, the slot goes idle or to the next one.
void flow_close(struct flow_ctl *f, struct culprit_flow *s, uint32_t proxy, uint64_t now, struct flow_share *share);

// flow_promote shows the next live proxy operation of the queue.
void flow_promote(struct flow_ctl *f, struct culprit_flow *s, uint64_t now);

#endif
