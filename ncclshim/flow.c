// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "flow.h"

#include "comm.h"
#include "flow_lock.h"
#include "flow_state.h"
#include "lifecycle.h"
#include "op.h"

#include <sched.h>
#include <string.h>
#include <time.h>

static uint32_t *bucket_of(uint32_t comm, uint32_t channel, bool is_send, int32_t peer) {
  const uint32_t h = ((uint32_t)peer * 0x9e3779b1u) ^ ((channel * 2 + (is_send ? 1 : 0)) * 0x85ebca6bu);
  return &shim.buckets[(size_t)comm * FLOW_BUCKETS + (h >> 16) % FLOW_BUCKETS];
}

// is_flow says whether a flow is that of (communicator, channel, direction, peer). What it was may be given away at any time to
// somebody who does not hold it.
static bool is_flow(const struct flow_ctl *f, uint32_t comm, uint32_t channel, bool is_send, int32_t peer) {
  return GET(f->peer) == peer && GET(f->channel) == channel && (GET(f->is_send) != 0) == is_send && GET(f->comm_index) == comm &&
         GET(f->comm_generation) == GET(shim.comms[comm].generation);
}

static uint32_t search(uint32_t first, uint32_t comm, uint32_t channel, bool is_send, int32_t peer) {
  uint32_t steps = 0;
  for (uint32_t next = first; next != 0 && steps < shim.file.flow_count; steps++) {
    const struct flow_ctl *f = &shim.flows[next - 1];
    if (is_flow(f, comm, channel, is_send, peer)) return next - 1;
    next = GET(f->next);
  }
  return NONE;
}

// prepare gives a flow to a new owner. False when a thread that came late for the former one is at it.
static bool prepare(uint32_t i, uint32_t comm, uint32_t channel, bool is_send, int32_t peer, uint64_t now) {
  struct flow_ctl *f = &shim.flows[i];
  struct culprit_flow *s = trace_flow(&shim.file, i);
  if (!seqlock_take(&s->version)) return false;
  const uint32_t generation = GET(f->generation) + 1;
  PUT(f->generation, generation);
  PUT(f->comm_index, comm);
  PUT(f->comm_generation, GET(shim.comms[comm].generation));
  PUT(f->channel, (uint16_t)channel);
  PUT(f->is_send, (uint8_t)is_send);
  PUT(f->peer, peer);
  PUT(f->gone, 0);
  f->state = f->active = 0;
  f->state_since = f->last_epoch = 0;
  PUT(f->current, NONE);
  f->tail = f->last = NONE;
  PUT(f->qp_num, 0);
  f->last_progress = now;
  put_zero((unsigned char *)s + 8, sizeof *s - 8);
  PUT(s->generation, generation);
  PUT(s->comm_index, comm);
  PUT(s->comm_generation, f->comm_generation);
  PUT(s->channel, f->channel);
  PUT(s->is_send, f->is_send);
  PUT(s->peer, peer);
  PUT(s->state, CULPRIT_FLOW_IDLE);
  PUT(s->state_since_ns, now);
  PUT(s->in_use, 1);
  PUT(f->owner, thread_pointer());
  __atomic_store_n(&f->mode, shim.membarrier ? FLOW_OWNED : FLOW_SHARED, __ATOMIC_RELEASE);
  seqlock_release(&s->version);
  return true;
}

#define TAKE_TRIES 1000
#define TAKE_NAPS 200  // Of a millisecond: some time slices of a busy machine.

// take_patiently takes a flow from a thread that may be descheduled while it holds it, as its slot is lost otherwise. The communicator ends:
// nobody waits for this.
static bool take_patiently(struct flow_ctl *f, uint32_t *version, struct flow_hold *hold) {
  const struct timespec nap = {.tv_nsec = 1000 * 1000};
  for (int i = 0; i < TAKE_TRIES + TAKE_NAPS; i++) {
    if (flow_take(f, version, hold)) return true;
    if (i < TAKE_TRIES) {
      sched_yield();
    } else {
      nanosleep(&nap, NULL);
    }
  }
  shim_contended();
  return false;
}

// comm_gone says whether a flow that has just been entered into the communicator's buckets was too late to be found there at its end.
static bool comm_gone(uint32_t comm) { return __atomic_load_n(&shim.comms[comm].in_use, __ATOMIC_SEQ_CST) == 0; }

// retire_flow empties a flow and turns it into one that every thread must take; who finds it from here on finds it gone.
static void retire_flow(uint32_t i, uint32_t comm, uint32_t generation) {
  struct flow_ctl *f = &shim.flows[i];
  struct culprit_flow *s = trace_flow(&shim.file, i);
  struct flow_hold hold;
  if (!take_patiently(f, &s->version, &hold)) return;
  if (GET(f->comm_index) != comm || GET(f->comm_generation) != generation) {  // It has a new owner.
    flow_drop(f, &s->version, hold);
    return;
  }
  PUT(f->gone, 1);
  f->last = f->current;
  PUT(f->current, NONE);
  f->tail = NONE;
  PUT(s->in_use, 0);
  if (hold.owned) __atomic_store_n(&f->mode, FLOW_SHARED, __ATOMIC_RELEASE);
  flow_drop(f, &s->version, hold);
}

// obtain finds the flow or makes it; NONE when the table is full.
static uint32_t obtain(uint32_t comm, uint32_t channel, bool is_send, int32_t peer, uint64_t now) {
  uint32_t *bucket = bucket_of(comm, channel, is_send, peer);
  uint32_t first = __atomic_load_n(bucket, __ATOMIC_ACQUIRE);
  uint32_t i = search(first, comm, channel, is_send, peer);
  if (i != NONE) return i;
  const uint32_t fresh = pool_take(&shim.flow_pool, &shim.file.header->flows_high);
  if (fresh == NONE) return NONE;
  if (!prepare(fresh, comm, channel, is_send, peer, now)) {
    pool_give(&shim.flow_pool, fresh);
    return NONE;
  }
  const uint32_t generation = GET(shim.flows[fresh].comm_generation);
  for (;;) {
    PUT(shim.flows[fresh].next, first);
    if (__atomic_compare_exchange_n(bucket, &first, fresh + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) break;
    i = search(first, comm, channel, is_send, peer);  // Another thread made one meanwhile; is it this flow?
    if (i != NONE) {
      PUT(trace_flow(&shim.file, fresh)->in_use, 0);
      pool_give(&shim.flow_pool, fresh);
      return i;
    }
  }
  if (comm_gone(comm)) retire_flow(fresh, comm, generation);  // The next communicator in this place gives it back.
  return fresh;
}

void flow_sums(const struct flow_ctl *f, const struct culprit_flow *s, const struct proxy_ctl *p, bool shown,
               struct flow_share *share) {
  struct culprit_direction *out = &share->sums;
  put_zero(share, sizeof *share);
  out->flows = 1;
  out->steps = p->counts[STAGE_DONE];
  out->bytes = shown ? GET(s->bytes) : p->bytes;
  share->qp_num = GET(f->qp_num);
  if (shown) {
    for (int k = 0; k < 3; k++) out->wait_ns[k] = GET(s->wait_ns[k]);
    out->active_ns = GET(s->active_ns);
    out->largest_gap_ns = GET(s->largest_gap_ns);
    share->probes = f->probes;
  }
  out->first_step_ns = p->first_step_ns;
  out->last_step_ns = p->last_step_ns;
  out->slowest_channel = f->channel;
  out->slowest_peer = f->peer;
}

// show writes a proxy operation into the slot.
static void show(struct flow_ctl *f, struct culprit_flow *s, uint32_t proxy, uint64_t now) {
  const struct proxy_ctl *p = &shim.proxies[proxy];
  f->current = proxy;
  f->active = 0;
  f->last_progress = now;
  f->last_probe = f->probes = 0;
  PUT(s->op_index, p->op != 0 ? handle_index(p->op) : 0);
  PUT(s->op_generation, p->op != 0 ? shim.ops[handle_index(p->op)].generation : 0);
  PUT(s->op_number, p->number);
  PUT(s->op_seq, p->seq);
  PUT(s->func, p->func);
  PUT(s->steps_total, p->total);
  for (unsigned k = 0; k < 4; k++) PUT(*flow_counter(s, k), p->counts[k]);
  PUT(s->peer_polls, 0);
  PUT(s->epochs, 0);
  PUT(s->op_started_ns, p->started_ns);
  PUT(s->first_step_ns, p->first_step_ns);
  PUT(s->bytes, p->bytes);
  for (int k = 0; k < 3; k++) PUT(s->wait_ns[k], 0);
  PUT(s->active_ns, 0);
  PUT(s->largest_gap_ns, 0);
  flow_activity(f, s, p, p->is_send != 0, now);
  flow_enter(f, s, p->counts[STAGE_POSTED] == 0 ? (uint8_t)CULPRIT_FLOW_QUEUED : flow_state_of(p, p->is_send != 0), now);
}

void flow_promote(struct flow_ctl *f, struct culprit_flow *s, uint64_t now) {
  uint32_t next = f->current;
  for (uint32_t steps = 0; next != NONE && shim.proxies[next].closed && steps < shim.proxy_count; steps++) {
    struct proxy_ctl *p = &shim.proxies[next];
    p->queued = false;
    next = p->next;
    if (next != NONE) BUMP(s->queued, UINT32_MAX);
  }
  if (next != NONE) {
    show(f, s, next, now);
    return;
  }
  PUT(f->current, NONE);
  f->tail = NONE;
  f->active = 0;
  flow_enter(f, s, CULPRIT_FLOW_IDLE, now);  // The last one's counters stay readable.
}

void flow_close(struct flow_ctl *f, struct culprit_flow *s, uint32_t proxy, uint64_t now, struct flow_share *share) {
  struct proxy_ctl *p = &shim.proxies[proxy];
  const bool shown = f->current == proxy;
  flow_sums(f, s, p, shown, share);
  p->closed = true;
  BUMP(s->total_ops, 1);
  if (shown) flow_promote(f, s, now);
}

// unlink_proxy takes a proxy operation out of the middle of the flow's queue.
static void unlink_proxy(struct flow_ctl *f, struct culprit_flow *s, uint32_t proxy) {
  struct proxy_ctl *gone = &shim.proxies[proxy];
  if (!gone->queued) return;
  uint32_t steps = 0;
  for (uint32_t i = f->current; i != NONE && steps < shim.proxy_count; i = shim.proxies[i].next, steps++) {
    struct proxy_ctl *p = &shim.proxies[i];
    if (p->next != proxy) continue;
    p->next = gone->next;
    if (f->tail == proxy) f->tail = i;
    BUMP(s->queued, UINT32_MAX);
    break;
  }
  gone->queued = false;
}

static void free_proxy(uint32_t proxy) {
  struct proxy_ctl *p = &shim.proxies[proxy];
  PUT(p->generation, p->generation + 1);  // Handles of it are stale from here on.
  PUT(p->step_tag, 0);
  PUT(p->used, false);
  pool_give(&shim.proxy_pool, proxy);
}

// end_proxy finishes a proxy operation whose stop has come: whatever events are missing, all its steps are done.
// Returns false when it had been summed up before.
static bool end_proxy(struct flow_ctl *f, struct culprit_flow *s, uint32_t proxy, uint64_t now,
                      struct flow_share *share) {
  struct proxy_ctl *p = &shim.proxies[proxy];
  bool counted = false;
  if (!p->closed) {
    const bool shown = f->current == proxy;
    if (shown) flow_charge(f, s, p->is_send != 0, now);
    const uint32_t *count = &p->counts[flow_counted(p->is_send != 0)];
    if (shown && *count < p->total) flow_probed(f, now);
    for (unsigned k = 0; k < 4; k++) flow_count(p, s, k, p->total, shown);
    if (shown) flow_activity(f, s, p, p->is_send != 0, now);
    flow_close(f, s, proxy, now, share);
    counted = true;
  }
  unlink_proxy(f, s, proxy);
  free_proxy(proxy);
  return counted;
}

static void lost(handle op, uint64_t now) {
  COUNT(shim.file.header->dropped_flows, 1);
  lifecycle_dropped(CULPRIT_SECTION_FLOWS, now);
  if (op != 0) op_proxy_lost(op);
}

// append queues a proxy operation on its flow; a stop that was missed there is made up for first.
static void append(struct flow_ctl *f, struct culprit_flow *s, uint32_t proxy, uint64_t now, handle *ended_op,
                   struct flow_share *ended_share) {
  const uint32_t head = f->current;
  if (head != NONE && GET(shim.proxies[head].stop_missed) != 0) {
    const handle op = shim.proxies[head].op;
    if (end_proxy(f, s, head, now, ended_share)) *ended_op = op;
  }
  struct proxy_ctl *p = &shim.proxies[proxy];
  p->queued = true;
  if (f->current == NONE) {
    f->tail = proxy;
    show(f, s, proxy, now);
    return;
  }
  shim.proxies[f->tail].next = proxy;
  f->tail = proxy;
  BUMP(s->queued, 1);
}

handle flow_proxy_started(uint32_t comm, handle op, const struct culprit_nccl_proxy_op *proxy, uint64_t now) {
  struct op_proxy about = {.comm = comm, .progress_ns = &shim.nowhere};
  if (proxy->channelId >= CULPRIT_MAX_CHANNELS || proxy->peer < 0) return 0;
  if (op != 0) {
    switch (op_proxy_started(op, proxy->peer, now, &about)) {
      case OP_PROXY_IGNORE: return 0;
      case OP_PROXY_UNKNOWN: op = 0; break;
      case OP_PROXY_FOLLOW: break;
    }
  }
  if (about.comm == NONE) return 0;
  comm_proxied(about.comm);
  const bool is_send = proxy->isSend != 0;
  const uint32_t fi = obtain(about.comm, proxy->channelId, is_send, proxy->peer, now);
  const uint32_t pi = fi == NONE ? NONE : pool_take(&shim.proxy_pool, NULL);
  if (pi == NONE) {
    lost(op, now);
    return 0;
  }
  struct flow_ctl *f = &shim.flows[fi];
  struct culprit_flow *s = trace_flow(&shim.file, fi);
  struct flow_hold hold;
  if (!flow_take(f, &s->version, &hold)) {
    pool_give(&shim.proxy_pool, pi);
    shim_contended();
    if (op != 0) op_proxy_lost(op);
    return 0;
  }
  if (GET(f->gone) != 0 || !is_flow(f, about.comm, proxy->channelId, is_send, proxy->peer)) {  // The communicator has just ended.
    flow_drop(f, &s->version, hold);
    pool_give(&shim.proxy_pool, pi);
    shim_stale();
    return 0;
  }
  struct proxy_ctl *p = &shim.proxies[pi];
  const uint32_t generation = GET(p->generation) + 1;
  PUT(p->flow, fi);
  for (unsigned k = 0; k < 4; k++) PUT(p->counts[k], 0);
  p->total = proxy->nSteps > 0 ? (uint32_t)proxy->nSteps : 0;
  p->next = NONE;
  PUT(p->stop_missed, 0);
  PUT(p->is_send, (uint8_t)is_send);
  PUT(p->used, true);
  p->closed = false;
  p->untold = UNTOLD_FIRST | UNTOLD_ON_GPU;
  p->op = op;
  p->op_progress_ns = about.progress_ns;
  p->number = about.number;
  p->seq = about.seq;
  p->func = about.func;
  p->started_ns = now;
  p->first_step_ns = p->last_step_ns = p->bytes = p->bytes_before = 0;
  if (GET(shim.transfers_on) != 0) memset(&shim.transfer_starts[pi], 0, sizeof shim.transfer_starts[pi]);
  PUT(p->at, f);
  PUT(p->slot, s);
  const handle h = handle_make(HANDLE_PROXY_OP, shim.cookie, generation, pi, 0);
  PUT(p->generation, generation);
  __atomic_store_n(&p->step_tag, handle_tag(handle_as(h, HANDLE_STEP, 0)), __ATOMIC_RELEASE);

  handle ended_op = 0;
  struct flow_share ended_share;
  append(f, s, pi, now, &ended_op, &ended_share);
  flow_drop(f, &s->version, hold);
  if (ended_op != 0) op_proxy_closed(ended_op, is_send, &ended_share, true, now);
  return h;
}

// find_proxy gives the proxy operation of a handle; NONE, counted, when it is stale.
static uint32_t find_proxy(handle proxy) {
  const uint32_t i = handle_index(proxy);
  if (handle_cookie(proxy) == shim.cookie && i < shim.proxy_count &&
      (GET(shim.proxies[i].generation) & HANDLE_GENERATION_MASK) == handle_generation(proxy)) {
    return i;
  }
  shim_stale();
  return NONE;
}

// set_bytes takes the sum of a proxy operation's transfers. NCCL does not clear it for a new proxy operation: what it holds when
// the first step is posted belongs to an earlier one.
static void set_bytes(struct proxy_ctl *p, struct culprit_flow *s, bool shown, bool first, uint64_t bytes) {
  if (first) p->bytes_before = bytes;
  if (bytes < p->bytes_before) return;
  bytes -= p->bytes_before;
  const uint64_t known = shown ? GET(s->bytes) : p->bytes;
  if (p->closed || bytes <= known) return;
  BUMP(s->total_bytes, bytes - known);
  p->bytes = bytes;
  if (shown) PUT(s->bytes, bytes);
}

static void proxy_bytes(handle proxy, bool first, uint64_t bytes) {
  const uint32_t i = find_proxy(proxy);
  if (i == NONE) return;
  struct proxy_ctl *p = &shim.proxies[i];
  struct flow_ctl *f = &shim.flows[GET(p->flow)];
  struct culprit_flow *s = trace_flow(&shim.file, GET(p->flow));
  struct flow_hold hold;
  if (!flow_take(f, &s->version, &hold)) {
    shim_contended();
    return;
  }
  if ((GET(p->generation) & HANDLE_GENERATION_MASK) == handle_generation(proxy)) set_bytes(p, s, f->current == i, first, bytes);
  flow_drop(f, &s->version, hold);
}

// receiver_waits notes that this NCCL tells a receiver that is not ready from a slow network, which its version alone does not say.
static void receiver_waits(void) {
  if (GET(shim.peer_wait_seen) != 0) return;
  PUT(shim.peer_wait_seen, 1);
  __atomic_fetch_or(&shim.file.header->capabilities, CULPRIT_CAP_PEER_WAIT, __ATOMIC_RELAXED);
}

void flow_proxy_state(handle proxy, int state, uint64_t bytes, uint32_t steps) {
  const handle step = handle_as(proxy, HANDLE_STEP, (steps - 1) & (HANDLE_AUX_LIMIT - 1));
  switch (state) {
    case CULPRIT_NCCL_PROXY_OP_SEND_POSTED:
    case CULPRIT_NCCL_PROXY_OP_RECV_POSTED:
      if (steps == 1) proxy_bytes(proxy, true, bytes);
      return;
    case CULPRIT_NCCL_PROXY_OP_SEND_TRANSMITTED:
    case CULPRIT_NCCL_PROXY_OP_RECV_RECEIVED: proxy_bytes(proxy, false, bytes); return;
    case CULPRIT_NCCL_PROXY_OP_SEND_REM_FIFO_WAIT:  // What later versions call SendPeerWait.
      receiver_waits();
      flow_step_state(step, CULPRIT_NCCL_SEND_PEER_WAIT, 0);
      return;
    case CULPRIT_NCCL_PROXY_OP_RECV_DONE: flow_step_received(step); return;  // About half of the steps' own stops never come.
    default: return;
  }
}

void flow_proxy_stopped(handle proxy, uint64_t now) {
  const uint32_t i = find_proxy(proxy);
  if (i == NONE) return;
  struct proxy_ctl *p = &shim.proxies[i];
  const uint32_t fi = GET(p->flow);
  struct flow_ctl *f = &shim.flows[fi];
  struct culprit_flow *s = trace_flow(&shim.file, fi);
  struct flow_hold hold;
  if (!flow_take(f, &s->version, &hold)) {
    PUT(p->stop_missed, 1);
    shim_contended();
    return;
  }
  if ((GET(p->generation) & HANDLE_GENERATION_MASK) != handle_generation(proxy)) {
    flow_drop(f, &s->version, hold);
    shim_stale();
    return;
  }
  const handle op = p->op;
  const bool is_send = p->is_send != 0;
  struct flow_share share;
  const bool counted = end_proxy(f, s, i, now, &share);
  flow_drop(f, &s->version, hold);
  if (counted && op != 0) op_proxy_closed(op, is_send, &share, true, now);
}

// release_proxy hands the figures of an unfinished proxy operation to its operation and frees it, unless its stop comes first.
static void release_proxy(uint32_t i, uint32_t fi, uint64_t now) {
  struct proxy_ctl *p = &shim.proxies[i];
  struct flow_ctl *f = &shim.flows[fi];
  struct culprit_flow *s = trace_flow(&shim.file, fi);
  struct flow_hold hold;
  if (!take_patiently(f, &s->version, &hold)) return;
  if (GET(p->used) == 0 || GET(p->flow) != fi) {
    flow_drop(f, &s->version, hold);
    return;
  }
  const handle op = p->closed ? 0 : p->op;
  const bool is_send = p->is_send != 0;
  struct flow_share share;
  flow_sums(f, s, p, f->last == i, &share);
  p->queued = false;
  free_proxy(i);
  flow_drop(f, &s->version, hold);
  if (op != 0) op_proxy_closed(op, is_send, &share, false, now);
}

// flow_release_all runs when NCCL has ended the communicator's threads. A callback may come all the same, and at the same time: a flow
// is emptied, and each proxy operation freed, by whoever holds the flow.
void flow_release_all(uint32_t comm, uint64_t now) {
  uint32_t firsts[FLOW_BUCKETS];
  const uint32_t generation = GET(shim.comms[comm].generation);
  for (uint32_t b = 0; b < FLOW_BUCKETS; b++) {
    firsts[b] = __atomic_exchange_n(&shim.buckets[(size_t)comm * FLOW_BUCKETS + b], 0, __ATOMIC_SEQ_CST);
    uint32_t steps = 0;
    for (uint32_t next = firsts[b]; next != 0 && steps < shim.file.flow_count; steps++) {
      retire_flow(next - 1, comm, generation);
      next = GET(shim.flows[next - 1].next);
    }
  }
  const uint32_t high = GET(shim.proxy_pool.high);
  for (uint32_t i = 0; i < high && i < shim.proxy_count; i++) {
    const uint32_t fi = GET(shim.proxies[i].flow);
    if (GET(shim.proxies[i].used) == 0 || GET(shim.flows[fi].comm_index) != comm || GET(shim.flows[fi].gone) == 0) continue;
    release_proxy(i, fi, now);
  }
  for (uint32_t b = 0; b < FLOW_BUCKETS; b++) {
    uint32_t steps = 0;
    for (uint32_t next = firsts[b]; next != 0 && steps < shim.file.flow_count; steps++) {
      const uint32_t i = next - 1;
      next = GET(shim.flows[i].next);
      if (GET(shim.flows[i].gone) != 0) pool_give(&shim.flow_pool, i);  // Else its holder never let it go: it is lost.
    }
  }
}
