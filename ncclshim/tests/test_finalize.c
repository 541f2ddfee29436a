// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The end of a communicator while its events still come, from several threads: nothing crashes, nothing runs for ever, and nothing
// of another communicator is touched. Every loop is bounded by work done, not by time.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 60
#else
#define ROUNDS 300
#endif
#define THREADS 3
#define PROXIES 24

// scaled shortens the loops where everything is fifty times slower (valgrind).
static int scaled(int rounds) { return getenv("CULPRIT_TEST_SHORT") != NULL ? rounds / 20 : rounds; }

static void *comm, *op;  // The communicator that ends, and an operation of it.
static int running;      // Threads that have begun to raise events on it.

// One thread's proxy operations, all on the same few flows as the others', queued behind each other and stopped out of order.
static void *raise_events(void *arg) {
  const unsigned thread = *(unsigned *)arg;
  void *proxies[PROXIES], *steps[PROXIES];
  for (unsigned i = 0; i < PROXIES; i++) {
    proxies[i] = nccl_proxy(comm, op, 0, (int)(i % 3), 3, (int)(i % 2));
    steps[i] = nccl_step(comm, proxies[i], 0);
    __atomic_fetch_add(&running, i == 0, __ATOMIC_RELEASE);
    if (i % 2 == 0) continue;
    nccl_state(steps[i], CULPRIT_NCCL_SEND_GPU_WAIT, 0);
    nccl_state(steps[i], CULPRIT_NCCL_SEND_WAIT, 10);
    nccl_stop(steps[i]);
  }
  for (unsigned i = 0; i < PROXIES; i++) {
    const unsigned k = (i * 7 + thread) % PROXIES;
    nccl_send_steps(comm, proxies[k], 1, 3, 10);
    nccl_stop(proxies[k]);
  }
  return NULL;
}

static void *end_comm(void *arg) {
  while (__atomic_load_n(&running, __ATOMIC_ACQUIRE) < THREADS) sched_yield();
  nccl_finalize(arg);
  return NULL;
}

// use_flows moves a proxy operation on flows that the communicator that ends may just have given back.
static void use_flows(void *bystander, int round) {
  void *mine = nccl_op_simple(bystander, &(struct nccl_op){.count = 8, .channels = 1, .seq = (uint64_t)round});
  for (int channel = 0; channel < 4; channel++) {
    void *p = nccl_proxy(bystander, mine, channel, round % 50, 2, 1);
    CHECK(p != NULL);
    nccl_send_steps(bystander, p, 0, 2, 10);
    nccl_stop(p);
  }
}

static void events_during_finalize(void) {
  const int rounds = scaled(ROUNDS);
  alarm(600);  // An endless loop is what is looked for; nothing else takes so long.
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *bystander = nccl_init(1, NULL, 2, 64, 0);
  struct view v = view_open();
  for (int round = 0; round < rounds; round++) {
    __atomic_store_n(&running, 0, __ATOMIC_RELEASE);
    comm = nccl_init(1000 + (uint64_t)round, NULL, 2, 4, 0);
    op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
    pthread_t threads[THREADS], ender;
    unsigned numbers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
      numbers[i] = i;
      CHECK(pthread_create(&threads[i], NULL, raise_events, &numbers[i]) == 0);
    }
    CHECK(pthread_create(&ender, NULL, end_comm, comm) == 0);
    use_flows(bystander, round);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_join(ender, NULL);
  }
  struct culprit_flow f;
  uint64_t done = 0, bytes = 0;
  for (uint32_t i = 0; i < v.header->flows_high; i++) {
    CHECK(view_flow(&v, i, &f));
    if (f.in_use == 0 || f.comm_index != 0) continue;
    done += f.total_done;
    bytes += f.total_bytes;
    CHECK_EQ(f.state, CULPRIT_FLOW_IDLE);
    CHECK_EQ(f.queued, 0);
  }
  CHECK_EQ(done, rounds * 4 * 2);
  CHECK_EQ(bytes, rounds * 4 * 20);
  nccl_finalize(bystander);
  CHECK_EQ(view_live_ops(&v), 0);
  CHECK_EQ(view_live_flows(&v), 0);
}

// ncclCommAbort: the communicator ends on another thread than its events came from, with everything open.
static void *abort_comm(void *arg) {
  nccl_finalize(arg);
  return NULL;
}

static void abort_from_another_thread(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(7);
  comm = nccl_init(5, NULL, 2, 4, 0);
  struct view v = view_open();
  void *ops[3];
  for (uint64_t i = 0; i < 3; i++) {
    ops[i] = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1, .seq = i});
    nccl_kernel(comm, ops[i], 0, 100 + i);
    void *p = nccl_proxy(comm, ops[i], 0, 1, 4, 1);
    nccl_send_steps(comm, p, 0, 2, 10);
    nccl_state(nccl_step(comm, p, 2), CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  }
  nccl_call(comm, nccl_group_api(comm), &(struct nccl_op){.count = 8});  // And a thread inside ncclGroupEnd.
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, abort_comm, comm) == 0);
  pthread_join(thread, NULL);
  CHECK_EQ(view_live_ops(&v), 0);
  CHECK_EQ(view_live_flows(&v), 0);
  struct culprit_completion d;
  for (uint64_t n = 0; n < 3; n++) {
    CHECK(view_completion(&v, n, &d));
    CHECK_EQ(d.number, n);
    CHECK_EQ(d.flags & CULPRIT_OP_ABANDONED, CULPRIT_OP_ABANDONED);
    CHECK_EQ(d.send.steps, 2);
    CHECK_EQ(d.send.bytes, 20);
    CHECK(d.left_ns >= d.entered_ns);
  }
  struct culprit_comm c;
  CHECK(view_comm(&v, 0, &c));
  CHECK_EQ(c.in_use, 0);
  CHECK_EQ(c.ops_in_flight, 0);
  CHECK_EQ(c.ops_completed, 0);
  // Another communicator takes its slots, and has them to itself.
  void *other = nccl_init(6, NULL, 2, 4, 0);
  void *p = nccl_proxy(other, nccl_op_simple(other, &(struct nccl_op){.count = 8, .channels = 1}), 0, 1, 1, 1);
  nccl_send_steps(other, p, 0, 1, 10);
  CHECK(view_comm(&v, 1, &c));
  CHECK_EQ(c.in_use, 1);
}

// slot_version gives the lock of a flow's slot, to be held as a thread that is descheduled in the middle of an event holds it.
static uint32_t *slot_version(const struct view *v, uint32_t flow) {
  const struct culprit_section *section = view_section(v, CULPRIT_SECTION_FLOWS);
  const int fd = open(v->path, O_RDWR | O_CLOEXEC);
  CHECK(fd >= 0);
  unsigned char *base = mmap(NULL, v->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(base != MAP_FAILED);
  close(fd);
  return (uint32_t *)(void *)(base + section->offset + flow * section->entry_bytes);
}

// A busy machine deschedules a thread for some time slices. A flow that it holds meanwhile is emptied and given back all the same.
static void flow_held_at_the_end(void) {
  setenv("CULPRIT_EVENTS", "all", 1);
  nccl_load(6);
  comm = nccl_init(6, NULL, 2, 4, 0);
  struct view v = view_open();
  void *first = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  CHECK(nccl_proxy(comm, first, 0, 1, 4, 1) != NULL);
  CHECK_EQ(view_live_flows(&v), 1);
  uint32_t *version = slot_version(&v, 0);
  __atomic_fetch_add(version, 1, __ATOMIC_ACQUIRE);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, abort_comm, comm) == 0);
  const struct timespec slices = {.tv_nsec = 100 * 1000 * 1000};
  nanosleep(&slices, NULL);
  __atomic_fetch_add(version, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  CHECK_EQ(view_live_flows(&v), 0);
}

static const struct test_case cases[] = {
    {"events_during_finalize", events_during_finalize},
    {"abort_from_another_thread", abort_from_another_thread},
    {"flow_held_at_the_end", flow_held_at_the_end},
};

TEST_MAIN(cases)
