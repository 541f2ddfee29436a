// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The GPU's events: what they tell of operations, and when they are not believed.

#include "../clock.h"
#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <sched.h>
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

static void *begin(int abi, int nodes, struct view *v) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(abi);
  void *comm = nccl_init(COMM_ID, NULL, nodes, 4, 2);
  *v = view_open();
  return comm;
}

// KernelCh alone: inside a node there are no proxies, and the end is certain at once.
static void kernel_end(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 8, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 3});
  CHECK_EQ(op_of(&v, 0).flags & CULPRIT_OP_NO_COMPLETION, 0);
  nccl_kernels(comm, op, 2, 100);
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_ENTERED);
  CHECK_EQ(comm_of(&v).ops_in_flight, 1);
  void *k = nccl_kernel(comm, op, 2, 50);
  nccl_state(k, CULPRIT_NCCL_KERNEL_CH_STOP, 450);
  nccl_stop(k);
  CHECK(op_gone(&v, 0));
  CHECK_EQ(last_completion(&v).flags, 0);
  CHECK_EQ(last_completion(&v).gpu_ns, 400);
  CHECK_EQ(comm_of(&v).ops_in_flight, 0);
}

// A channel's KernelCh may be lost. The next operation that ends takes the crippled one with it.
static void lost_kernel_event(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 8, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 2});
  nccl_kernels(comm, op, 1, 100);
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_ENTERED);
  void *op2 = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 2, .seq = 1});
  nccl_kernels(comm, op2, 2, 100);
  CHECK_EQ(view_live_ops(&v), 0);
  CHECK_EQ(VIEW_HEAD(&v, completions_head), 2);
  CHECK_EQ(last_completion(&v).number, 0);
  CHECK_EQ(last_completion(&v).flags, CULPRIT_OP_LEFT_INFERRED);
}

// KernelCh runs ahead on a communicator that sends to itself: it must not end anything there any more.
static void self_send_distrusts_kernel(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 4, 2);
  struct view v = view_open();
  nccl_op_simple(comm, &(struct nccl_op){.func = "Send", .p2p = true, .peer = 2, .count = 1, .channels = 1});
  CHECK((comm_of(&v).flags & CULPRIT_COMM_KERNEL_UNTRUSTED) != 0);
  CHECK(view_has_lifecycle(&v, CULPRIT_LIFE_DISTRUST, CULPRIT_COMM_KERNEL_UNTRUSTED));
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  CHECK((op_of(&v, 1).flags & CULPRIT_OP_KERNEL_UNTRUSTED) != 0);
  nccl_kernels(comm, op, 1, 100);
  CHECK_EQ(VIEW_HEAD(&v, completions_head), 0);
  CHECK(!op_gone(&v, 1));
}

static void hidden_broadcast_distrusts_kernel(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 4, 2);
  struct view v = view_open();
  void *group_api = nccl_group_api(comm);
  nccl_stop(nccl_call(comm, group_api, &(struct nccl_op){.func = "Broadcast", .count = 1}));
  nccl_stop(group_api);
  CHECK((comm_of(&v).flags & CULPRIT_COMM_KERNEL_UNTRUSTED) != 0);
}

static void stop_kernel(void *kernel, uint64_t timer) {
  nccl_state(kernel, CULPRIT_NCCL_KERNEL_CH_STOP, timer);
  nccl_stop(kernel);
}

// Two collectives of a group share a kernel on a channel. Up to NCCL 2.30 the second's start is told only when the first's stop
// has been: by the GPU's time it began with the first.
static void shared_kernel_told_late(int abi) {
  struct view v;
  void *comm = begin(abi, 1, &v);
  void *group_api = nccl_group_api(comm), *group = nccl_group(comm, group_api);
  void *ops[2];
  for (int i = 0; i < 2; i++) {
    const struct nccl_op desc = {.count = 64, .channels = 1, .seq = (uint64_t)i};
    void *call = nccl_call(comm, group_api, &desc);
    ops[i] = nccl_launch(comm, call, group, &desc);
  }
  nccl_stop(group_api);
  void *first = nccl_kernel(comm, ops[0], 0, 7000);
  const uint64_t entered = op_of(&v, 0).entered_ns;
  CHECK(entered != 0);
  while (clock_monotonic() <= entered + 2000) sched_yield();  // A stop is told when it has been.
  stop_kernel(first, 9000);
  void *second = nccl_kernel(comm, ops[1], 0, 7040);  // The GPU notes one after the other.
  CHECK_EQ(op_of(&v, 1).entered_ns, entered + 40);
  stop_kernel(second, 9000);
  const struct culprit_completion d = last_completion(&v);
  CHECK_EQ(d.number, 1);
  CHECK_EQ(d.entered_ns, entered + 40);
  CHECK(d.left_ns >= d.entered_ns);
  CHECK_EQ(d.gpu_ns, 1960);
  // Another start is another time.
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1, .seq = 2});
  nccl_kernel(comm, op, 0, 7000 + UINT64_C(20000000000));
  CHECK(op_of(&v, 2).entered_ns > entered + 40);
}

// The GPU's clock is set back: by its time an operation would have begun before it was enqueued.
static void gpu_clock_is_set_back(void) {
  struct view v;
  void *comm = begin(6, 1, &v);
  const uint64_t hour = UINT64_C(3600000000000), back = UINT64_C(3000000000);
  for (int i = 0; i < 2; i++) {
    void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1, .seq = (uint64_t)i});
    stop_kernel(nccl_kernel(comm, op, 0, hour), hour + 100);
  }
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1, .seq = 2});
  void *k = nccl_kernel(comm, op, 0, hour - back);
  const struct culprit_op set_back = op_of(&v, 2);
  CHECK(set_back.entered_ns > set_back.enqueued_ns);
  stop_kernel(k, hour - back + 100);
  CHECK_EQ(last_completion(&v).entered_ns, set_back.entered_ns);
}

// A kernel's stop is told when the proxy thread comes to it, however late: the GPU's time of it says when it was.
static void stop_told_late(void) {
  struct view v;
  void *comm = begin(6, 1, &v);
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  void *k = nccl_kernel(comm, op, 0, 7000);
  const uint64_t entered = op_of(&v, 0).entered_ns;
  while (clock_monotonic() < entered + 5000000) sched_yield();
  stop_kernel(k, 8000);
  CHECK_EQ(last_completion(&v).left_ns, entered + 1000);
  // One whose time is not known, or would lie in the future or before the start, ends no earlier than it began and no later than it is told.
  const uint64_t stops[] = {0, UINT64_C(3600000000000), 1};
  for (uint64_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
    op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1, .seq = i + 1});
    stop_kernel(nccl_kernel(comm, op, 0, 9000), stops[i]);
    CHECK(last_completion(&v).left_ns >= last_completion(&v).entered_ns);
    CHECK(last_completion(&v).left_ns <= clock_monotonic());
  }
}

static void shared_kernel_v4(void) { shared_kernel_told_late(4); }
static void shared_kernel_v6(void) { shared_kernel_told_late(6); }

// KernelCh begins to run ahead with an operation, and was right before: what it tells of earlier ones stands.
static void drift_begins_with_an_operation(void) {
  struct view v;
  void *comm = begin(6, 1, &v);
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  void *k = nccl_kernel(comm, op, 0, 7000);
  void *group_api = nccl_group_api(comm);
  nccl_stop(nccl_call(comm, group_api, &(struct nccl_op){.func = "Broadcast", .count = 1}));
  nccl_stop(nccl_call(comm, group_api, &(struct nccl_op){.func = "Broadcast", .count = 1, .root = 1}));
  nccl_stop(group_api);
  CHECK((comm_of(&v).flags & CULPRIT_COMM_KERNEL_UNTRUSTED) != 0);
  CHECK_EQ(op_of(&v, 0).flags, 0);
  stop_kernel(k, 9000);
  CHECK(op_gone(&v, 0));
  CHECK_EQ(last_completion(&v).flags, 0);
}

// Operations of the same group that were launched before: what has been told of them is taken back, and nothing tells of their end.
static void drift_takes_back(void) {
  struct view v;
  void *comm = begin(6, 1, &v);
  void *group_api = nccl_group_api(comm);
  const struct nccl_op far = {.func = "Send", .p2p = true, .peer = 1, .count = 1, .channels = 1};
  const struct nccl_op self = {.func = "Send", .p2p = true, .peer = 2, .count = 1, .channels = 1};
  void *call = nccl_call(comm, group_api, &far);
  void *op = nccl_launch(comm, call, NULL, &far);
  void *k = nccl_kernel(comm, op, 0, 7000);
  CHECK_EQ(op_of(&v, 0).state, CULPRIT_OP_ENTERED);
  CHECK_EQ(comm_of(&v).ops_in_flight, 1);
  call = nccl_call(comm, group_api, &self);
  nccl_launch(comm, call, NULL, &self);
  nccl_stop(group_api);
  const struct culprit_op o = op_of(&v, 0);
  CHECK_EQ(o.state, CULPRIT_OP_ENQUEUED);
  CHECK_EQ(o.flags, CULPRIT_OP_P2P | CULPRIT_OP_KERNEL_UNTRUSTED | CULPRIT_OP_NO_COMPLETION);
  CHECK_EQ(o.entered_ns + o.kernel_started + o.kernel_stopped, 0);
  CHECK_EQ(comm_of(&v).ops_in_flight, 0);
  stop_kernel(k, 9000);
  CHECK_EQ(op_of(&v, 0).kernel_stopped, 0);
}

// With proxies to tell of their end, they end by those, and never before they have begun.
static void drift_between_nodes(void) {
  struct view v;
  void *comm = begin(6, 2, &v);
  const struct nccl_op far = {.func = "Send", .p2p = true, .peer = 1, .count = 1, .channels = 1};
  nccl_op_simple(comm, &(struct nccl_op){.func = "Send", .p2p = true, .peer = 2, .count = 1, .channels = 1});
  for (int i = 0; i < 3; i++) {
    void *op = nccl_op_simple(comm, &far);
    void *p = nccl_proxy(comm, op, 0, 1, 1, 1);
    nccl_send_steps(comm, p, 0, 1, 8);
    CHECK(nccl_kernel(comm, op, 0, 7000) == NULL);  // Told after its data has gone, and of another operation.
    nccl_stop(p);
  }
  struct culprit_completion d;
  for (uint64_t n = 0; n < VIEW_HEAD(&v, completions_head); n++) {
    CHECK(view_completion(&v, n, &d));
    CHECK(d.left_ns >= d.entered_ns);
    CHECK_EQ(d.entered_ns, 0);
  }
  CHECK(VIEW_HEAD(&v, completions_head) >= 3);
}

// From NCCL 2.31 on sends to oneself are reported like others.
static void self_send_v7(void) {
  struct view v;
  void *comm = begin(7, 1, &v);
  void *op = nccl_op_simple(comm, &(struct nccl_op){.func = "Send", .p2p = true, .peer = 2, .count = 1, .channels = 1});
  CHECK_EQ(comm_of(&v).flags & CULPRIT_COMM_KERNEL_UNTRUSTED, 0);
  nccl_kernels(comm, op, 1, 100);
  CHECK(op_gone(&v, 0));
}

// After several Broadcasts in one group, NCCL 2.29 and 2.30 wait for kernel events that never come when the communicator is
// destroyed: no more are asked for. A Broadcast alone does not do that.
static void grouped_broadcasts_give_kernel_up(void) {
  struct view v;
  void *comm = begin(6, 1, &v);
  for (int broadcasts = 1; broadcasts <= 2; broadcasts++) {
    CHECK((nccl_mask & CULPRIT_NCCL_KERNEL_CH) != 0);
    void *group_api = nccl_group_api(comm);
    for (int i = 0; i < broadcasts; i++) nccl_stop(nccl_call(comm, group_api, &(struct nccl_op){.func = "Broadcast", .count = 1, .root = i}));
    nccl_stop(group_api);
  }
  CHECK_EQ(nccl_mask & CULPRIT_NCCL_KERNEL_CH, 0);
  CHECK_EQ(v.header->capabilities & CULPRIT_CAP_KERNEL_CH, 0);
  CHECK_EQ(VIEW_HEAD(&v, event_mask), (unsigned)nccl_mask);
  nccl_init(COMM_ID + 1, NULL, 1, 4, 2);
  CHECK_EQ(nccl_mask & CULPRIT_NCCL_KERNEL_CH, 0);
}

static const struct test_case cases[] = {
    {"kernel_end", kernel_end},
    {"lost_kernel_event", lost_kernel_event},
    {"shared_kernel_v4", shared_kernel_v4},
    {"shared_kernel_v6", shared_kernel_v6},
    {"stop_told_late", stop_told_late},
    {"gpu_clock_is_set_back", gpu_clock_is_set_back},
    {"self_send_distrusts_kernel", self_send_distrusts_kernel},
    {"self_send_v7", self_send_v7},
    {"hidden_broadcast_distrusts_kernel", hidden_broadcast_distrusts_kernel},
    {"drift_begins_with_an_operation", drift_begins_with_an_operation},
    {"drift_takes_back", drift_takes_back},
    {"drift_between_nodes", drift_between_nodes},
    {"grouped_broadcasts_give_kernel_up", grouped_broadcasts_give_kernel_up},
};

TEST_MAIN(cases)
