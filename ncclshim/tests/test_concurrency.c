// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Several threads and a reader at once, and tables that run full. Every loop is bounded by work done, not by time.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 300
#else
#define ROUNDS 2000
#endif

// scaled shortens the loops where everything is fifty times slower (valgrind).
static int scaled(int rounds) { return getenv("CULPRIT_TEST_SHORT") != NULL ? rounds / 20 : rounds; }

static int stop_reading;
static uint64_t checked;  // Flows and operations that the reader has found in use.

// A reader's rules: whatever it copies with an even, unchanged version is consistent.
static void check_flow(const struct culprit_flow *f) {
  CHECK(f->posted >= f->ready);
  CHECK(f->ready >= f->transmitted);
  CHECK(f->transmitted >= f->done);
  CHECK(f->total_posted >= f->posted);
  CHECK(f->total_done >= f->done);
  CHECK(f->total_posted >= f->total_ready && f->total_ready >= f->total_transmitted);
  CHECK(f->total_transmitted >= f->total_done);
  CHECK(f->state <= CULPRIT_FLOW_BETWEEN);
  if (f->state == CULPRIT_FLOW_SEND_NET) CHECK(f->transmitted > f->done);
  if (f->state == CULPRIT_FLOW_RECV_NET) CHECK(f->posted > f->ready && f->ready == f->done);
  if (f->state == CULPRIT_FLOW_IDLE) CHECK(f->done == f->steps_total);
  CHECK(f->bytes == (uint64_t)f->transmitted * 10 || f->is_send == 0);
  CHECK(f->total_bytes == f->total_transmitted * 10 || f->is_send == 0);
}

static void *read_all(void *arg) {
  const struct view *v = arg;
  uint64_t next_completion = 0;
  while (__atomic_load_n(&stop_reading, __ATOMIC_ACQUIRE) == 0) {
    const uint32_t flows = __atomic_load_n(&v->header->flows_high, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < flows; i++) {
      struct culprit_flow f;
      if (!view_flow(v, i, &f) || f.in_use == 0) continue;
      check_flow(&f);
      __atomic_fetch_add(&checked, 1, __ATOMIC_RELAXED);
    }
    const uint32_t ops = __atomic_load_n(&v->header->ops_high, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < ops; i++) {
      struct culprit_op o;
      if (!view_op(v, i, &o) || o.in_use == 0) continue;
      CHECK(o.state >= CULPRIT_OP_CALLED && o.state <= CULPRIT_OP_LEFT);
      CHECK_EQ(o.seq, o.state == CULPRIT_OP_CALLED ? 0 : o.number);
      CHECK_EQ(o.kernel_stopped & ~o.kernel_started, 0);
      __atomic_fetch_add(&checked, 1, __ATOMIC_RELAXED);
    }
    const uint64_t head = VIEW_HEAD(v, completions_head);
    if (head > 1000 && next_completion < head - 1000) next_completion = head - 1000;
    for (; next_completion < head; next_completion++) {
      struct culprit_completion d;
      if (!view_completion(v, next_completion, &d)) continue;
      CHECK_EQ(d.number, d.seq);
      CHECK_EQ(d.func, CULPRIT_FUNC_ALLREDUCE);
      CHECK(d.left_ns >= d.called_ns);
    }
  }
  return NULL;
}

struct worker {
  pthread_t thread;
  uint64_t id;
  void *comm;
  // Handed from the user's thread to the progress thread.
  void *ops[64];
  uint32_t pushed, popped;
  int rounds;
};

// The progress thread of a communicator: proxy operations, steps and kernels of what the user's thread has launched.
static void *progress(void *arg) {
  struct worker *w = arg;
  for (int r = 0; r < w->rounds; r++) {
    while (__atomic_load_n(&w->pushed, __ATOMIC_ACQUIRE) <= (uint32_t)r) sched_yield();
    void *op = w->ops[r % 64];
    void *k = nccl_kernel(w->comm, op, 0, 1);
    void *send = nccl_proxy(w->comm, op, 0, 1, 5, 1);
    void *recv = nccl_proxy(w->comm, op, 0, 1, 5, 0);
    for (int s = 0; s < 5; s++) {
      nccl_recv_steps(w->comm, recv, s, s + 1, 10);
      nccl_send_steps(w->comm, send, s, s + 1, 10);
    }
    nccl_stop(send);
    nccl_stop(recv);
    nccl_state(k, CULPRIT_NCCL_KERNEL_CH_STOP, 3);
    nccl_stop(k);
    __atomic_store_n(&w->popped, (uint32_t)r + 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void *user(void *arg) {
  struct worker *w = arg;
  w->comm = nccl_init(w->id, NULL, 2, 2, 0);
  pthread_t progress_thread;
  CHECK(pthread_create(&progress_thread, NULL, progress, w) == 0);
  for (int r = 0; r < w->rounds; r++) {
    // On a busy machine the reader may not have had its turn yet.
    while (r == w->rounds / 2 && __atomic_load_n(&checked, __ATOMIC_RELAXED) == 0) sched_yield();
    while ((uint32_t)r - __atomic_load_n(&w->popped, __ATOMIC_ACQUIRE) >= 60) sched_yield();
    w->ops[r % 64] = nccl_op_simple(w->comm, &(struct nccl_op){.count = 100, .seq = (uint64_t)r, .channels = 1});
    CHECK(w->ops[r % 64] != NULL);
    __atomic_store_n(&w->pushed, (uint32_t)r + 1, __ATOMIC_RELEASE);
  }
  pthread_join(progress_thread, NULL);
  return NULL;
}

// Communicators of their own threads, each with a progress thread, under a reader's eyes: nothing torn, nothing lost.
static void comms_in_parallel(void) {
  enum { COMMS = 3 };
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *first = nccl_init(999, NULL, 2, 2, 0);
  struct view v = view_open();
  pthread_t reader;
  CHECK(pthread_create(&reader, NULL, read_all, &v) == 0);
  static struct worker workers[COMMS];
  for (uint64_t i = 0; i < COMMS; i++) {
    workers[i].id = i + 1;
    workers[i].rounds = scaled(ROUNDS);
    CHECK(pthread_create(&workers[i].thread, NULL, user, &workers[i]) == 0);
  }
  for (int i = 0; i < COMMS; i++) pthread_join(workers[i].thread, NULL);
  __atomic_store_n(&stop_reading, 1, __ATOMIC_RELEASE);
  pthread_join(reader, NULL);

  // A busy slot may cost an event, and the communicator's next operations put it right.
  const uint64_t contended = VIEW_HEAD(&v, contended_events);
  for (uint32_t i = 1; i <= COMMS; i++) {
    struct culprit_comm c;
    CHECK(view_comm(&v, i, &c));
    CHECK_EQ(c.ops_called, workers[0].rounds);
    CHECK(c.ops_completed + contended + 1 >= c.ops_called);
    CHECK(c.proxy_tid != 0 && c.user_tid != 0 && c.proxy_tid != c.user_tid);
  }
  if (contended == 0) {
    uint64_t done = 0;
    struct culprit_flow f;
    for (uint32_t i = 0; i < v.header->flows_high; i++) done += view_flow(&v, i, &f) ? f.total_done : 0;
    CHECK_EQ(done, COMMS * 2 * 5 * workers[0].rounds);
  }
  for (int i = 0; i < COMMS; i++) nccl_finalize(workers[i].comm);
  nccl_finalize(first);
  CHECK_EQ(view_live_ops(&v), 0);
}

struct shared_flow {
  void *comm, *proxy;
  int from, to;
};

static void *move_steps(void *arg) {
  struct shared_flow *s = arg;
  for (int i = s->from; i < s->to; i++) nccl_send_steps(s->comm, s->proxy, i, i + 1, 10);
  return NULL;
}

// NCCL moves a flow in one thread. Were it to change threads, one after the other, nothing may be lost.
static void flow_changes_threads(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 2, 2, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  void *p = nccl_proxy(comm, op, 0, 1, 400, 1);
  for (int i = 0; i < 4; i++) {
    struct shared_flow s = {.comm = comm, .proxy = p, .from = i * 100, .to = (i + 1) * 100};
    pthread_t t;
    CHECK(pthread_create(&t, NULL, move_steps, &s) == 0);
    pthread_join(t, NULL);
  }
  nccl_stop(p);
  struct culprit_flow f;
  CHECK(view_find_flow(&v, 1, 0, 1, 1, &f));
  CHECK_EQ(f.total_done, 400);
  CHECK_EQ(f.total_bytes, 4000);
  CHECK_EQ(VIEW_HEAD(&v, contended_events), 0);
}

// And were two threads to move it at once: events may be left out and are counted, the slot stays whole.
static void flow_in_two_threads(void) {
  const int steps = scaled(40000);
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 2, 2, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  void *p = nccl_proxy(comm, op, 0, 1, steps, 1);
  pthread_t t[2];
  // The same steps from both: each counts once, whoever is first.
  struct shared_flow s = {.comm = comm, .proxy = p, .from = 0, .to = steps};
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&t[i], NULL, move_steps, &s) == 0);
  for (int i = 0; i < 2000; i++) {
    struct culprit_flow f;
    if (!view_flow(&v, 0, &f)) continue;
    CHECK(f.posted >= f.ready && f.ready >= f.transmitted && f.transmitted >= f.done);
  }
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  nccl_stop(p);
  struct culprit_flow f;
  CHECK(view_find_flow(&v, 1, 0, 1, 1, &f));
  CHECK_EQ(f.done, steps);
  CHECK_EQ(f.total_done, steps);
  CHECK_EQ(f.version % 2, 0);
}

// More operations than there is room for: the oldest stay, because a hang is among them; the newest are counted.
static void full_of_operations(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  setenv("CULPRIT_SIZE_MB", "1", 1);
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 1, 2, 0);
  struct view v = view_open();
  const uint32_t room = view_section(&v, CULPRIT_SECTION_OPS)->count;
  void *first = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  for (uint32_t i = 1; i < room + 100; i++) {
    void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1, .seq = i});
    CHECK((op != NULL) == (i < room));
  }
  CHECK_EQ(VIEW_HEAD(&v, dropped_ops), 100);
  CHECK_EQ(view_live_ops(&v), room);
  unsigned reports = 0;
  struct culprit_lifecycle l;
  for (uint64_t n = 0; n < VIEW_HEAD(&v, lifecycle_head); n++) {
    reports += view_lifecycle(&v, n, &l) && l.kind == CULPRIT_LIFE_DROPPED;
  }
  CHECK_EQ(reports, 1);
  struct culprit_comm c;
  CHECK(view_comm(&v, 0, &c));
  CHECK_EQ(c.ops_called, room + 100);
  nccl_kernels(comm, first, 1, 1);
  CHECK(nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1, .seq = room + 100}) != NULL);
  CHECK(view_comm(&v, 0, &c));
  CHECK_EQ(c.ops_called, room + 101);
}

static void full_window(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 1, 2, 0);
  void *other = nccl_init(2, NULL, 1, 2, 0);
  struct view v = view_open();
  for (uint64_t i = 0; i < 4096 + 76; i++) {
    void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1, .seq = i});
    CHECK((op != NULL) == (i < 4096));
  }
  CHECK_EQ(VIEW_HEAD(&v, dropped_ops), 76);
  CHECK(nccl_op_simple(other, &(struct nccl_op){.count = 8, .channels = 1}) != NULL);  // Its own room.
}

static void full_of_flows(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  setenv("CULPRIT_SIZE_MB", "1", 1);
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 8, 100000, 0);
  struct view v = view_open();
  const int room = (int)view_section(&v, CULPRIT_SECTION_FLOWS)->count;
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  for (int i = 0; i < room + 10; i++) CHECK((nccl_proxy(comm, op, i % 64, i / 64, 1, 1) != NULL) == (i < room));
  CHECK(VIEW_HEAD(&v, dropped_flows) >= 1);
  CHECK(view_has_lifecycle(&v, CULPRIT_LIFE_DROPPED, CULPRIT_SECTION_FLOWS));
  struct culprit_op o;
  CHECK(view_find_op(&v, 1, 0, &o));
  CHECK((o.flags & CULPRIT_OP_PROXY_UNRELIABLE) != 0);
  nccl_finalize(comm);
  CHECK_EQ(view_live_flows(&v), 0);
  void *again = nccl_init(2, NULL, 8, 100000, 0);
  void *op2 = nccl_op_simple(again, &(struct nccl_op){.count = 8, .channels = 1});
  for (int i = 0; i < room; i++) CHECK(nccl_proxy(again, op2, i % 64, i / 64, 1, 1) != NULL);
}

// The rings overrun: the newest records are there, and the head tells how many were lost.
static void ring_overrun(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  setenv("CULPRIT_SIZE_MB", "1", 1);
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 1, 2, 0);
  struct view v = view_open();
  const uint64_t room = view_section(&v, CULPRIT_SECTION_COMPLETIONS)->count;
  for (uint64_t i = 0; i < room + 7; i++) {
    nccl_kernels(comm, nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1, .seq = i}), 1, 1);
  }
  CHECK_EQ(VIEW_HEAD(&v, completions_head), room + 7);
  struct culprit_completion d;
  CHECK(!view_completion(&v, 6, &d));
  CHECK(view_completion(&v, 7, &d));
  CHECK_EQ(d.number, 7);
  CHECK(view_completion(&v, room + 6, &d));
}

// Every handle that was ever valid, and a lot that never was, at every entry point.
static void handles_of_all_sorts(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 2, 2, 0);
  struct view v = view_open();
  enum { KEEP = 64 };
  void *kept[KEEP] = {comm, (void *)(uintptr_t)1, (void *)(uintptr_t)UINTPTR_MAX, &comm};
  unsigned n = 4;
  uint64_t random = 88172645463325252u;
  for (int round = 0; round < scaled(20000); round++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    void *a = kept[random % n], *b = kept[(random >> 8) % n], *made = NULL;
    const int k = (int)(random >> 16 & 63);
    const struct nccl_op desc = {.func = k & 1 ? "AllReduce" : "Send", .p2p = (k & 1) == 0, .peer = k & 3, .count = 5,
                                 .channels = k & 3, .captured = k == 63};
    switch ((random >> 32) % 12) {
      case 0: made = nccl_group_api(a); break;
      case 1: made = nccl_group(a, b); break;
      case 2: made = nccl_call(a, b, &desc); break;
      case 3: made = nccl_launch(a, b, b, &desc); break;
      case 4: made = nccl_proxy(a, b, k, k & 7, k & 3, k & 1); break;
      case 5: made = nccl_step(a, b, k & 7); break;
      case 6: made = nccl_kernel(a, b, k, random); break;
      case 7: case 8: nccl_state(a, (int)(random >> 40 & 31), random & 0xffff); break;
      case 9: case 10: nccl_stop(a); break;
      default: made = (void *)(uintptr_t)random; break;
    }
    if (made != NULL) {
      if (n < KEEP) kept[n++] = made;
      else kept[1 + random % (KEEP - 1)] = made;
    }
  }
  const uint32_t flows = v.header->flows_high, ops = v.header->ops_high;
  for (uint32_t i = 0; i < flows; i++) {
    struct culprit_flow f;
    CHECK(view_flow(&v, i, &f));
  }
  for (uint32_t i = 0; i < ops; i++) {
    struct culprit_op o;
    CHECK(view_op(&v, i, &o));
  }
  nccl_finalize(comm);
  CHECK_EQ(view_live_ops(&v), 0);
  CHECK_EQ(view_live_flows(&v), 0);
}

#define GROUPS 64  // That can be open at a time (GROUP_SLOTS).
#define GROUP_THREADS 4
#define GROUPS_A_THREAD 20  // Together more than there is room for.

static uint32_t group_taken[GROUPS];
static pthread_barrier_t group_round;  // All threads begin a round together.
static void *group_comm;

// The slot that a group's handle names (handle.h).
static unsigned slot_of(const void *group) { return (unsigned)((uintptr_t)group >> 18) & 0x3ffff; }

static void *open_and_close_groups(void *arg) {
  (void)arg;
  void *open[GROUPS_A_THREAD];
  for (int i = 0; i < scaled(4 * ROUNDS); i++) {
    pthread_barrier_wait(&group_round);
    for (int k = 0; k < GROUPS_A_THREAD; k++) {
      open[k] = nccl_group_api(group_comm);
      if (open[k] == NULL) continue;
      CHECK(slot_of(open[k]) < GROUPS);
      CHECK_EQ(__atomic_exchange_n(&group_taken[slot_of(open[k])], 1, __ATOMIC_ACQ_REL), 0);
    }
    for (int k = 0; k < GROUPS_A_THREAD; k++) {
      if (open[k] == NULL) continue;
      __atomic_store_n(&group_taken[slot_of(open[k])], 0, __ATOMIC_RELEASE);
      nccl_stop(open[k]);
    }
  }
  return NULL;
}

// No two open groups share a slot, and all slots come back.
static void groups_in_parallel(void) {
  nccl_load(6);
  group_comm = nccl_init(20, NULL, 1, 2, 0);
  struct view v = view_open();
  pthread_t threads[GROUP_THREADS];
  CHECK(pthread_barrier_init(&group_round, NULL, GROUP_THREADS) == 0);
  for (int i = 0; i < GROUP_THREADS; i++) CHECK(pthread_create(&threads[i], NULL, open_and_close_groups, NULL) == 0);
  for (int i = 0; i < GROUP_THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK_EQ(VIEW_HEAD(&v, stale_events), 0);

  void *open[GROUPS];
  for (int k = 0; k < GROUPS; k++) CHECK((open[k] = nccl_group_api(group_comm)) != NULL);
  CHECK(nccl_group_api(group_comm) == NULL);
  CHECK(VIEW_HEAD(&v, group_open_since_ns) != 0);
  for (int k = 0; k < GROUPS; k++) nccl_stop(open[k]);
  CHECK_EQ(VIEW_HEAD(&v, group_open_since_ns), 0);
  nccl_stop(open[0]);
  CHECK_EQ(VIEW_HEAD(&v, stale_events), 1);
}

static const struct test_case cases[] = {
    {"groups_in_parallel", groups_in_parallel},
    {"comms_in_parallel", comms_in_parallel},
    {"flow_changes_threads", flow_changes_threads},
    {"flow_in_two_threads", flow_in_two_threads},
    {"full_of_operations", full_of_operations},
    {"full_window", full_window},
    {"full_of_flows", full_of_flows},
    {"ring_overrun", ring_overrun},
    {"handles_of_all_sorts", handles_of_all_sorts},
};

TEST_MAIN(cases)
