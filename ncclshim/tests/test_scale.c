// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Many operations at a time: all-to-all over hundreds of ranks in one group, and paths that tell of nothing.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMM_ID 91u
#define MAX_PEERS 1024

static struct culprit_comm comm_at(const struct view *v, uint32_t i) {
  struct culprit_comm c;
  CHECK(view_comm(v, i, &c));
  return c;
}

static struct culprit_op op_of(const struct view *v, uint64_t number) {
  struct culprit_op o;
  CHECK(view_find_op(v, COMM_ID, number, &o));
  return o;
}

// One all-to-all in a group: a send to and a receive from each other rank.
struct exchange {
  void *comm;
  int ranks;
  bool kernels;
  void *ops[2 * MAX_PEERS];
  void *calls[2 * MAX_PEERS];
  void *proxies[2 * MAX_PEERS];
};

static struct nccl_op part(int i) {
  return (struct nccl_op){.func = i % 2 ? "Recv" : "Send", .p2p = true, .peer = 1 + i / 2, .count = 16, .channels = 1};
}

static int parts(const struct exchange *e) { return 2 * (e->ranks - 1); }

static void call_all(struct exchange *e) {
  void *group_api = nccl_group_api(e->comm);
  for (int i = 0; i < parts(e); i++) {
    const struct nccl_op op = part(i);
    e->calls[i] = nccl_call(e->comm, group_api, &op);
    nccl_stop(e->calls[i]);
  }
  void *group = nccl_group(e->comm, group_api);
  for (int i = 0; i < parts(e); i++) {
    const struct nccl_op op = part(i);
    e->ops[i] = nccl_launch(e->comm, e->calls[i], group, &op);
    CHECK(e->ops[i] != NULL);
    nccl_stop(e->ops[i]);
  }
  nccl_stop(group);
  nccl_stop(group_api);
}

// move_all ends all parts but the last `hung`, whose proxy operations start and do not move.
static void move_all(struct exchange *e, int hung) {
  for (int i = 0; i < parts(e); i++) {
    e->proxies[i] = nccl_proxy(e->comm, e->ops[i], 0, 1 + i / 2, 1, i % 2 == 0);
    CHECK(e->proxies[i] != NULL);
  }
  for (int i = 0; i < parts(e) - hung; i++) {
    if (i % 2) nccl_recv_steps(e->comm, e->proxies[i], 0, 1, 64);
    else nccl_send_steps(e->comm, e->proxies[i], 0, 1, 64);
    nccl_stop(e->proxies[i]);
    if (e->kernels) nccl_kernels(e->comm, e->ops[i], 1, 100);
  }
}

static void exchanges(int abi, int ranks, bool kernels) {
  enum { ROUNDS = 5 };
  static struct exchange e;
  setenv("CULPRIT_EVENTS", kernels ? "all" : "-kernelch", 1);
  nccl_load(abi);
  e = (struct exchange){.comm = nccl_init(COMM_ID, NULL, 16, ranks, 0), .ranks = ranks, .kernels = kernels};
  struct view v = view_open();
  const uint64_t each = (uint64_t)parts(&e);
  for (uint64_t round = 0; round < ROUNDS; round++) {
    call_all(&e);
    move_all(&e, 0);
    CHECK_EQ(comm_at(&v, 0).ops_in_flight, 0);
  }
  call_all(&e);
  move_all(&e, 3);
  CHECK_EQ(VIEW_HEAD(&v, dropped_ops) + VIEW_HEAD(&v, dropped_flows), 0);
  CHECK_EQ(VIEW_HEAD(&v, stale_events), 0);
  const struct culprit_comm c = comm_at(&v, 0);
  CHECK_EQ(c.ops_called, (ROUNDS + 1) * each);
  CHECK_EQ(c.ops_started, (ROUNDS + 1) * each);
  CHECK(c.ops_completed >= ROUNDS * each);
  CHECK_EQ(c.ops_in_flight, 3);
  for (uint64_t i = 1; i <= 3; i++) CHECK(op_of(&v, c.ops_called - i).proxy_started == 1);
}

static void all_to_all_v4_300(void) { exchanges(4, 300, false); }
static void all_to_all_v5_300(void) { exchanges(5, 300, true); }
static void all_to_all_v6_600(void) { exchanges(6, 600, true); }
static void all_to_all_v6_1024(void) { exchanges(6, 1024, true); }
static void all_to_all_v7_1024(void) { exchanges(7, 1024, false); }

// The host is several exchanges ahead of the GPU: what is seen over makes room, what is not is kept, and what was lost is counted.
static void ahead_of_the_gpu(void) {
  enum { AHEAD = 4, RANKS = 1024 };
  static struct exchange e[AHEAD];
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 16, RANKS, 0);
  struct view v = view_open();
  for (int i = 0; i < 2; i++) {
    e[i] = (struct exchange){.comm = comm, .ranks = RANKS, .kernels = true};
    call_all(&e[i]);
  }
  const struct nccl_op more = {.count = 64, .channels = 1};
  int lost = 0;
  for (int i = 0; i < 50; i++) lost += nccl_op_simple(comm, &more) == NULL;
  CHECK_EQ(VIEW_HEAD(&v, dropped_ops), lost);
  move_all(&e[0], 0);
  move_all(&e[1], 0);
  void *op = NULL;
  for (int i = 0; i < 50; i++) CHECK((op = nccl_op_simple(comm, &more)) != NULL);  // Not blind.
  void *p = nccl_proxy(comm, op, 0, 1, 2, 1);
  nccl_send_steps(comm, p, 0, 1, 8);
  const struct culprit_comm c = comm_at(&v, 0);
  CHECK_EQ(op_of(&v, c.ops_called - 1).state, CULPRIT_OP_MOVING);
  CHECK(c.ops_completed >= 4 * (RANKS - 1));
}

// Copy engine collectives have a launch and nothing more, with the GPU's events asked for or not: they come and go.
static void copy_engine_for_ever(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 8, 0);
  struct view v = view_open();
  const struct nccl_op desc = {.func = "AllGather", .count = 64};
  for (int i = 0; i < 10000; i++) {
    void *group_api = nccl_group_api(comm);
    void *call = nccl_call(comm, group_api, &desc);
    nccl_stop(call);
    nccl_stop(nccl_ce(comm, call, &desc));
    nccl_stop(group_api);
  }
  CHECK_EQ(VIEW_HEAD(&v, dropped_ops), 0);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 0);
  CHECK(comm_at(&v, 0).ops_completed >= 10000 - 64);
  CHECK(view_live_ops(&v) <= 64);
}

// In a communicator of several nodes, sends to ranks of the own node and those that another process carries (PXN) have no proxies
// here. Without the GPU's events nothing tells of their end, and they must not look like a hang.
static void sends_without_proxies(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 16, 0);
  struct view v = view_open();
  const struct nccl_op near = {.func = "Send", .p2p = true, .peer = 1, .count = 8, .channels = 1};
  const struct nccl_op far = {.func = "Send", .p2p = true, .peer = 9, .count = 8, .channels = 1};
  nccl_op_simple(comm, &near);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 0);
  CHECK_EQ(op_of(&v, 0).flags, CULPRIT_OP_P2P | CULPRIT_OP_NO_COMPLETION);
  // One between the nodes: in flight from its first proxy operation, and from its launch once it is known to have them.
  void *op = nccl_op_simple(comm, &far);
  void *p = nccl_proxy(comm, op, 0, 9, 1, 1);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 1);
  nccl_send_steps(comm, p, 0, 1, 8);
  nccl_stop(p);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 0);
  const struct nccl_op larger = {.func = "Send", .p2p = true, .peer = 9, .count = 8000, .channels = 1};
  nccl_op_simple(comm, &larger);
  CHECK_EQ(op_of(&v, 2).flags, CULPRIT_OP_P2P);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 1);
  // The peer's way is known, whatever the size.
  const struct nccl_op near_larger = {.func = "Send", .p2p = true, .peer = 1, .count = 8000, .channels = 1};
  nccl_op_simple(comm, &near_larger);
  CHECK_EQ(op_of(&v, 3).flags, CULPRIT_OP_P2P | CULPRIT_OP_NO_COMPLETION);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 1);
}

// On a rank in the middle of a node no collective has proxies. After a while that is known: a fast loop keeps no more than its tail.
static void ring_inside_a_node(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 16, 0);
  struct view v = view_open();
  for (int i = 0; i < 100; i++) nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  CHECK(view_live_ops(&v) >= 16);
  usleep(1100000);
  for (int i = 0; i < 2000; i++) nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  CHECK_EQ(view_live_ops(&v), 16);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 0);
}

static uint64_t milliseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

// A burst of sends before the progress thread has had its turn: none of them may be forgotten. After a second without a sign they may,
// so a burst that took long on a busy machine is tried again.
static void burst_before_its_proxies(void) {
  enum { BURST = 400, TRIES = 30 };
  static void *ops[BURST];
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(4);
  struct view v;
  void *comm = NULL;
  bool quick = false;
  for (uint64_t tries = 0; !quick && tries < TRIES; tries++) {
    comm = nccl_init(COMM_ID + tries, NULL, 2, 2, 0);
    const uint64_t begun = milliseconds();
    for (int i = 0; i < BURST; i++) {
      ops[i] = nccl_op_simple(comm, &(struct nccl_op){.func = "Send", .p2p = true, .peer = 1, .count = 8, .channels = 1});
    }
    quick = milliseconds() - begun < 500;
    if (!quick) nccl_finalize(comm);
  }
  CHECK(quick);
  v = view_open();
  const uint64_t before = VIEW_HEAD(&v, completions_head), stale = VIEW_HEAD(&v, stale_events);
  for (int i = 0; i < BURST; i++) {
    void *p = nccl_proxy(comm, ops[i], 0, 1, 1, 1);
    nccl_send_steps(comm, p, 0, 1, 8);
    nccl_stop(p);
  }
  CHECK_EQ(VIEW_HEAD(&v, stale_events), stale);
  struct culprit_completion d;
  for (uint64_t n = 0; n + 1 < BURST; n++) {
    CHECK(view_completion(&v, before + n, &d));
    CHECK_EQ(d.send.bytes, 8);
  }
}

static const struct test_case cases[] = {
    {"all_to_all_v4_300", all_to_all_v4_300},
    {"all_to_all_v5_300", all_to_all_v5_300},
    {"all_to_all_v6_600", all_to_all_v6_600},
    {"all_to_all_v6_1024", all_to_all_v6_1024},
    {"all_to_all_v7_1024", all_to_all_v7_1024},
    {"ahead_of_the_gpu", ahead_of_the_gpu},
    {"copy_engine_for_ever", copy_engine_for_ever},
    {"sends_without_proxies", sends_without_proxies},
    {"ring_inside_a_node", ring_inside_a_node},
    {"burst_before_its_proxies", burst_before_its_proxies},
};

TEST_MAIN(cases)
