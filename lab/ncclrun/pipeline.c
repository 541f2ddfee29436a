// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "work.h"

#include "fault.h"
#include "pattern.h"

// Distance in salt between the microbatches of a stage, and between steps.
enum { SALT_FORWARD = 7, SALT_BACKWARD = 29, SALT_STEP = 13 };

static uint64_t salt_of_micro(const struct train *t, int micro, bool forward) {
  return t->step * SALT_STEP + (uint64_t)micro * (forward ? SALT_FORWARD : SALT_BACKWARD) + (forward ? 0 : 1);
}

static bool one_way(struct buffers *b, size_t count, int peer, bool send) {
  struct comm *c = b->comm;
  if (send) return nccl_ok(nccl.Send(b->in, count, NCCL_FLOAT32, peer, c->handle, c->stream), "ncclSend");
  return nccl_ok(nccl.Recv(b->out, count, NCCL_FLOAT32, peer, c->handle, c->stream), "ncclRecv");
}

static bool send_and_receive(struct buffers *b, size_t count, int peer, bool sends, bool receives) {
  struct comm *c = b->comm;
  if (!nccl_ok(nccl.GroupStart(), "ncclGroupStart")) return false;
  if (sends && !one_way(b, count, peer, true)) return false;
  if (receives && !one_way(b, count, peer, false)) return false;
  fault_hold(GROUP_STALL, c->name, false);
  return nccl_ok(nccl.GroupEnd(), "ncclGroupEnd");
}

void pipeline_exchange(void *context, bool with_next, int send_micro, int recv_micro) {
  struct train *t = context;
  if (!t->going) return;
  struct buffers *b = with_next ? &t->next : &t->prev;
  int peer = t->stage + (with_next ? 1 : -1);
  bool sends = send_micro >= 0, receives = recv_micro >= 0;
  fault_before_op(b->comm->name, false);
  t->going = comm_enter(b->comm);
  if (t->going && sends) {
    t->going = buffers_fill(b, 0, t->pp_count, salt_of_micro(t, send_micro, with_next), pattern_weight(b->comm->rank));
  }
  if (t->going) t->going = send_and_receive(b, t->pp_count, peer, sends, receives);
  if (t->going && receives) {
    t->going = buffers_check(b, "Recv", 0, t->pp_count, salt_of_micro(t, recv_micro, !with_next), pattern_weight(peer));
  }
  if (t->going) t->going = comm_join(b->comm);
}

// Sends and receives of a stage with both of its neighbours, in one group.
void pipeline_rotate(void *context, const struct rotation *r) {
  struct train *t = context;
  if (!t->going) return;
  struct comm *c = t->next.comm;
  int next = (t->stage + 1) % c->nranks, prev = (t->stage + c->nranks - 1) % c->nranks;
  const struct {
    struct buffers *b;
    int peer, micro;
    bool send, forward;
  } ways[] = {{&t->next, next, r->forward_out, true, true},
              {&t->prev, prev, r->forward_in, false, true},
              {&t->prev, prev, r->backward_out, true, false},
              {&t->next, next, r->backward_in, false, false}};
  enum { WAYS = sizeof ways / sizeof *ways };
  fault_before_op(c->name, false);
  t->going = comm_enter(c);
  for (int i = 0; t->going && i < WAYS; i++) {
    if (ways[i].micro < 0 || !ways[i].send) continue;
    t->going = buffers_fill(ways[i].b, 0, t->pp_count, salt_of_micro(t, ways[i].micro, ways[i].forward), pattern_weight(c->rank));
  }
  t->going = t->going && nccl_ok(nccl.GroupStart(), "ncclGroupStart");
  for (int i = 0; t->going && i < WAYS; i++) {
    if (ways[i].micro >= 0) t->going = one_way(ways[i].b, t->pp_count, ways[i].peer, ways[i].send);
  }
  if (!t->going) return;
  fault_hold(GROUP_STALL, c->name, false);
  t->going = nccl_ok(nccl.GroupEnd(), "ncclGroupEnd");
  for (int i = 0; t->going && i < WAYS; i++) {
    if (ways[i].micro < 0 || ways[i].send) continue;
    t->going = buffers_check(ways[i].b, "Recv", 0, t->pp_count, salt_of_micro(t, ways[i].micro, ways[i].forward), pattern_weight(ways[i].peer));
  }
  if (t->going) t->going = comm_join(c);
}
