// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Steps take a short way on the thread that owns their flow and a general one on a flow that threads share. Here the same
// events go to one flow of each kind, in orders that NCCL produces and in orders that it never should; both must tell the
// same after each.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMM_ID 78
#define PEER 3
#define EVENTS 4000
#define OPEN 2     // Proxy operations of a flow at a time.
#define STEPS 12   // Of one at most.
#define BEYOND 2   // Steps after the announced number.

enum { OWNED, SHARED, WAYS };  // Also the two flows' channels.

struct proxies {
  void *proxy[WAYS];
  void *steps[WAYS][STEPS + BEYOND];
  int total, next[4];  // Next step of each stage, in order.
};

static void *comm;
static struct view v;
static uint64_t next_seq, random_state;

static unsigned draw(unsigned below) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(random_state >> 33) % below;
}

static const int states[2][3] = {
    {CULPRIT_NCCL_RECV_WAIT, CULPRIT_NCCL_RECV_FLUSH_WAIT, CULPRIT_NCCL_RECV_GPU_WAIT},
    {CULPRIT_NCCL_SEND_GPU_WAIT, CULPRIT_NCCL_SEND_PEER_WAIT, CULPRIT_NCCL_SEND_WAIT},
};

static void event(struct proxies *p, int way, int is_send, int step, int stage) {
  if (p->steps[way][step] == NULL) p->steps[way][step] = nccl_step(comm, p->proxy[way], step);
  if (stage < 3) {
    nccl_state(p->steps[way][step], states[is_send][stage], (uint64_t)step + 1);
  } else {
    nccl_stop(p->steps[way][step]);
  }
}

static void open_proxies(struct proxies *p, int is_send) {
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 1024, .seq = next_seq++, .channels = 2});
  memset(p, 0, sizeof *p);
  p->total = (int)draw(STEPS) + 1;
  for (int way = 0; way < WAYS; way++) {
    p->proxy[way] = nccl_proxy(comm, op, way, PEER, p->total, is_send);
    CHECK(p->proxy[way] != NULL);
  }
}

static void close_proxies(struct proxies *p) {
  for (int way = 0; way < WAYS; way++) nccl_stop(p->proxy[way]);
  p->proxy[OWNED] = NULL;
}

static void check_same(int is_send, int i) {
  struct culprit_flow f[WAYS];
  for (int way = 0; way < WAYS; way++) CHECK(view_find_flow(&v, COMM_ID, way, is_send, PEER, &f[way]));
  const struct culprit_flow *a = &f[OWNED], *b = &f[SHARED];
  const uint64_t told[][2] = {
      {a->state, b->state},
      {a->posted, b->posted},
      {a->ready, b->ready},
      {a->transmitted, b->transmitted},
      {a->done, b->done},
      {a->steps_total, b->steps_total},
      {a->queued, b->queued},
      {a->op_number, b->op_number},
      {a->peer_polls, b->peer_polls},
      {a->bytes, b->bytes},
      {a->total_ops, b->total_ops},
      {a->total_posted, b->total_posted},
      {a->total_ready, b->total_ready},
      {a->total_transmitted, b->total_transmitted},
      {a->total_done, b->total_done},
      {a->total_bytes, b->total_bytes},
      {a->first_step_ns == 0, b->first_step_ns == 0},
      {a->state_since_ns == a->last_progress_ns, b->state_since_ns == b->last_progress_ns},
  };
  for (size_t k = 0; k < sizeof told / sizeof told[0]; k++) {
    if (told[k][OWNED] == told[k][SHARED]) continue;
    harness_fail(__FILE__, __LINE__, "event %d, figure %zu: %llu where the flow is owned, %llu where it is shared", i, k,
                 (unsigned long long)told[k][OWNED], (unsigned long long)told[k][SHARED]);
  }
}

// One more event of what is open: mostly the next of a stage that the stage before has passed, now and then anything.
static void advance(struct proxies *p, int is_send) {
  int stage = (int)draw(4), step = p->next[stage];
  if (draw(16) == 0) {
    step = (int)draw((unsigned)p->total + BEYOND);
  } else if (step >= p->total || (stage > 0 && step >= p->next[stage - 1])) {
    return;
  } else {
    p->next[stage]++;
    if (draw(32) == 0) return;  // Lost.
  }
  for (int way = 0; way < WAYS; way++) event(p, way, is_send, step, stage);
}

static void *first_step(void *arg) {
  struct proxies *p = arg;
  event(p, SHARED, 1, 0, 0);
  event(p, SHARED, 0, 0, 0);
  return NULL;
}

static void ways_agree(int is_send) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  v = view_open();
  random_state = 20261121;
  struct proxies open[OPEN];
  for (int k = 0; k < OPEN; k++) open_proxies(&open[k], is_send);

  // Another thread's step makes the one flow a shared one; its other state is of the other direction and means nothing.
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, first_step, &open[0]) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  event(&open[0], OWNED, is_send, 0, 0);
  check_same(is_send, -1);

  for (int i = 0; i < EVENTS; i++) {
    struct proxies *p = &open[draw(OPEN)];
    advance(p, is_send);
    if (p->next[3] >= p->total || draw(200) == 0) {
      close_proxies(p);
      open_proxies(p, is_send);
    }
    check_same(is_send, i);
  }

  struct culprit_flow f[WAYS];
  for (int way = 0; way < WAYS; way++) CHECK(view_find_flow(&v, COMM_ID, way, is_send, PEER, &f[way]));
  CHECK(f[OWNED].total_ops > 50 && f[OWNED].total_done > 300);
  for (int way = 0; way < WAYS; way++) {
    for (int k = 0; k < 3; k++) CHECK(f[way].total_wait_ns[k] != 0);
    CHECK(f[way].total_active_ns != 0 && f[way].total_epochs != 0);
    CHECK(f[way].last_progress_ns >= f[way].state_since_ns);
  }
  CHECK_EQ(VIEW_HEAD(&v, contended_events), 0);
}

static void send(void) { ways_agree(1); }
static void receive(void) { ways_agree(0); }

static const struct test_case cases[] = {
    {"send", send},
    {"receive", receive},
};

TEST_MAIN(cases)
