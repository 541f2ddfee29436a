// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Flows: counters, states, times, and events that are repeated, lost or out of order.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMM_ID 77

static void *comm;
static struct view v;
static uint64_t next_seq;

static void begin(int abi) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(abi);
  comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  v = view_open();
}

static void *new_op(void) {
  return nccl_op_simple(comm, &(struct nccl_op){.count = 1024, .seq = next_seq++, .channels = 1});
}

static struct culprit_flow flow_of(int channel, int is_send, int peer) {
  struct culprit_flow f;
  CHECK(view_find_flow(&v, COMM_ID, channel, is_send, peer, &f));
  return f;
}

static void check_counts(const struct culprit_flow *f, unsigned posted, unsigned ready, unsigned transmitted, unsigned done) {
  CHECK_EQ(f->posted, posted);
  CHECK_EQ(f->ready, ready);
  CHECK_EQ(f->transmitted, transmitted);
  CHECK_EQ(f->done, done);
}

// Busy for at least ns, on the clock that the shim's is calibrated against.
static void spend(uint64_t ns) {
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  do {
    clock_gettime(CLOCK_MONOTONIC, &b);
  } while ((uint64_t)((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec) < ns);
}

// The states of a send, as Mycroft's state table reads them.
static void send_states(int abi) {
  begin(abi);
  void *op = new_op();
  void *p = nccl_proxy(comm, op, 5, 3, 2, 1);
  struct culprit_flow f = flow_of(5, 1, 3);
  CHECK_EQ(f.state, CULPRIT_FLOW_QUEUED);
  CHECK_EQ(f.steps_total, 2);
  CHECK_EQ(f.func, CULPRIT_FUNC_ALLREDUCE);
  CHECK(f.op_started_ns != 0);
  CHECK_EQ(f.first_step_ns, 0);

  void *s0 = nccl_step(comm, p, 0);
  CHECK(s0 != NULL);
  nccl_state(s0, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  f = flow_of(5, 1, 3);
  CHECK_EQ(f.state, CULPRIT_FLOW_SEND_GPU);
  check_counts(&f, 1, 0, 0, 0);
  CHECK(f.first_step_ns != 0 && f.last_progress_ns == f.first_step_ns && f.state_since_ns == f.first_step_ns);

  nccl_state(s0, CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  f = flow_of(5, 1, 3);
  CHECK_EQ(f.state, CULPRIT_FLOW_SEND_PEER);
  check_counts(&f, 1, 1, 0, 0);
  const uint64_t progress = f.last_progress_ns;
  for (int i = 0; i < 1000; i++) nccl_state(s0, CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  f = flow_of(5, 1, 3);
  CHECK_EQ(f.peer_polls, 1000);
  CHECK_EQ(f.last_progress_ns, progress);  // A poll is no progress.
  CHECK_EQ(VIEW_HEAD(&v, repeated_events), 0);

  nccl_state(s0, CULPRIT_NCCL_SEND_WAIT, 4096);
  f = flow_of(5, 1, 3);
  CHECK_EQ(f.state, CULPRIT_FLOW_SEND_NET);
  check_counts(&f, 1, 1, 1, 0);
  CHECK_EQ(f.bytes, 4096);
  CHECK_EQ(f.peer_polls, 0);

  nccl_stop(s0);
  f = flow_of(5, 1, 3);
  CHECK_EQ(f.state, CULPRIT_FLOW_BETWEEN);
  check_counts(&f, 1, 1, 1, 1);

  nccl_send_steps(comm, p, 1, 2, 1000);
  f = flow_of(5, 1, 3);
  CHECK_EQ(f.state, CULPRIT_FLOW_IDLE);
  check_counts(&f, 2, 2, 2, 2);
  CHECK_EQ(f.bytes, 5096);
  CHECK_EQ(f.total_done, 2);
  CHECK_EQ(f.total_ops, 1);
  nccl_stop(p);
  f = flow_of(5, 1, 3);
  check_counts(&f, 2, 2, 2, 2);
  CHECK_EQ(f.total_ops, 1);
}

static void send_states_v4(void) { send_states(4); }
static void send_states_v6(void) { send_states(6); }

static void recv_states(void) {
  begin(5);
  void *op = new_op();
  void *p = nccl_proxy(comm, op, 0, 1, 3, 0);
  void *s0 = nccl_step(comm, p, 0);
  nccl_state(s0, CULPRIT_NCCL_RECV_WAIT, 0);
  CHECK_EQ(flow_of(0, 0, 1).state, CULPRIT_FLOW_RECV_NET);
  nccl_state(s0, CULPRIT_NCCL_RECV_FLUSH_WAIT, 512);
  CHECK_EQ(flow_of(0, 0, 1).state, CULPRIT_FLOW_RECV_FLUSH);
  nccl_state(s0, CULPRIT_NCCL_RECV_GPU_WAIT, 0);
  CHECK_EQ(flow_of(0, 0, 1).state, CULPRIT_FLOW_RECV_GPU);
  nccl_stop(s0);
  CHECK_EQ(flow_of(0, 0, 1).state, CULPRIT_FLOW_BETWEEN);
  CHECK_EQ(flow_of(0, 0, 1).bytes, 512);
  nccl_recv_steps(comm, p, 1, 3, 512);
  CHECK_EQ(flow_of(0, 0, 1).state, CULPRIT_FLOW_IDLE);
  CHECK_EQ(flow_of(0, 0, 1).total_bytes, 1536);
}

// Several steps are outstanding at a time: the state is the oldest one's.
static void head_step_rules(void) {
  begin(6);
  void *p = nccl_proxy(comm, new_op(), 0, 1, 8, 1);
  void *s[4];
  for (int i = 0; i < 4; i++) {
    s[i] = nccl_step(comm, p, i);
    nccl_state(s[i], CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  }
  nccl_state(s[0], CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  nccl_state(s[0], CULPRIT_NCCL_SEND_WAIT, 10);
  nccl_state(s[1], CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  struct culprit_flow f = flow_of(0, 1, 1);
  CHECK_EQ(f.state, CULPRIT_FLOW_SEND_NET);
  check_counts(&f, 4, 2, 1, 0);
  nccl_stop(s[0]);
  CHECK_EQ(flow_of(0, 1, 1).state, CULPRIT_FLOW_SEND_PEER);
  nccl_state(s[1], CULPRIT_NCCL_SEND_WAIT, 10);
  nccl_stop(s[1]);
  CHECK_EQ(flow_of(0, 1, 1).state, CULPRIT_FLOW_SEND_GPU);
}

// The time in each state is charged to that state, and a transfer's time to the active time and its epochs.
static void times(void) {
  begin(6);
  void *p = nccl_proxy(comm, new_op(), 0, 1, 1, 1);
  const uint64_t ms = 1000000;
  void *s = nccl_step(comm, p, 0);
  nccl_state(s, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  spend(2 * ms);
  nccl_state(s, CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  spend(3 * ms);
  nccl_state(s, CULPRIT_NCCL_SEND_WAIT, 100);
  spend(4 * ms);
  nccl_stop(s);
  const struct culprit_flow f = flow_of(0, 1, 1);
  // Lower bounds only: a busy machine may have added any time anywhere. 1% for the first calibration.
  CHECK(f.wait_ns[0] >= 2 * ms * 99 / 100);
  CHECK(f.wait_ns[1] >= 3 * ms * 99 / 100);
  CHECK(f.wait_ns[2] >= 4 * ms * 99 / 100);
  CHECK_EQ(f.wait_ns[0] + f.wait_ns[1] + f.wait_ns[2], f.last_progress_ns - f.first_step_ns);
  CHECK_EQ(f.active_ns, f.wait_ns[2]);
  CHECK_EQ(f.total_active_ns, f.active_ns);
  const uint64_t from = f.last_progress_ns - f.active_ns;
  CHECK_EQ(f.epochs, (f.last_progress_ns >> 15) - (from >> 15) + 1);
  CHECK_EQ(f.total_epochs, f.epochs);
  CHECK(f.largest_gap_ns >= f.wait_ns[2] && f.largest_gap_ns >= f.wait_ns[1]);
  for (int i = 0; i < 3; i++) CHECK_EQ(f.total_wait_ns[i], f.wait_ns[i]);
}

// Two transfers within one epoch count it once.
static void epoch_counted_once(void) {
  begin(6);
  void *p = nccl_proxy(comm, new_op(), 0, 1, 200, 1);
  nccl_send_steps(comm, p, 0, 200, 1);
  const struct culprit_flow f = flow_of(0, 1, 1);
  CHECK(f.epochs >= 1);
  CHECK(f.epochs <= (f.last_progress_ns >> 15) - (f.first_step_ns >> 15) + 1);
  CHECK(f.active_ns <= f.last_progress_ns - f.first_step_ns);
}

static struct culprit_completion completed(uint64_t number) {
  struct culprit_completion done;
  for (uint64_t n = 0; view_completion(&v, n, &done); n++) {
    if (done.number == number) return done;
  }
  CHECK(!"a completion record");
  return done;
}

// send_spaced sends steps with a pause behind each pair and gives how many probes find the count changed, by the flow's own stamps.
static uint32_t send_spaced(void *p, int steps, uint64_t pause) {
  uint64_t last = 0;
  uint32_t probes = 0;
  for (int i = 0; i < steps; i++) {
    nccl_send_steps(comm, p, i, i + 1, 1);
    const uint64_t probe = flow_of(0, 1, 1).last_progress_ns / CULPRIT_PROBE_NS;
    if (probe != last) probes++;
    last = probe;
    if (i % 2 == 1) spend(pause);
  }
  return probes;
}

// SendRate and RecvRate of CCL-D: a probe counts once for each flow, the operation has the most of its flows, and the next begins anew.
static void probes_of_changes(void) {
  begin(6);
  void *op = new_op();
  void *slow = nccl_proxy(comm, op, 0, 1, 8, 1), *quick = nccl_proxy(comm, op, 1, 1, 8, 1), *received = nccl_proxy(comm, op, 0, 3, 8, 0);
  const uint32_t want = send_spaced(slow, 8, 2 * CULPRIT_PROBE_NS);
  CHECK(want >= 4);  // Pauses are longer than the time between two probes.
  CHECK(want <= 8);
  nccl_send_steps(comm, quick, 0, 8, 1);
  void *s = nccl_step(comm, received, 0);
  nccl_state(s, CULPRIT_NCCL_RECV_WAIT, 0);
  nccl_state(s, CULPRIT_NCCL_RECV_FLUSH_WAIT, 1);
  spend(2 * CULPRIT_PROBE_NS);
  nccl_state(s, CULPRIT_NCCL_RECV_GPU_WAIT, 0);  // Neither this nor the stop changes RecvCount.
  spend(2 * CULPRIT_PROBE_NS);
  nccl_stop(s);
  nccl_stop(received);  // Makes up for seven steps that were not seen: one change.
  nccl_stop(slow);
  nccl_stop(quick);

  void *next = new_op();
  void *again = nccl_proxy(comm, next, 0, 1, 1, 1);
  nccl_send_steps(comm, again, 0, 1, 1);
  nccl_stop(again);
  nccl_finalize(comm);
  CHECK_EQ(completed(0).send_probes, want);
  CHECK_EQ(completed(0).recv_probes, 2);
  CHECK_EQ(completed(1).send_probes, 1);
  CHECK_EQ(completed(1).recv_probes, 0);
}

// A second operation waits behind the first on its flow and takes the slot over when that has ended.
static void queueing(void) {
  begin(6);
  void *op1 = new_op(), *op2 = new_op(), *op3 = new_op();
  void *p1 = nccl_proxy(comm, op1, 0, 1, 1, 1);
  void *p2 = nccl_proxy(comm, op2, 0, 1, 2, 1);
  void *p3 = nccl_proxy(comm, op3, 0, 1, 1, 1);
  struct culprit_flow f = flow_of(0, 1, 1);
  CHECK_EQ(f.queued, 2);
  CHECK_EQ(f.op_number, 0);
  nccl_send_steps(comm, p1, 0, 1, 50);
  f = flow_of(0, 1, 1);
  CHECK_EQ(f.op_number, 1);
  CHECK_EQ(f.op_seq, 1);
  CHECK_EQ(f.queued, 1);
  CHECK_EQ(f.state, CULPRIT_FLOW_QUEUED);
  CHECK_EQ(f.steps_total, 2);
  CHECK_EQ(f.bytes, 0);
  CHECK_EQ(f.total_bytes, 50);
  nccl_stop(p1);
  nccl_send_steps(comm, p2, 0, 2, 50);
  nccl_stop(p2);
  nccl_send_steps(comm, p3, 0, 1, 50);
  f = flow_of(0, 1, 1);
  CHECK_EQ(f.state, CULPRIT_FLOW_IDLE);
  CHECK_EQ(f.total_ops, 3);
  CHECK_EQ(f.total_done, 4);
  CHECK_EQ(f.total_bytes, 200);
  nccl_stop(p3);
  CHECK_EQ(VIEW_HEAD(&v, stale_events), 0);
}

// Two connections share a flow (ring and send/recv use different ones): the later operation may move first.
static void overlapping(void) {
  begin(6);
  void *p1 = nccl_proxy(comm, new_op(), 0, 1, 2, 1);
  void *p2 = nccl_proxy(comm, new_op(), 0, 1, 3, 1);
  nccl_send_steps(comm, p1, 0, 1, 10);
  nccl_send_steps(comm, p2, 0, 2, 100);
  struct culprit_flow f = flow_of(0, 1, 1);
  CHECK_EQ(f.op_number, 0);
  check_counts(&f, 1, 1, 1, 1);
  CHECK_EQ(f.total_done, 3);
  nccl_send_steps(comm, p1, 1, 2, 10);
  f = flow_of(0, 1, 1);
  CHECK_EQ(f.op_number, 1);
  check_counts(&f, 2, 2, 2, 2);
  CHECK_EQ(f.bytes, 200);
  CHECK_EQ(f.state, CULPRIT_FLOW_BETWEEN);
  nccl_send_steps(comm, p2, 2, 3, 100);
  CHECK_EQ(flow_of(0, 1, 1).state, CULPRIT_FLOW_IDLE);
  nccl_stop(p2);
  nccl_stop(p1);
  CHECK_EQ(flow_of(0, 1, 1).total_bytes, 320);
}

// An operation that ends wholly while it is queued behind another one.
static void overtaking(void) {
  begin(6);
  void *p1 = nccl_proxy(comm, new_op(), 0, 1, 2, 1);
  void *p2 = nccl_proxy(comm, new_op(), 0, 1, 1, 1);
  void *p3 = nccl_proxy(comm, new_op(), 0, 1, 1, 1);
  nccl_send_steps(comm, p2, 0, 1, 100);
  nccl_stop(p2);
  struct culprit_flow f = flow_of(0, 1, 1);
  CHECK_EQ(f.op_number, 0);
  CHECK_EQ(f.queued, 1);
  nccl_send_steps(comm, p1, 0, 2, 10);
  CHECK_EQ(flow_of(0, 1, 1).op_number, 2);
  CHECK_EQ(flow_of(0, 1, 1).queued, 0);
  nccl_stop(p1);
  nccl_send_steps(comm, p3, 0, 1, 10);
  nccl_stop(p3);
  CHECK_EQ(flow_of(0, 1, 1).state, CULPRIT_FLOW_IDLE);
  CHECK_EQ(flow_of(0, 1, 1).total_ops, 3);
}

// Receive starts come twice for one step while a buffer is not there; the state that follows counts once.
static void repeated_starts(void) {
  begin(6);
  void *p = nccl_proxy(comm, new_op(), 0, 1, 2, 0);
  void *a = nccl_step(comm, p, 0);
  void *b = nccl_step(comm, p, 0);
  CHECK(a == b);
  nccl_state(b, CULPRIT_NCCL_RECV_WAIT, 0);
  nccl_state(b, CULPRIT_NCCL_RECV_WAIT, 0);
  CHECK_EQ(flow_of(0, 0, 1).posted, 1);
  CHECK_EQ(VIEW_HEAD(&v, repeated_events), 1);
  nccl_state(b, CULPRIT_NCCL_RECV_FLUSH_WAIT, 64);
  nccl_state(b, CULPRIT_NCCL_RECV_FLUSH_WAIT, 64);
  CHECK_EQ(flow_of(0, 0, 1).bytes, 64);
  nccl_stop(b);
  nccl_stop(b);
  CHECK_EQ(flow_of(0, 0, 1).done, 1);
  CHECK_EQ(VIEW_HEAD(&v, repeated_events), 3);
}

// Lost events are made up for by later ones: NCCL 2.24 to 2.26 lose receive stops.
static void missing_events(void) {
  begin(6);
  void *p = nccl_proxy(comm, new_op(), 0, 1, 4, 0);
  void *s[4];
  for (int i = 0; i < 4; i++) s[i] = nccl_step(comm, p, i);
  nccl_state(s[1], CULPRIT_NCCL_RECV_GPU_WAIT, 0);  // Nothing before it, nothing of step 0.
  struct culprit_flow f = flow_of(0, 0, 1);
  check_counts(&f, 2, 2, 2, 0);
  nccl_stop(s[2]);
  f = flow_of(0, 0, 1);
  check_counts(&f, 3, 3, 3, 3);
  CHECK_EQ(f.total_done, 3);
  nccl_stop(p);  // NCCL says that all is done.
  f = flow_of(0, 0, 1);
  check_counts(&f, 4, 4, 4, 4);
  CHECK_EQ(f.state, CULPRIT_FLOW_IDLE);
  CHECK_EQ(f.total_done, 4);
  CHECK_EQ(f.total_ops, 1);
  nccl_stop(s[3]);
  CHECK_EQ(VIEW_HEAD(&v, stale_events), 1);
}

// States of the other direction, steps beyond the announced number, nonsense numbers.
static void nonsense(void) {
  begin(6);
  void *p = nccl_proxy(comm, new_op(), 0, 1, 1, 1);
  void *s = nccl_step(comm, p, 0);
  nccl_state(s, CULPRIT_NCCL_RECV_GPU_WAIT, 9);
  nccl_state(s, 12345, 9);
  nccl_state(s, -1, 9);
  struct culprit_flow f = flow_of(0, 1, 1);
  check_counts(&f, 0, 0, 0, 0);
  void *beyond = nccl_step(comm, p, 7);
  nccl_send_steps(comm, p, 0, 1, 8);
  nccl_state(beyond, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  f = flow_of(0, 1, 1);
  check_counts(&f, 1, 1, 1, 1);
  CHECK_EQ(VIEW_HEAD(&v, repeated_events), 1);
  CHECK(nccl_step(comm, p, -1) == NULL);
  CHECK(nccl_step(comm, p, 1 << 30) == NULL);
  CHECK(nccl_proxy(comm, NULL, 64, 1, 1, 1) == NULL);
  CHECK(nccl_proxy(comm, NULL, 0, -5, 1, 1) == NULL);
  void *none = nccl_proxy(comm, NULL, 0, 2, 0, 1);  // No steps.
  nccl_stop(none);
  void *negative = nccl_proxy(comm, NULL, 0, 2, -3, 1);
  nccl_stop(negative);
  CHECK_EQ(flow_of(0, 1, 2).state, CULPRIT_FLOW_IDLE);
}

// A proxy operation whose operation is unknown is followed all the same.
static void without_operation(void) {
  begin(6);
  void *p = nccl_proxy(comm, NULL, 3, 2, 2, 1);
  CHECK(p != NULL);
  nccl_send_steps(comm, p, 0, 1, 8);
  const struct culprit_flow f = flow_of(3, 1, 2);
  CHECK_EQ(f.op_generation, 0);
  CHECK_EQ(f.done, 1);
  nccl_stop(p);
}

// Operations that another process' proxy carries for us never come here; those that we carry for another process (PXN)
// come with that process' pointers.
static void foreign(void) {
  begin(6);
  void *wild = (void *)(uintptr_t)0x7fffdeadbeefu;
  CHECK(nccl_proxy_of(wild, wild, 999999, 0, 1, 4, 1) == NULL);
  CHECK(nccl_step(wild, NULL, 0) == NULL);
  CHECK_EQ(VIEW_HEAD(&v, foreign_events), 1);
  CHECK_EQ(view_live_flows(&v), 0);
}

static void all_channels(void) {
  begin(6);
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 1024, .channels = 64});
  void *p[128];
  for (int i = 0; i < 128; i++) CHECK((p[i] = nccl_proxy(comm, op, i / 2, 1, 1, i % 2)) != NULL);
  for (int i = 0; i < 128; i++) {
    if (i % 2) nccl_send_steps(comm, p[i], 0, 1, 8);
    else nccl_recv_steps(comm, p[i], 0, 1, 8);
    nccl_stop(p[i]);
  }
  CHECK_EQ(view_live_flows(&v), 128);
  struct culprit_op o;
  CHECK(view_find_op(&v, COMM_ID, 0, &o));
  CHECK_EQ(o.proxy_stopped, 128);
  CHECK_EQ(o.state, CULPRIT_OP_LEFT);
}

static const struct test_case cases[] = {
    {"send_states_v4", send_states_v4},
    {"send_states_v6", send_states_v6},
    {"recv_states", recv_states},
    {"head_step_rules", head_step_rules},
    {"times", times},
    {"epoch_counted_once", epoch_counted_once},
    {"probes_of_changes", probes_of_changes},
    {"queueing", queueing},
    {"overlapping", overlapping},
    {"overtaking", overtaking},
    {"repeated_starts", repeated_starts},
    {"missing_events", missing_events},
    {"nonsense", nonsense},
    {"without_operation", without_operation},
    {"foreign", foreign},
    {"all_channels", all_channels},
};

TEST_MAIN(cases)
