// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Operations: what is recorded of them, and when they count as ended.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <stdlib.h>
#include <string.h>

#define COMM_ID 0xabcdef0123456789u

static struct culprit_op op_of(const struct view *v, uint64_t number) {
  struct culprit_op o;
  CHECK(view_find_op(v, COMM_ID, number, &o));
  return o;
}

static bool op_gone(const struct view *v, uint64_t number) {
  struct culprit_op o;
  return !view_find_op(v, COMM_ID, number, &o);
}

static struct culprit_completion last_completion(const struct view *v) {
  struct culprit_completion c;
  CHECK(VIEW_HEAD(v, completions_head) > 0);
  CHECK(view_completion(v, VIEW_HEAD(v, completions_head) - 1, &c));
  return c;
}

static struct culprit_comm comm_of(const struct view *v) {
  struct culprit_comm c;
  CHECK(view_comm(v, 0, &c));
  return c;
}

// A job in which one AllReduce between nodes on two channels is followed from the call to the end.
struct followed {
  struct view v;
  void *comm;
  bool kernels;  // The GPU's events are there.
  void *op;
};

static const struct nccl_op all_reduce = {.count = 1 << 20, .seq = 41, .channels = 2};

static void check_comm(const struct followed *j) {
  const struct culprit_comm c = comm_of(&j->v);
  CHECK_EQ(c.comm_id, (long long)COMM_ID);
  CHECK_EQ(c.nranks, 4);
  CHECK_EQ(c.rank, 1);
  CHECK_EQ(c.nnodes, 2);
  CHECK_TEXT(c.name, "dp_group");
  CHECK_EQ(c.in_use, 1);
}

// The API's event comes first, where there is one; then the launch.
static void call_and_launch(struct followed *j, int abi) {
  void *group_api = nccl_group_api(j->comm);
  void *call = nccl_call(j->comm, group_api, &all_reduce);
  if (abi >= 5) {
    const struct culprit_op o = op_of(&j->v, 0);
    CHECK_EQ(o.state, CULPRIT_OP_CALLED);
    CHECK_EQ(o.func, CULPRIT_FUNC_ALLREDUCE);
    CHECK_EQ(o.bytes, 4 << 20);
    CHECK(VIEW_HEAD(&j->v, group_open_since_ns) != 0);
    nccl_stop(call);
  }
  void *group = nccl_group(j->comm, group_api);
  j->op = nccl_launch(j->comm, call, group, &all_reduce);
  nccl_stop(j->op);
  nccl_stop(group);
  nccl_stop(group_api);
  CHECK_EQ(VIEW_HEAD(&j->v, group_open_since_ns), 0);
}

static void check_enqueued(const struct followed *j) {
  const struct culprit_op o = op_of(&j->v, 0);
  CHECK_EQ(o.state, CULPRIT_OP_ENQUEUED);
  CHECK_EQ(o.seq, 41);
  CHECK_EQ(o.algo, CULPRIT_ALGO_RING);
  CHECK_EQ(o.proto, CULPRIT_PROTO_SIMPLE);
  CHECK_EQ(o.channels, 2);
  CHECK_EQ(o.count, 1 << 20);
  CHECK_EQ(o.datatype_bytes, 4);
  CHECK_TEXT(o.datatype, "ncclFloat32");
  CHECK_EQ(o.root, -1);
  CHECK_EQ(o.peer, -1);
  CHECK(o.called_ns != 0 && o.enqueued_ns >= o.called_ns);
  CHECK(o.user_tid != 0);
  // Without the GPU's events it is not known yet whether anything will tell of its end.
  CHECK_EQ(o.flags, j->kernels ? 0 : CULPRIT_OP_NO_COMPLETION);
  CHECK_EQ(comm_of(&j->v).ops_in_flight, j->kernels ? 1 : 0);
  CHECK_EQ(comm_of(&j->v).seq_started[CULPRIT_FUNC_ALLREDUCE], 42);
}

// Kernels start and stop, proxies do three steps each.
static void move(const struct followed *j) {
  void *k0 = NULL, *k1 = NULL;
  if (j->kernels) {
    k0 = nccl_kernel(j->comm, j->op, 0, 5000);
    k1 = nccl_kernel(j->comm, j->op, 1, 5100);
    const struct culprit_op o = op_of(&j->v, 0);
    CHECK_EQ(o.state, CULPRIT_OP_ENTERED);
    CHECK_EQ(o.kernel_started, 3);
    CHECK(o.entered_ns != 0);
  }
  void *proxies[4];
  for (int i = 0; i < 4; i++) proxies[i] = nccl_proxy(j->comm, j->op, i / 2, i % 2 ? 2 : 0, 3, i % 2);
  for (int i = 0; i < 4; i++) CHECK(proxies[i] != NULL);
  CHECK_EQ(op_of(&j->v, 0).proxy_started, 4);
  CHECK_EQ(op_of(&j->v, 0).flags, 0);
  CHECK_EQ(comm_of(&j->v).ops_in_flight, 1);
  for (int i = 0; i < 4; i++) {
    if (i % 2) nccl_send_steps(j->comm, proxies[i], 0, 3, 1000);
    else nccl_recv_steps(j->comm, proxies[i], 0, 3, 2000);
    if (i == 0) CHECK_EQ(op_of(&j->v, 0).state, CULPRIT_OP_MOVING);
    CHECK_EQ(op_of(&j->v, 0).gpu_ready_ns != 0, i > 0);  // What the GPU takes is not what it offers.
  }
  CHECK(op_of(&j->v, 0).first_step_ns != 0);
  if (j->kernels) {
    CHECK_EQ(op_of(&j->v, 0).state, CULPRIT_OP_MOVING);
    nccl_state(k0, CULPRIT_NCCL_KERNEL_CH_STOP, 5000 + 700);
    nccl_stop(k0);
    CHECK_EQ(op_of(&j->v, 0).kernel_stopped, 1);
    CHECK_EQ(op_of(&j->v, 0).state, CULPRIT_OP_MOVING);
    nccl_state(k1, CULPRIT_NCCL_KERNEL_CH_STOP, 5100 + 900);
    nccl_stop(k1);
  }
  for (int i = 0; i < 4; i++) nccl_stop(proxies[i]);
}

// The end is provisional: another proxy operation might still come. Its time is returned.
static uint64_t check_provisional_end(const struct followed *j) {
  const struct culprit_op o = op_of(&j->v, 0);
  CHECK_EQ(o.state, CULPRIT_OP_LEFT);
  CHECK(o.left_ns >= o.enqueued_ns);
  CHECK_EQ(comm_of(&j->v).ops_in_flight, 0);
  CHECK_EQ(VIEW_HEAD(&j->v, completions_head), 0);
  return o.left_ns;
}

static void check_completion(const struct followed *j, uint64_t left_ns) {
  CHECK(op_gone(&j->v, 0));
  const struct culprit_completion d = last_completion(&j->v);
  CHECK_EQ(d.comm_id, (long long)COMM_ID);
  CHECK_EQ(d.number, 0);
  CHECK_EQ(d.seq, 41);
  CHECK_EQ(d.func, CULPRIT_FUNC_ALLREDUCE);
  CHECK_EQ(d.bytes, 4 << 20);
  CHECK_EQ(d.flags, j->kernels ? 0 : CULPRIT_OP_LEFT_INFERRED);
  CHECK_EQ(d.gpu_ns, j->kernels ? 900 : 0);
  CHECK_EQ(d.left_ns, left_ns);
  CHECK(d.gpu_ready_ns >= d.send.first_step_ns && d.gpu_ready_ns <= d.send.last_step_ns);
  CHECK_EQ(d.send.flows, 2);
  CHECK_EQ(d.send.steps, 6);
  CHECK_EQ(d.send.bytes, 6000);
  CHECK_EQ(d.recv.flows, 2);
  CHECK_EQ(d.recv.bytes, 12000);
  CHECK_EQ(d.recv.slowest_peer, 0);
  CHECK_EQ(d.send.slowest_peer, 2);
  CHECK_EQ(d.send.slowest_channel, 1);  // The flow that finished last.
  CHECK(d.send.first_step_ns <= d.send.last_step_ns);

  const struct culprit_comm c = comm_of(&j->v);
  CHECK_EQ(c.ops_called, 2);
  CHECK_EQ(c.ops_started, 2);
  CHECK_EQ(c.ops_completed, 1);
  CHECK_EQ(c.func_completed[CULPRIT_FUNC_ALLREDUCE], 1);
  CHECK_EQ(c.func_bytes[CULPRIT_FUNC_ALLREDUCE], 4 << 20);
  CHECK_EQ(c.func_ns[CULPRIT_FUNC_ALLREDUCE], d.left_ns - d.enqueued_ns);
}

static void check_closed(const struct followed *j) {
  CHECK_EQ(comm_of(&j->v).in_use, 0);
  CHECK((comm_of(&j->v).flags & CULPRIT_COMM_FINALIZED) != 0);
  CHECK_EQ(view_live_ops(&j->v), 0);
  CHECK_EQ(view_live_flows(&j->v), 0);
  CHECK_EQ(VIEW_HEAD(&j->v, stale_events), 0);
  CHECK_EQ(VIEW_HEAD(&j->v, contended_events), 0);
  CHECK(VIEW_HEAD(&j->v, closed_ns) != 0);
}

// The same under every version of the ABI.
static void lifecycle(int abi, const char *events) {
  setenv("CULPRIT_EVENTS", events, 1);
  nccl_load(abi);
  struct followed j = {.comm = nccl_init(COMM_ID, "dp_group", 2, 4, 1)};
  j.v = view_open();
  j.kernels = (nccl_mask & CULPRIT_NCCL_KERNEL_CH) != 0;
  CHECK_EQ(j.v.header->writer_abi, abi);
  check_comm(&j);
  call_and_launch(&j, abi);
  check_enqueued(&j);
  move(&j);
  const uint64_t left_ns = check_provisional_end(&j);

  // A later operation's first proxy operation proves that none will come.
  const struct nccl_op next = {.count = 1 << 20, .seq = 42, .channels = 2};
  void *op2 = nccl_op_simple(j.comm, &next);
  void *proxy2 = nccl_proxy(j.comm, op2, 0, 2, 3, 1);
  check_completion(&j, left_ns);
  nccl_stop(proxy2);
  nccl_finalize(j.comm);
  check_closed(&j);
}

static void lifecycle_v4(void) { lifecycle(4, "-kernelch"); }
static void lifecycle_v4_kernel(void) { lifecycle(4, "+kernelch"); }
static void lifecycle_v5(void) { lifecycle(5, "all"); }
static void lifecycle_v5_without_kernel(void) { lifecycle(5, "-kernelch"); }
static void lifecycle_v6(void) { lifecycle(6, "all"); }
static void lifecycle_v7(void) { lifecycle(7, "all"); }

// Once the number of proxy operations of a signature is known, an operation ends with the last of them.
static void learned_end(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 2, 0);
  struct view v = view_open();
  for (uint64_t i = 0; i < 4; i++) {
    const struct nccl_op desc = {.count = 64, .seq = i, .channels = 1};
    void *op = nccl_op_simple(comm, &desc);
    void *send = nccl_proxy(comm, op, 0, 1, 1, 1);
    void *recv = nccl_proxy(comm, op, 0, 1, 1, 0);
    nccl_send_steps(comm, send, 0, 1, 256);
    CHECK_EQ(VIEW_HEAD(&v, completions_head), i);  // One of two is not enough.
    nccl_recv_steps(comm, recv, 0, 1, 256);
    nccl_stop(send);
    nccl_stop(recv);
    CHECK_EQ(VIEW_HEAD(&v, completions_head), i == 0 ? 0 : i + 1);
    CHECK_EQ(comm_of(&v).ops_in_flight, 0);
  }
}

// A proxy operation that starts after the others have ended takes the provisional end back.
static void provisional_end_is_taken_back(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 2, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 2});
  void *first = nccl_proxy(comm, op, 0, 1, 1, 1);
  nccl_send_steps(comm, first, 0, 1, 8);
  nccl_stop(first);
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_LEFT);
  void *late = nccl_proxy(comm, op, 1, 1, 2, 1);
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_MOVING);
  CHECK_EQ(op_of(&v, 0).left_ns, 0);
  CHECK_EQ(comm_of(&v).ops_in_flight, 1);
  nccl_send_steps(comm, late, 0, 1, 8);  // One of two steps: it hangs.
  for (uint64_t i = 1; i < 300; i++) {
    void *later = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 2, .seq = i});
    CHECK(later != NULL);
  }
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_MOVING);  // However many come behind it.
  CHECK_EQ(VIEW_HEAD(&v, completions_head), 0);
  CHECK_EQ(comm_of(&v).ops_in_flight, 300);
}

// Operations of one group run at the same time: the end of one proves nothing about the others.
static void group_mates_do_not_end_each_other(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 8, 0);
  struct view v = view_open();
  void *group_api = nccl_group_api(comm);
  void *group = nccl_group(comm, group_api);
  void *ops[3];
  for (int i = 0; i < 3; i++) {
    const struct nccl_op desc = {.count = 64, .channels = 1, .seq = (uint64_t)i};
    void *call = nccl_call(comm, group_api, &desc);
    ops[i] = nccl_launch(comm, call, group, &desc);
  }
  nccl_stop(group_api);
  nccl_kernels(comm, ops[2], 1, 100);
  CHECK_EQ(view_live_ops(&v), 2);
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_ENQUEUED);
  nccl_kernels(comm, ops[0], 1, 100);
  nccl_kernels(comm, ops[1], 1, 100);
  CHECK_EQ(view_live_ops(&v), 0);
}

// Inside a node without KernelCh nothing tells of an end: the operation says so, does not count as in flight, and goes
// after UNSEEN_TAIL later ones.
static void unseen(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 8, 0);
  struct view v = view_open();
  for (uint64_t i = 0; i < 40; i++) nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1, .seq = i});
  CHECK_EQ(comm_of(&v).ops_in_flight, 0);
  CHECK_EQ(comm_of(&v).ops_called, 40);
  CHECK_EQ(view_live_ops(&v), 16);
  CHECK_EQ(op_of(&v, 39).state, CULPRIT_OP_ENQUEUED);
  CHECK((op_of(&v, 39).flags & CULPRIT_OP_NO_COMPLETION) != 0);
  const struct culprit_completion d = last_completion(&v);
  CHECK_EQ(d.number, 23);
  CHECK_EQ(d.flags, CULPRIT_OP_LEFT_INFERRED | CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_END_UNSEEN);
  CHECK_EQ(d.left_ns, d.enqueued_ns);  // Nothing is known about its duration.
  CHECK_EQ(comm_of(&v).ops_completed, 24);
  CHECK_EQ(comm_of(&v).ops_unseen, 24);
}

// Calls that no launch follows (symmetric memory, AllGatherV broadcast): marked when their group has ended.
static void call_without_launch(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 8, 0);
  struct view v = view_open();
  void *group_api = nccl_group_api(comm);
  const struct nccl_op desc = {.func = "Broadcast", .count = 64, .root = 3};
  void *call = nccl_call(comm, group_api, &desc);
  CHECK_EQ(op_of(&v, 0).flags, 0);
  CHECK_EQ(op_of(&v, 0).root, 3);
  CHECK_EQ(comm_of(&v).ops_in_flight, 1);  // The thread may hang inside ncclGroupEnd.
  nccl_stop(call);
  nccl_stop(group_api);
  CHECK_EQ(op_of(&v, 0).flags, CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_HIDDEN);
  CHECK((comm_of(&v).flags & CULPRIT_COMM_HIDES_OPS) != 0);
  CHECK_EQ(comm_of(&v).ops_in_flight, 0);

  // A launch that comes after all (from a host callback) makes it an ordinary operation again.
  void *op = nccl_launch(comm, call, NULL, &(struct nccl_op){.func = "Broadcast", .count = 256, .channels = 1, .root = 3});
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_ENQUEUED);
  CHECK_EQ(op_of(&v, 0).bytes, 256);  // 64 floats, as the user said; NCCL made it 256 bytes.
  nccl_stop(op);
  CHECK(nccl_proxy(comm, op, 0, 1, 1, 1) != NULL);
  CHECK_EQ(op_of(&v, 0).flags, 0);
  CHECK_EQ(comm_of(&v).ops_in_flight, 1);
}

// A hidden Broadcast in flight says nothing of itself. What the GPU does later says that it has ended: that end was not seen, but it
// is known. One that only had to make room is counted as unseen.
static void hidden_broadcast(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 8, 0);
  struct view v = view_open();
  const struct nccl_op broadcast = {.func = "Broadcast", .count = 64, .root = 3};
  for (int i = 0; i < 2; i++) {
    void *group_api = nccl_group_api(comm);
    nccl_stop(nccl_call(comm, group_api, &broadcast));
    nccl_stop(group_api);
  }
  CHECK_EQ(comm_of(&v).ops_called, 2);
  CHECK_EQ(comm_of(&v).ops_started, 0);
  CHECK_EQ(comm_of(&v).ops_in_flight, 0);
  CHECK_EQ(op_of(&v, 1).state, CULPRIT_OP_CALLED);
  CHECK_EQ(op_of(&v, 1).flags, CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_HIDDEN);
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  nccl_send_steps(comm, nccl_proxy(comm, op, 0, 1, 2, 1), 0, 1, 8);
  CHECK_EQ(comm_of(&v).ops_completed, 2);
  CHECK_EQ(comm_of(&v).ops_unseen, 0);
  CHECK_EQ(last_completion(&v).flags, CULPRIT_OP_LEFT_INFERRED | CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_HIDDEN);
}

// All to all over many ranks calls more in one group than is kept open without one, and launches them all at its end. Each has
// one number.
static void large_group(void) {
  enum { OPS = 700 };
  static void *calls[OPS];
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, OPS, 0);
  struct view v = view_open();
  for (int round = 0; round < 2; round++) {
    const struct nccl_op desc = {.func = "Send", .count = 64, .p2p = true, .channels = 1, .peer = 1};
    void *group_api = nccl_group_api(comm);
    for (int i = 0; i < OPS; i++) {
      calls[i] = nccl_call(comm, group_api, &desc);
      nccl_stop(calls[i]);
    }
    for (int i = 0; i < OPS; i++) CHECK(nccl_launch(comm, calls[i], NULL, &desc) != NULL);
    nccl_stop(group_api);
  }
  CHECK_EQ(comm_of(&v).ops_called, 2 * OPS);
  CHECK_EQ(comm_of(&v).ops_started, 2 * OPS);
  CHECK_EQ(v.header->dropped_ops + v.header->stale_events, 0);
}

// Launches that come long after their calls, from a host callback behind a CUDA graph: never numbered a second time, and
// followed unless very many came between.
static void late_launches(void) {
  enum { OPS = 50 };
  static void *calls[OPS];
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 8, 0);
  struct view v = view_open();
  const struct nccl_op desc = {.count = 64, .channels = 1};
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < OPS; i++) {
      void *group_api = nccl_group_api(comm);
      calls[i] = nccl_call(comm, group_api, &desc);
      nccl_stop(group_api);
    }
    if (round == 1) {
      for (int i = 0; i < 100; i++) nccl_op_simple(comm, &desc);
    }
    for (int i = 0; i < OPS; i++) CHECK_EQ(nccl_launch(comm, calls[i], NULL, &desc) != NULL, round == 0);
  }
  CHECK_EQ(comm_of(&v).ops_called, 2 * OPS + 100);
  CHECK_EQ(comm_of(&v).ops_started, OPS + 100);
  CHECK_EQ(v.header->stale_events, OPS);
}

// A copy engine collective has a launch and no end.
static void copy_engine(void) {
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 8, 0);
  CHECK((nccl_mask & CULPRIT_NCCL_CE_COLL) != 0);
  struct view v = view_open();
  const struct nccl_op desc = {.func = "AllGather", .count = 64};
  void *group_api = nccl_group_api(comm);
  void *call = nccl_call(comm, group_api, &desc);
  void *ce = nccl_ce(comm, call, &desc);
  nccl_stop(ce);
  nccl_stop(group_api);
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_ENQUEUED);
  CHECK_EQ(op_of(&v, 0).flags, CULPRIT_OP_NO_COMPLETION);
}

// Send/recv: numbered per peer and direction.
static void point_to_point(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  struct view v = view_open();
  const int peers[] = {1, 2, 1, 1};
  const char *const funcs[] = {"Send", "Send", "Recv", "Send"};
  const uint64_t seqs[] = {0, 0, 0, 1};
  for (uint64_t i = 0; i < 4; i++) {
    const struct nccl_op desc = {.func = funcs[i], .p2p = true, .peer = peers[i], .count = 10, .channels = 1};
    nccl_op_simple(comm, &desc);
    const struct culprit_op o = op_of(&v, i);
    CHECK_EQ(o.peer, peers[i]);
    CHECK_EQ(o.seq, seqs[i]);
    CHECK_EQ(o.func, i == 2 ? CULPRIT_FUNC_RECV : CULPRIT_FUNC_SEND);
    CHECK((o.flags & CULPRIT_OP_P2P) != 0);
    CHECK_EQ(o.bytes, 40);
  }
}

// Each operation tells its ordinal in its group, by the call's group or, before version 5, by the plan it was launched with.
static void ordinal_in_group(int abi) {
  enum { GROUPS = 2, OPS = 3 };
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(abi);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  struct view v = view_open();
  const struct nccl_op desc = {.func = "Send", .p2p = true, .peer = 1, .count = 10, .channels = 1};
  nccl_op_simple(comm, &desc);
  CHECK_EQ(op_of(&v, 0).group_ordinal, 1);
  for (uint64_t g = 0; g < GROUPS; g++) {
    void *calls[OPS];
    void *group_api = nccl_group_api(comm);
    for (int k = 0; k < OPS; k++) calls[k] = nccl_call(comm, group_api, &desc);
    void *group = nccl_group(comm, group_api);
    for (int k = 0; k < OPS; k++) nccl_launch(comm, calls[k], group, &desc);
    nccl_stop(group_api);
    for (uint64_t k = 0; k < OPS; k++) CHECK_EQ(op_of(&v, 1 + OPS * g + k).group_ordinal, k + 1);
  }
}

static void ordinal_in_group_v4(void) { ordinal_in_group(4); }
static void ordinal_in_group_v6(void) { ordinal_in_group(6); }

static void barrier(void) {
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  struct view v = view_open();
  nccl_op_simple(comm, &(struct nccl_op){.count = 1, .channels = 1});
  nccl_op_simple(comm, &(struct nccl_op){.count = 2, .channels = 1, .seq = 1});
  nccl_op_simple(comm, &(struct nccl_op){.func = "AllGather", .count = 1, .channels = 1});
  CHECK((op_of(&v, 0).flags & CULPRIT_OP_BARRIER) != 0);
  CHECK((op_of(&v, 1).flags & CULPRIT_OP_BARRIER) == 0);
  CHECK((op_of(&v, 2).flags & CULPRIT_OP_BARRIER) == 0);
}

// A graph: calls are captured once and launched again and again, the parent being the captured call.
static void graph_replay(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 2, 0);
  struct view v = view_open();
  const struct nccl_op desc = {.count = 64, .channels = 1, .captured = true};
  void *group_api = nccl_group_api(comm);
  void *call = nccl_call(comm, group_api, &desc);
  nccl_stop(call);
  nccl_stop(group_api);
  CHECK_EQ(view_live_ops(&v), 0);  // Nothing runs yet.
  CHECK_EQ(comm_of(&v).ops_called, 0);
  for (uint64_t i = 0; i < 3; i++) {
    void *op = nccl_launch(comm, call, NULL, &desc);  // Same sequence number each time.
    CHECK((op_of(&v, i).flags & CULPRIT_OP_GRAPH) != 0);
    void *p = nccl_proxy(comm, op, 0, 1, 1, 1);
    nccl_send_steps(comm, p, 0, 1, 8);
    nccl_stop(p);
    nccl_stop(op);
  }
  CHECK_EQ(VIEW_HEAD(&v, completions_head), 3);
  CHECK_EQ(VIEW_HEAD(&v, stale_events), 0);
  nccl_finalize(comm);
  nccl_launch(comm, call, NULL, &desc);  // The communicator has gone, its graph has not.
  CHECK_EQ(comm_of(&v).ops_called, 3);
}

// A launched call that is launched again (a graph NCCL did not mark) becomes an operation of its own.
static void relaunch(void) {
  nccl_load(5);
  void *comm = nccl_init(COMM_ID, NULL, 2, 2, 0);
  struct view v = view_open();
  const struct nccl_op desc = {.count = 64, .channels = 1};
  void *call = nccl_call(comm, NULL, &desc);
  nccl_launch(comm, call, NULL, &desc);
  nccl_launch(comm, call, NULL, &desc);
  CHECK_EQ(op_of(&v, 0).flags & CULPRIT_OP_GRAPH, 0);
  CHECK((op_of(&v, 1).flags & CULPRIT_OP_GRAPH) != 0);
}

// CollNet's and multi-node NVLS' proxy operations start and never stop: they are left alone.
static void collnet(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .algo = "COLLNET_DIRECT"});
  CHECK((op_of(&v, 0).flags & CULPRIT_OP_PROXY_UNRELIABLE) != 0);
  CHECK(nccl_proxy(comm, op, 0, 4, 8, 0) == NULL);
  CHECK(nccl_step(comm, NULL, 0) == NULL);
  CHECK_EQ(view_live_flows(&v), 0);
  // By its peer, which is no rank, where the algorithm does not tell.
  void *op2 = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .algo = "RING", .channels = 1, .seq = 1});
  CHECK(nccl_proxy(comm, op2, 0, 4, 8, 0) == NULL);
  CHECK((op_of(&v, 1).flags & CULPRIT_OP_PROXY_UNRELIABLE) != 0);
  // Without an announced number of channels the kernels' end stands when those that started have stopped.
  nccl_kernels(comm, op, 2, 100);
  CHECK(op_gone(&v, 0));
  CHECK_EQ(last_completion(&v).flags, CULPRIT_OP_PROXY_UNRELIABLE | CULPRIT_OP_LEFT_INFERRED);
}

// A communicator that ends with operations under way (ncclCommAbort): they are written off as abandoned.
static void abort_with_ops_in_flight(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 2, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  void *p = nccl_proxy(comm, op, 0, 1, 4, 1);
  nccl_send_steps(comm, p, 0, 2, 100);
  void *open_step = nccl_step(comm, p, 2);
  nccl_state(open_step, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  nccl_finalize(comm);
  CHECK_EQ(view_live_ops(&v), 0);
  CHECK_EQ(view_live_flows(&v), 0);
  const struct culprit_completion d = last_completion(&v);
  CHECK_EQ(d.flags, CULPRIT_OP_ABANDONED);
  CHECK_EQ(d.send.steps, 2);
  CHECK_EQ(d.send.bytes, 200);
  CHECK_EQ(comm_of(&v).ops_completed, 0);
  CHECK_EQ(comm_of(&v).ops_in_flight, 0);
  // What comes after that finds nothing.
  nccl_state(open_step, CULPRIT_NCCL_SEND_WAIT, 100);
  nccl_stop(open_step);
  nccl_stop(p);
  nccl_stop(op);
  nccl_finalize(comm);
  CHECK(nccl_proxy(comm, op, 0, 1, 1, 1) == NULL);
  CHECK(VIEW_HEAD(&v, stale_events) >= 3);
}

// The communicator becomes known with its first operation; receivers that are not ready cannot be told; the bytes come with
// the proxy operation.
static void old_abi(int abi) {
  nccl_load(abi);
  void *comm = nccl_init(COMM_ID, "old", 2, 4, 3);
  struct view v = view_open();
  CHECK_EQ(v.header->writer_abi, abi);
  CHECK_EQ(v.header->capabilities & (CULPRIT_CAP_PEER_WAIT | CULPRIT_CAP_API_EVENTS | CULPRIT_CAP_KERNEL_CH), 0);
  CHECK_EQ(comm_of(&v).comm_id, 0);
  CHECK_EQ(comm_of(&v).nranks, -1);
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .seq = 9, .channels = 2});
  CHECK_EQ(comm_of(&v).comm_id, (long long)COMM_ID);
  CHECK_EQ(comm_of(&v).rank, 3);
  CHECK_TEXT(comm_of(&v).name, "old");
  CHECK_EQ(op_of(&v, 0).seq, 9);
  CHECK_EQ(op_of(&v, 0).channels, 2);
  void *p = nccl_proxy(comm, op, 0, 1, 2, 1);
  for (int i = 0; i < 2; i++) {
    void *s = nccl_step(comm, p, i);
    nccl_state(s, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
    nccl_state(s, CULPRIT_NCCL_SEND_WAIT, 0);
    nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_SEND_TRANSMITTED, 1000 * ((uint64_t)i + 1), i + 1);
    nccl_stop(s);
    nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_SEND_DONE, 1000, i + 1);
  }
  nccl_stop(p);
  struct culprit_flow f;
  CHECK(view_find_flow(&v, COMM_ID, 0, 1, 1, &f));
  CHECK_EQ(f.ready, 2);
  CHECK_EQ(f.done, 2);
  CHECK_EQ(f.bytes, 2000);
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_LEFT);
  void *send = nccl_op_simple(comm, &(struct nccl_op){.func = "Send", .p2p = true, .peer = 2, .count = 1});
  CHECK(send != NULL);
  CHECK_EQ(op_of(&v, 1).peer, 2);
  nccl_finalize(comm);
}

static void old_abi_v2(void) { old_abi(2); }
static void old_abi_v3(void) { old_abi(3); }

static const struct test_case cases[] = {
    {"lifecycle_v4", lifecycle_v4},
    {"lifecycle_v4_kernel", lifecycle_v4_kernel},
    {"lifecycle_v5", lifecycle_v5},
    {"lifecycle_v5_without_kernel", lifecycle_v5_without_kernel},
    {"lifecycle_v6", lifecycle_v6},
    {"lifecycle_v7", lifecycle_v7},
    {"old_abi_v2", old_abi_v2},
    {"old_abi_v3", old_abi_v3},
    {"learned_end", learned_end},
    {"provisional_end_is_taken_back", provisional_end_is_taken_back},
    {"group_mates_do_not_end_each_other", group_mates_do_not_end_each_other},
    {"unseen", unseen},
    {"call_without_launch", call_without_launch},
    {"hidden_broadcast", hidden_broadcast},
    {"large_group", large_group},
    {"late_launches", late_launches},
    {"copy_engine", copy_engine},
    {"point_to_point", point_to_point},
    {"ordinal_in_group_v4", ordinal_in_group_v4},
    {"ordinal_in_group_v6", ordinal_in_group_v6},
    {"barrier", barrier},
    {"graph_replay", graph_replay},
    {"relaunch", relaunch},
    {"collnet", collnet},
    {"abort_with_ops_in_flight", abort_with_ops_in_flight},
};

TEST_MAIN(cases)
