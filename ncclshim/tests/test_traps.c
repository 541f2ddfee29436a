// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Traps of NCCL's profiler interface that the other tests do not spring; docs/shim.md lists them all.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <stdlib.h>
#include <string.h>

#define COMM_ID 77u

static struct culprit_comm comm_at(const struct view *v, uint32_t i) {
  struct culprit_comm c;
  CHECK(view_comm(v, i, &c));
  return c;
}

static struct culprit_flow flow_at(const struct view *v, uint32_t i) {
  struct culprit_flow f;
  CHECK(view_flow(v, i, &f));
  return f;
}

// A newer NCCL serves versions 2 and 3 through a converter that has neither name nor id of the communicator.
static void converted(int abi, int unused) {
  (void)unused;
  nccl_load(abi);
  void *comm = nccl_init(0, NULL, 2, 4, 3);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  void *p = nccl_proxy(comm, op, 0, 1, 2, 1);
  nccl_send_steps(comm, p, 0, 2, 100);
  nccl_stop(p);
  CHECK_EQ(comm_at(&v, 0).comm_id, 0);  // Unknown, and said to be so.
  CHECK_EQ(comm_at(&v, 0).nranks, -1);
  CHECK_EQ(comm_at(&v, 0).ops_started, 1);
  CHECK_EQ(flow_at(&v, 0).total_done, 2);
  nccl_finalize(comm);
}

static void converted_v2_v3(void) {
  harness_fork_and_wait(2, 0, converted);
  harness_fork_and_wait(3, 0, converted);
}

// The converter for version 4 leaves the channels of send/recv as whatever was on its stack.
static void converted_v4_channels(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(4);
  void *comm = nccl_init(COMM_ID, NULL, 1, 4, 0);
  struct view v = view_open();
  CHECK_EQ(v.header->capabilities & CULPRIT_CAP_P2P_CHANNELS, 0);
  void *op = nccl_op_simple(comm, &(struct nccl_op){.func = "Send", .p2p = true, .peer = 1, .count = 8, .channels = 37});
  struct culprit_op o;
  CHECK(view_find_op(&v, COMM_ID, 0, &o));
  CHECK_EQ(o.channels, 0);
  nccl_kernels(comm, op, 2, 100);  // Ends with the kernels that were seen, not with 37.
  CHECK(!view_find_op(&v, COMM_ID, 0, &o));
}

// While receivers post nothing, SendPeerWait comes at the rate of polling, from every flow.
static void peer_wait_storm(void) {
  enum { FLOWS = 32, POLLS = 20000 };
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 64, 0);
  struct view v = view_open();
  void *steps[FLOWS];
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = FLOWS});
  for (int i = 0; i < FLOWS; i++) {
    steps[i] = nccl_step(comm, nccl_proxy(comm, op, i, i, 4, 1), 0);
    nccl_state(steps[i], CULPRIT_NCCL_SEND_GPU_WAIT, 0);
    nccl_state(steps[i], CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  }
  struct culprit_flow before[FLOWS];
  for (uint32_t i = 0; i < FLOWS; i++) before[i] = flow_at(&v, i);
  for (int n = 0; n < POLLS; n++) {
    for (int i = 0; i < FLOWS; i++) nccl_state(steps[i], CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  }
  for (uint32_t i = 0; i < FLOWS; i++) {
    struct culprit_flow f = flow_at(&v, i);
    CHECK_EQ(f.peer_polls, POLLS);
    CHECK_EQ(f.state, CULPRIT_FLOW_SEND_PEER);
    f.peer_polls = before[i].peer_polls;
    CHECK(memcmp(&f, &before[i], sizeof f) == 0);  // Nothing else has moved, least of all its last progress.
  }
  CHECK_EQ(v.header->repeated_events + v.header->contended_events, 0);
}

// receive_native raises a receive step up to the GPU's turn as NCCL 2.24 to 2.26 do, with the states of its proxy operation.
static void *receive_native(void *comm, void *p, int step, uint64_t bytes_before) {
  void *s = nccl_step(comm, p, step);
  nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_RECV_POSTED, step == 0 ? bytes_before : 0, step + 1);
  nccl_state(s, CULPRIT_NCCL_RECV_WAIT, 0);
  nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_RECV_RECEIVED, bytes_before + 100 * ((uint64_t)step + 1), step + 1);
  nccl_state(s, CULPRIT_NCCL_RECV_FLUSH_WAIT, 0);
  nccl_state(s, CULPRIT_NCCL_RECV_GPU_WAIT, 0);
  nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_RECV_TRANSMITTED, bytes_before + 100 * ((uint64_t)step + 1), step + 1);
  return s;
}

// NCCL 2.24 to 2.26 lose about half of the stops of receive steps; a state of the proxy operation comes for every step, right behind
// a stop that does come.
static void lost_receive_stops(int abi) {
  nccl_load(abi);
  void *comm = nccl_init(COMM_ID, "c", 2, 4, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  void *p = nccl_proxy(comm, op, 0, 1, 4, 0);
  void *s[3];
  for (int i = 0; i < 3; i++) s[i] = receive_native(comm, p, i, 0);
  CHECK_EQ(flow_at(&v, 0).done, 0);
  for (int i = 0; i < 3; i++) {
    if (i % 2 == 1) nccl_stop(s[i]);
    nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_RECV_DONE, 300, i + 1);
    CHECK_EQ(flow_at(&v, 0).done, i + 1);
  }
  CHECK_EQ(flow_at(&v, 0).state, CULPRIT_FLOW_BETWEEN);  // The GPU has taken all that came: the sender's turn.
  CHECK_EQ(flow_at(&v, 0).bytes, 300);
  struct culprit_op o;
  CHECK(view_find_op(&v, COMM_ID, 0, &o));
  CHECK_EQ(o.state, CULPRIT_OP_MOVING);
  s[0] = receive_native(comm, p, 3, 0);
  nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_RECV_DONE, 400, 4);
  CHECK_EQ(flow_at(&v, 0).state, CULPRIT_FLOW_IDLE);
  nccl_stop(p);
  CHECK(view_find_op(&v, COMM_ID, 0, &o));
  CHECK_EQ(o.state, CULPRIT_OP_LEFT);
  CHECK_EQ(v.header->repeated_events + v.header->stale_events, 0);
}

static void lost_receive_stops_v2(void) { lost_receive_stops(2); }
static void lost_receive_stops_v3(void) { lost_receive_stops(3); }

// They do not clear a proxy operation's sum of bytes when its place is used again: what it begins with is not its own.
static void bytes_of_a_used_place(void) {
  nccl_load(2);
  void *comm = nccl_init(COMM_ID, "c", 2, 4, 0);
  struct view v = view_open();
  const uint64_t left_over[] = {0, 5018592, 5018692};
  for (int i = 0; i < 3; i++) {
    void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1, .seq = (uint64_t)i});
    void *p = nccl_proxy(comm, op, 0, 1, 1, 0), *q = nccl_proxy(comm, op, 0, 1, 1, 1);
    void *s = receive_native(comm, p, 0, left_over[i]), *t = nccl_step(comm, q, 0);
    nccl_proxy_state(q, CULPRIT_NCCL_PROXY_OP_SEND_POSTED, left_over[i], 1);
    nccl_state(t, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
    nccl_proxy_state(q, CULPRIT_NCCL_PROXY_OP_SEND_REM_FIFO_WAIT, left_over[i], 1);
    nccl_proxy_state(q, CULPRIT_NCCL_PROXY_OP_SEND_TRANSMITTED, left_over[i] + 70, 1);
    CHECK_EQ(flow_at(&v, 0).bytes, 100);
    CHECK_EQ(flow_at(&v, 1).bytes, 70);
    nccl_stop(s);
    nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_RECV_DONE, left_over[i] + 100, 1);
    nccl_state(t, CULPRIT_NCCL_SEND_WAIT, 0);
    nccl_stop(t);
    nccl_stop(p);
    nccl_stop(q);
  }
  CHECK_EQ(flow_at(&v, 0).total_bytes, 300);
  CHECK_EQ(flow_at(&v, 1).total_bytes, 210);
}

// And they say by a state of the proxy operation that the receiver is not ready, as SendPeerWait does later.
static void receiver_not_ready_v2(void) {
  nccl_load(2);
  void *comm = nccl_init(COMM_ID, "c", 2, 4, 0);
  struct view v = view_open();
  CHECK_EQ(v.header->capabilities & CULPRIT_CAP_PEER_WAIT, 0);  // A newer NCCL's converter would not.
  void *p = nccl_proxy(comm, nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1}), 0, 1, 2, 1);
  void *s = nccl_step(comm, p, 0);
  nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_SEND_POSTED, 0, 1);
  nccl_state(s, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  CHECK_EQ(flow_at(&v, 0).state, CULPRIT_FLOW_SEND_GPU);
  for (int i = 0; i < 5; i++) nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_SEND_REM_FIFO_WAIT, 0, 1);
  CHECK_EQ(flow_at(&v, 0).state, CULPRIT_FLOW_SEND_PEER);
  CHECK_EQ(flow_at(&v, 0).peer_polls, 4);
  CHECK((v.header->capabilities & CULPRIT_CAP_PEER_WAIT) != 0);
  nccl_state(s, CULPRIT_NCCL_SEND_WAIT, 0);
  CHECK_EQ(flow_at(&v, 0).state, CULPRIT_FLOW_SEND_NET);
}

// Connections that share buffers stop their proxy operations when the last of them is done: an operation ends with its own
// steps.
static void late_proxy_stop(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  struct view v = view_open();
  const struct nccl_op desc = {.func = "Send", .p2p = true, .peer = 1, .count = 8, .channels = 1};
  void *first = nccl_proxy(comm, nccl_op_simple(comm, &desc), 0, 1, 2, 1);
  void *second = nccl_proxy(comm, nccl_op_simple(comm, &desc), 1, 1, 2, 1);
  nccl_send_steps(comm, first, 0, 2, 10);
  CHECK_EQ(VIEW_HEAD(&v, completions_head), 1);
  struct culprit_completion d;
  CHECK(view_completion(&v, 0, &d));
  CHECK_EQ(d.number, 0);
  CHECK_EQ(d.send.bytes, 20);
  nccl_send_steps(comm, second, 0, 2, 10);
  nccl_stop(first);
  nccl_stop(second);
  struct culprit_flow f;
  CHECK(view_find_flow(&v, COMM_ID, 0, 1, 1, &f));
  CHECK_EQ(f.total_ops, 1);
  CHECK_EQ(v.header->stale_events + v.header->repeated_events, 0);
}

// The id alone does not name a communicator.
static void same_id_twice(void) {
  nccl_load(6);
  void *big = nccl_init(COMM_ID, NULL, 2, 8, 5), *small = nccl_init(COMM_ID, NULL, 1, 2, 1);
  struct view v = view_open();
  nccl_op_simple(small, &(struct nccl_op){.count = 8, .channels = 1});
  CHECK_EQ(comm_at(&v, 0).nranks, 8);
  CHECK_EQ(comm_at(&v, 0).ops_called, 0);
  CHECK_EQ(comm_at(&v, 1).nranks, 2);
  CHECK_EQ(comm_at(&v, 1).ops_called, 1);
  nccl_finalize(big);
  CHECK_EQ(comm_at(&v, 1).in_use, 1);
}

// Events of a communicator that has gone, from a proxy thread that has not noticed: nothing is written.
static void events_after_finalize(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 2});
  void *p = nccl_proxy(comm, op, 0, 1, 4, 1), *k = nccl_kernel(comm, op, 0, 5);
  void *s = nccl_step(comm, p, 0);
  nccl_state(s, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  nccl_finalize(comm);
  const uint64_t completions = VIEW_HEAD(&v, completions_head);
  void *other = nccl_init(COMM_ID + 1, NULL, 2, 4, 0);  // Takes slots that they could write to.
  nccl_proxy(other, nccl_op_simple(other, &(struct nccl_op){.count = 64, .channels = 2}), 0, 1, 4, 1);
  nccl_state(s, CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  nccl_state(s, CULPRIT_NCCL_SEND_WAIT, 100);
  nccl_stop(s);
  nccl_state(k, CULPRIT_NCCL_KERNEL_CH_STOP, 9);
  nccl_stop(k);
  nccl_stop(p);
  CHECK(nccl_step(comm, p, 1) == NULL);
  CHECK(nccl_proxy(comm, op, 1, 1, 4, 1) == NULL);
  CHECK_EQ(VIEW_HEAD(&v, completions_head), completions);
  struct culprit_flow f;
  CHECK(view_find_flow(&v, COMM_ID + 1, 0, 1, 1, &f));
  CHECK_EQ(f.posted + f.ready + f.transmitted + f.done, 0);
  CHECK(v.header->stale_events >= 7);
}

// With PXN an operation's handle is another process'; where that has our pid too (another PID namespace), it is still not
// ours.
static void foreign_handle_with_our_pid(void) {
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .channels = 1});
  void *theirs = (void *)((uintptr_t)op ^ (uintptr_t)1 << 56);  // Its cookie differs.
  void *p = nccl_proxy(comm, theirs, 0, 1, 2, 1);
  nccl_send_steps(comm, p, 0, 2, 10);
  nccl_stop(p);
  struct culprit_op o;
  CHECK(view_find_op(&v, COMM_ID, 0, &o));
  CHECK_EQ(o.proxy_started, 0);
  CHECK_EQ(o.state, CULPRIT_OP_ENQUEUED);
}

// From NCCL 2.31 on operations on symmetric memory have a launch, and between nodes nothing else: after the first ones, they
// are known not to tell of their end.
static void symmetric_between_nodes(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(7);
  void *comm = nccl_init(COMM_ID, NULL, 2, 8, 0);
  struct view v = view_open();
  const struct nccl_op symmetric = {.count = 1000, .channels = 4}, ordinary = {.func = "AllGather", .count = 64, .channels = 1};
  nccl_op_simple(comm, &symmetric);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 0);  // Its proxies may be about to start, and then it is.
  void *op = nccl_op_simple(comm, &ordinary);
  nccl_send_steps(comm, nccl_proxy(comm, op, 0, 1, 1, 1), 0, 1, 8);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 0);
  nccl_op_simple(comm, &symmetric);
  struct culprit_op o;
  CHECK(view_find_op(&v, COMM_ID, 2, &o));
  CHECK_EQ(o.flags, CULPRIT_OP_NO_COMPLETION);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 0);
  // The same kind with proxies after all.
  op = nccl_op_simple(comm, &symmetric);
  void *first = nccl_proxy(comm, op, 0, 1, 1, 1), *second = nccl_proxy(comm, op, 1, 1, 1, 1);
  nccl_send_steps(comm, first, 0, 1, 8);
  CHECK(view_find_op(&v, COMM_ID, 3, &o));
  CHECK_EQ(o.state, CULPRIT_OP_MOVING);
  nccl_send_steps(comm, second, 0, 1, 8);
  CHECK(view_find_op(&v, COMM_ID, 3, &o));
  CHECK_EQ(o.state, CULPRIT_OP_LEFT);
}

// A communicator with nothing but such operations.
static void symmetric_alone(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(7);
  void *comm = nccl_init(COMM_ID, NULL, 2, 8, 0);
  struct view v = view_open();
  const struct nccl_op symmetric = {.count = 1000, .channels = 4};
  for (int i = 0; i < 257; i++) nccl_op_simple(comm, &symmetric);
  const uint32_t before = comm_at(&v, 0).ops_in_flight;
  CHECK(before <= 256);
  for (int i = 0; i < 300; i++) nccl_op_simple(comm, &symmetric);
  CHECK_EQ(comm_at(&v, 0).ops_in_flight, 0);
}

static const struct test_case cases[] = {
    {"converted_v2_v3", converted_v2_v3},
    {"converted_v4_channels", converted_v4_channels},
    {"peer_wait_storm", peer_wait_storm},
    {"lost_receive_stops_v2", lost_receive_stops_v2},
    {"lost_receive_stops_v3", lost_receive_stops_v3},
    {"bytes_of_a_used_place", bytes_of_a_used_place},
    {"receiver_not_ready_v2", receiver_not_ready_v2},
    {"late_proxy_stop", late_proxy_stop},
    {"same_id_twice", same_id_twice},
    {"events_after_finalize", events_after_finalize},
    {"foreign_handle_with_our_pid", foreign_handle_with_our_pid},
    {"symmetric_between_nodes", symmetric_between_nodes},
    {"symmetric_alone", symmetric_alone},
};

TEST_MAIN(cases)
