// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "completion.h"

#include <string.h>

void completion_write(const struct op_ctl *o, uint64_t left_ns) {
  const struct comm_ctl *c = &shim.comms[o->comm_index];
  const struct culprit_completion record = {
      .comm_id = c->comm_id,
      .comm_index = o->comm_index,
      .comm_generation = o->comm_generation,
      .nranks = c->nranks,
      .rank = c->rank,
      .number = o->number,
      .seq = o->seq,
      .func = o->func,
      .algo = o->algo,
      .proto = o->proto,
      .datatype_bytes = o->datatype_bytes,
      .count = o->count,
      .bytes = o->bytes,
      .peer = o->peer,
      .root = o->root,
      .channels = o->channels,
      .flags = o->flags,
      .called_ns = o->called_ns,
      .enqueued_ns = o->enqueued_ns,
      .entered_ns = o->entered_ns,
      .left_ns = left_ns,
      .gpu_ns = o->gpu_ns,
      .send = o->directions[1].sums,
      .recv = o->directions[0].sums,
      .gpu_ready_ns = o->gpu_ready_ns,
      .send_probes = o->directions[1].probes,
      .recv_probes = o->directions[0].probes,
      .group_ordinal = o->number - o->group_first + 1,
      .send_qp = o->directions[1].qp_num,
  };
  const size_t ticket = sizeof record.ticket;
  const uint64_t n = __atomic_fetch_add(&shim.file.header->completions_head, 1, __ATOMIC_RELAXED);
  struct culprit_completion *to = trace_completion(&shim.file, n);
  PUT(to->ticket, 0);
  SEQLOCK_STORE_FENCE();
  put_words((unsigned char *)to + ticket, (const unsigned char *)&record + ticket, sizeof record - ticket);
  __atomic_store_n(&to->ticket, n + 1, __ATOMIC_RELEASE);

  struct culprit_comm *s = trace_comm(&shim.file, o->comm_index);
  if (GET(s->generation) != o->comm_generation) return;
  if ((o->flags & CULPRIT_OP_ABANDONED) != 0) return;
  const uint32_t func = o->func < CULPRIT_FUNC_COUNT ? o->func : CULPRIT_FUNC_UNKNOWN;
  if ((o->flags & CULPRIT_OP_END_UNSEEN) != 0) COUNT(s->ops_unseen, 1);
  COUNT(s->ops_completed, 1);
  COUNT(s->func_completed[func], 1);
  COUNT(s->func_bytes[func], o->bytes);
  COUNT(s->func_ns[func], clock_since(left_ns, o->enqueued_ns != 0 ? o->enqueued_ns : o->called_ns));
  PUT(s->last_completed_ns, left_ns);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void direction_add(struct culprit_direction *to, const struct culprit_direction *flow) {
  const uint64_t took = flow->first_step_ns == 0 ? 0 : clock_since(flow->last_step_ns, flow->first_step_ns);
  if (to->flows == 0 || took < to->fastest_ns) to->fastest_ns = took;
  if (to->flows == 0 || flow->last_step_ns >= to->last_step_ns) {
    to->slowest_channel = flow->slowest_channel;
    to->slowest_peer = flow->slowest_peer;
    to->slowest_ns = took;
  }
  to->flows += flow->flows;
  to->steps += flow->steps;
  to->bytes += flow->bytes;
  for (int i = 0; i < 3; i++) to->wait_ns[i] += flow->wait_ns[i];
  to->active_ns = larger(to->active_ns, flow->active_ns);
  to->largest_gap_ns = larger(to->largest_gap_ns, flow->largest_gap_ns);
  if (flow->first_step_ns != 0 && (to->first_step_ns == 0 || flow->first_step_ns < to->first_step_ns)) {
    to->first_step_ns = flow->first_step_ns;
  }
  to->last_step_ns = larger(to->last_step_ns, flow->last_step_ns);
}

void share_add(struct flow_share *to, const struct flow_share *flow) {
  if (to->sums.flows == 0 || flow->sums.last_step_ns >= to->sums.last_step_ns) to->qp_num = flow->qp_num;
  direction_add(&to->sums, &flow->sums);
  if (flow->probes > to->probes) to->probes = flow->probes;  // A rate is one flow's: more flows make a rank no slower.
}
