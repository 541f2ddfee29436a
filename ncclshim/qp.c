// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "qp.h"

#include "lifecycle.h"

#include <string.h>

#define STATE_RTS 3  // IBV_QPS_RTS.
#define EPOCH_SHIFT 15

// take gives the slot of a queue pair, held; NONE when there is none, or another thread has it.
static uint32_t take(uint64_t qp) {
  const uint32_t i = handle_index(qp);
  if (!shim_active() || handle_kind_of(qp) != HANDLE_QP || handle_cookie(qp) != shim.cookie || i >= shim.file.qp_count) {
    return NONE;
  }
  struct culprit_qp *s = trace_qp(&shim.file, i);
  if (!seqlock_take(&s->version)) {
    shim_contended();
    return NONE;
  }
  const struct qp_ctl *q = &shim.qps[i];
  if (q->used && (q->generation & HANDLE_GENERATION_MASK) == handle_generation(qp)) return i;
  seqlock_release(&s->version);
  shim_stale();
  return NONE;
}

static void give(uint32_t i) { seqlock_release(&trace_qp(&shim.file, i)->version); }

uint64_t qp_created(uint32_t qp_num, const char *device) {
  if (!shim_active()) return 0;
  const uint64_t now = shim_now();
  const uint32_t i = pool_take(&shim.qp_pool, &shim.file.header->qps_high);
  if (i == NONE) {
    lifecycle_dropped(CULPRIT_SECTION_QPS, now);
    return 0;
  }
  struct culprit_qp *s = trace_qp(&shim.file, i);
  if (!seqlock_take(&s->version)) {
    pool_give(&shim.qp_pool, i);
    return 0;
  }
  struct qp_ctl *q = &shim.qps[i];
  const uint32_t generation = q->generation + 1;
  memset(q, 0, sizeof *q);
  q->generation = generation;
  q->used = true;
  put_zero((unsigned char *)s + 8, sizeof *s - 8);
  PUT(s->generation, generation);
  PUT(s->in_use, 1);
  PUT(s->qp_num, qp_num);
  PUT(s->comm_index, NONE);
  PUT(s->flow_index, NONE);
  PUT(s->peer, -1);
  put_text(s->device, device, sizeof s->device);
  PUT(s->created_ns, now);
  seqlock_release(&s->version);
  if (GET(shim.qps_on) == 0) {
    __atomic_fetch_or(&shim.file.header->capabilities, CULPRIT_CAP_QPS, __ATOMIC_RELAXED);
    PUT(shim.qps_on, 1);
  }
  return handle_make(HANDLE_QP, shim.cookie, generation, i, 0);
}

void qp_changed(uint64_t qp, const struct culprit_qp_change *change) {
  const uint32_t i = take(qp);
  if (i == NONE) return;
  struct culprit_qp *s = trace_qp(&shim.file, i);
  if (change->state >= 0) {
    PUT(s->state, (uint16_t)change->state);
    if (change->state == STATE_RTS) PUT(s->connected_ns, shim_now());
  }
  if (change->dest_qp_num != 0) PUT(s->dest_qp_num, change->dest_qp_num);
  if (change->has_path) {
    PUT(s->port, change->port);
    PUT(s->dest_lid, change->dest_lid);
    PUT(s->gid_index, change->gid_index);
    uint64_t gid[2];
    memcpy(gid, change->remote_gid, sizeof gid);
    put_words(s->remote_gid, gid, sizeof gid);
  }
  give(i);
}

void qp_destroyed(uint64_t qp) {
  const uint32_t i = take(qp);
  if (i == NONE) return;
  shim.qps[i].used = false;
  PUT(trace_qp(&shim.file, i)->in_use, 0);
  give(i);
  pool_give(&shim.qp_pool, i);
}

// activity brings the time with a send outstanding up to now.
static void activity(struct qp_ctl *q, struct culprit_qp *s, uint64_t now) {
  if (q->active) {
    BUMP(s->active_ns, clock_since(now, q->active_mark));
    const uint64_t last = now >> EPOCH_SHIFT;
    if (last > q->last_epoch) {
      uint64_t first = q->active_mark >> EPOCH_SHIFT;
      if (first <= q->last_epoch) first = q->last_epoch + 1;
      BUMP(s->epochs, (uint32_t)(last - first + 1));
      q->last_epoch = last;
    }
  }
  q->active_mark = now;
  q->active = GET(s->sends_posted) > GET(s->sends_completed);
}

static struct sending *sending_here(void) {
  const uint64_t self = thread_pointer();
  return &shim.sending[(self >> 6 ^ self >> 12 ^ self >> 18) % SENDING];
}

void qp_flow_sending(uint32_t flow) {
  struct sending *s = sending_here();
  PUT(s->flow, 0);
  PUT(s->thread, thread_pointer());
  __atomic_store_n(&s->flow, flow + 1, __ATOMIC_RELEASE);
}

void qp_flow_other(void) {
  struct sending *s = sending_here();
  if (GET(s->thread) == thread_pointer()) PUT(s->flow, 0);
}

// associate notes whose data this is, when the thread has just said so.
static void associate(struct culprit_qp *s) {
  const struct sending *here = sending_here();
  const uint32_t flow = __atomic_load_n(&here->flow, __ATOMIC_ACQUIRE);
  if (flow == 0 || GET(here->thread) != thread_pointer() || flow > shim.file.flow_count) return;
  const struct culprit_flow *f = trace_flow(&shim.file, flow - 1);
  PUT(s->flow_index, flow - 1);
  PUT(s->flow_generation, GET(f->generation));
  PUT(s->comm_index, GET(f->comm_index));
  PUT(s->comm_generation, GET(f->comm_generation));
  PUT(s->peer, GET(f->peer));
  PUT(shim.flows[flow - 1].qp_num, GET(s->qp_num));  // For the record of the operation.
}

void qp_send_posted(uint64_t qp, uint64_t bytes, bool signaled) {
  const uint32_t i = take(qp);
  if (i == NONE) return;
  struct qp_ctl *q = &shim.qps[i];
  struct culprit_qp *s = trace_qp(&shim.file, i);
  const uint64_t now = shim_now();
  associate(s);
  activity(q, s, now);
  BUMP(s->sends_posted, 1);
  BUMP(s->send_bytes, bytes);
  PUT(s->last_post_ns, now);
  // Only signaled requests complete, in order, and each takes with it those posted before. When more are outstanding
  // than there is room for, the last place stands for all of them.
  if (signaled) {
    if (q->signaled_tail - q->signaled_head == QP_SIGNALED) q->signaled_tail--;
    q->signaled[q->signaled_tail++ % QP_SIGNALED] = GET(s->sends_posted);
  }
  q->active = true;
  give(i);
}

void qp_receive_posted(uint64_t qp) {
  const uint32_t i = take(qp);
  if (i == NONE) return;
  BUMP(trace_qp(&shim.file, i)->receives_posted, 1);
  give(i);
}

void qp_completed(uint64_t qp, bool receive, int status) {
  const uint32_t i = take(qp);
  if (i == NONE) return;
  struct qp_ctl *q = &shim.qps[i];
  struct culprit_qp *s = trace_qp(&shim.file, i);
  const uint64_t now = shim_now();
  PUT(s->last_completion_ns, now);
  if (status != 0) {  // Nothing else in it holds, so not even the direction is known; the queue pair is of no more use.
    BUMP(s->errors, 1);
    PUT(s->last_error, (uint32_t)status);
    activity(q, s, now);
  } else if (receive) {
    BUMP(s->receives_completed, 1);
  } else {
    const uint64_t done = q->signaled_head != q->signaled_tail ? q->signaled[q->signaled_head++ % QP_SIGNALED] : 0;
    if (done > GET(s->sends_completed)) PUT(s->sends_completed, done);
    activity(q, s, now);
  }
  give(i);
}
