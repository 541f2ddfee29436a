// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What a callback costs. Drives the built plugin as NCCL does and prints the median over many rounds beside the budget.
// Times are compared with a reading of the processor's counter in the same run, because that is what a callback cannot
// do without and what differs most between machines. Nothing is asserted: a shared machine proves nothing.
//
//   bench PLUGIN.so

#include "../profiler_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t counter(void) { return __rdtsc(); }
#elif defined(__aarch64__)
static inline uint64_t counter(void) {
  uint64_t v;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
  return v;
}
#endif

#define ROUNDS 401
#define STEPS 512  // Of one proxy operation.

static const struct culprit_nccl_profiler_v6 *plugin;
static void *context;
static volatile uint64_t sink;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *v, size_t n) {
  qsort(v, n, sizeof *v, by_value);
  return v[n / 2];
}

static void *start(void *parent, struct culprit_nccl_descr_v6 d) {
  void *h = NULL;
  d.parentObj = parent;
  plugin->startEvent(context, &h, &d);
  return h;
}

static void *coll_api(void *group) {
  return start(group, (struct culprit_nccl_descr_v6){
                          .type = CULPRIT_NCCL_COLL_API,
                          .collApi = {.func = "AllReduce", .count = 262144, .datatype = "ncclFloat32"}});
}

static void *coll(void *api, uint64_t seq) {
  return start(api, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_COLL,
                                                   .coll = {.seqNumber = seq,
                                                            .func = "AllReduce",
                                                            .count = 262144,
                                                            .datatype = "ncclFloat32",
                                                            .nChannels = 1,
                                                            .algo = "RING",
                                                            .proto = "SIMPLE"}});
}

static void *proxy_op(void *op, int steps, int is_send, int peer) {
  return start(op, (struct culprit_nccl_descr_v6){
                       .type = CULPRIT_NCCL_PROXY_OP,
                       .proxyOp = {.pid = getpid(), .peer = peer, .nSteps = steps, .chunkSize = 1 << 20, .isSend = is_send}});
}

static double bench_counter(void) {
  static double per[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    const double t = now_ns();
    for (int i = 0; i < STEPS; i++) sink = counter();
    per[r] = (now_ns() - t) / STEPS;
  }
  return median(per, ROUNDS);
}

// An indirect call to the plugin that it returns from at once: what any callback costs before it does anything.
static double bench_call(void) {
  static double per[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    const double t = now_ns();
    for (int i = 0; i < STEPS; i++) plugin->stopEvent(NULL);
    per[r] = (now_ns() - t) / STEPS;
  }
  return median(per, ROUNDS);
}

enum { PART_START, PART_FIRST, PART_SECOND, PART_THIRD, PART_STOP, PARTS };

// Whole cycles of a step; `window` steps are outstanding, as on a real connection.
static double bench_cycle(int is_send, uint64_t *seq) {
  static double per[ROUNDS];
  static void *steps[STEPS];
  const int states[2][3] = {
      {CULPRIT_NCCL_RECV_WAIT, CULPRIT_NCCL_RECV_FLUSH_WAIT, CULPRIT_NCCL_RECV_GPU_WAIT},
      {CULPRIT_NCCL_SEND_GPU_WAIT, CULPRIT_NCCL_SEND_PEER_WAIT, CULPRIT_NCCL_SEND_WAIT},
  };
  const int window = 4;
  for (int r = 0; r < ROUNDS; r++) {
    void *op = coll(coll_api(NULL), (*seq)++);
    void *p = proxy_op(op, STEPS, is_send, 1);
    union culprit_nccl_state_args args = {.proxyStep = {.transSize = 1 << 20}};
    struct culprit_nccl_descr_v6 d = {.type = CULPRIT_NCCL_PROXY_STEP, .parentObj = p};
    const double t = now_ns();
    for (int i = 0; i < STEPS + window; i++) {
      if (i < STEPS) {
        d.proxyStep.step = i;
        plugin->startEvent(context, &steps[i], &d);
        plugin->recordEventState(steps[i], states[is_send][0], NULL);
      }
      if (i >= 1 && i <= STEPS) {
        plugin->recordEventState(steps[i - 1], states[is_send][1], is_send ? NULL : &args);
        plugin->recordEventState(steps[i - 1], states[is_send][2], is_send ? &args : NULL);
      }
      if (i >= window) plugin->stopEvent(steps[i - window]);
    }
    per[r] = (now_ns() - t) / (STEPS * 5);
    plugin->stopEvent(p);
    plugin->stopEvent(op);
  }
  return median(per, ROUNDS);
}

// One kind of callback at a time, over all steps of a proxy operation. The window is unlimited, so later parts find
// more steps outstanding than in life; each callback does the same work.
static void bench_parts(uint64_t *seq, double out[PARTS]) {
  static double per[PARTS][ROUNDS];
  static void *steps[STEPS];
  union culprit_nccl_state_args args = {.proxyStep = {.transSize = 1 << 20}};
  const int states[] = {0, CULPRIT_NCCL_SEND_GPU_WAIT, CULPRIT_NCCL_SEND_PEER_WAIT, CULPRIT_NCCL_SEND_WAIT};
  for (int r = 0; r < ROUNDS; r++) {
    void *op = coll(coll_api(NULL), (*seq)++);
    void *p = proxy_op(op, STEPS, 1, 1);
    struct culprit_nccl_descr_v6 d = {.type = CULPRIT_NCCL_PROXY_STEP, .parentObj = p};
    double t = now_ns();
    for (int i = 0; i < STEPS; i++) {
      d.proxyStep.step = i;
      plugin->startEvent(context, &steps[i], &d);
    }
    per[PART_START][r] = (now_ns() - t) / STEPS;
    for (int part = PART_FIRST; part <= PART_THIRD; part++) {
      t = now_ns();
      for (int i = 0; i < STEPS; i++) plugin->recordEventState(steps[i], states[part], &args);
      per[part][r] = (now_ns() - t) / STEPS;
    }
    t = now_ns();
    for (int i = 0; i < STEPS; i++) plugin->stopEvent(steps[i]);
    per[PART_STOP][r] = (now_ns() - t) / STEPS;
    plugin->stopEvent(p);
    plugin->stopEvent(op);
  }
  for (int part = 0; part < PARTS; part++) out[part] = median(per[part], ROUNDS);
}

static double bench_polls(uint64_t *seq) {
  static double per[ROUNDS];
  void *op = coll(coll_api(NULL), (*seq)++);
  void *p = proxy_op(op, 8, 1, 1);
  void *step = start(p, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_PROXY_STEP});
  plugin->recordEventState(step, CULPRIT_NCCL_SEND_GPU_WAIT, NULL);
  for (int r = 0; r < ROUNDS; r++) {
    const double t = now_ns();
    for (int i = 0; i < STEPS; i++) plugin->recordEventState(step, CULPRIT_NCCL_SEND_PEER_WAIT, NULL);
    per[r] = (now_ns() - t) / STEPS;
  }
  plugin->stopEvent(step);
  plugin->stopEvent(p);
  plugin->stopEvent(op);
  return median(per, ROUNDS);
}

// An operation as the user's thread sees it: group, call, launch, their stops. kernels adds one channel's kernel, which
// ends it; without, it ends by a proxy operation of one step in each direction (not counted in the time).
static double bench_op(uint64_t *seq, int with_group) {
  static double per[ROUNDS];
  enum { OPS = 64 };
  static void *ops[OPS];
  for (int r = 0; r < ROUNDS; r++) {
    const double t = now_ns();
    for (int i = 0; i < OPS; i++) {
      void *group = NULL, *plan = NULL;
      if (with_group) group = start(NULL, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_GROUP_API});
      void *api = coll_api(group);
      plugin->stopEvent(api);
      if (with_group) plan = start(group, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_GROUP});
      ops[i] = coll(api, (*seq)++);
      plugin->stopEvent(ops[i]);
      if (with_group) {
        plugin->stopEvent(plan);
        plugin->stopEvent(group);
      }
    }
    per[r] = (now_ns() - t) / OPS;
    for (int i = 0; i < OPS; i++) {
      void *k = start(ops[i], (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_KERNEL_CH, .kernelCh = {.pTimer = 1}});
      plugin->stopEvent(k);
    }
  }
  return median(per, ROUNDS);
}

static double bench_kernel(uint64_t *seq) {
  static double per[ROUNDS];
  enum { OPS = 64 };
  static void *ops[OPS];
  for (int r = 0; r < ROUNDS; r++) {
    for (int i = 0; i < OPS; i++) ops[i] = coll(coll_api(NULL), (*seq)++);
    const double t = now_ns();
    for (int i = 0; i < OPS; i++) {
      union culprit_nccl_state_args args = {.kernelCh = {.pTimer = 2}};
      void *k = start(ops[i], (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_KERNEL_CH, .kernelCh = {.pTimer = 1}});
      plugin->recordEventState(k, CULPRIT_NCCL_KERNEL_CH_STOP, &args);
      plugin->stopEvent(k);
    }
    per[r] = (now_ns() - t) / OPS;
  }
  return median(per, ROUNDS);
}

static double bench_proxy_op(uint64_t *seq) {
  static double per[ROUNDS];
  enum { OPS = 64 };
  static void *ops[OPS];
  for (int r = 0; r < ROUNDS; r++) {
    for (int i = 0; i < OPS; i++) ops[i] = coll(coll_api(NULL), (*seq)++);
    const double t = now_ns();
    for (int i = 0; i < OPS; i++) plugin->stopEvent(proxy_op(ops[i], 1, 1, 1));
    per[r] = (now_ns() - t) / OPS;
  }
  return median(per, ROUNDS);
}

static void print(const char *what, double ns, double budget) {
  if (budget > 0) {
    printf("%-52s %8.1f ns   budget %6.1f ns\n", what, ns, budget);
  } else {
    printf("%-52s %8.1f ns\n", what, ns);
  }
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s PLUGIN.so\n", argv[0]);
    return EXIT_FAILURE;
  }
  char directory[] = "/dev/shm/culprit-bench-XXXXXX";
  if (mkdtemp(directory) == NULL || setenv("CULPRIT_DIR", directory, 1) != 0) {
    perror("making a directory");
    return EXIT_FAILURE;
  }
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  plugin = library == NULL ? NULL : dlsym(library, CULPRIT_NCCL_SYMBOL_V6);
  if (plugin == NULL) {
    fprintf(stderr, "loading %s: %s\n", argv[1], dlerror());
    return EXIT_FAILURE;
  }
  setenv("CULPRIT_EVENTS", "all", 1);
  setenv("CULPRIT_KEEP_SECONDS", "0", 1);
  int mask = 0;
  plugin->init(&context, 1, &mask, "bench", 2, 4, 0, NULL);

  uint64_t seq = 0;
  double parts[PARTS];
  bench_cycle(1, &seq);  // Warms up.
  const double counter_ns = bench_counter();
  const double step_budget = counter_ns + 10;
  print("one reading of the counter", counter_ns, 0);
  print("one callback that does nothing", bench_call(), 0);
  print("step callback, send, mean of start 3 states stop", bench_cycle(1, &seq), step_budget);
  print("step callback, receive, mean of start 3 states stop", bench_cycle(0, &seq), step_budget);
  bench_parts(&seq, parts);
  print("  start", parts[PART_START], step_budget);
  print("  SendGPUWait", parts[PART_FIRST], step_budget);
  print("  SendPeerWait, first", parts[PART_SECOND], step_budget);
  print("  SendWait", parts[PART_THIRD], step_budget);
  print("  stop", parts[PART_STOP], step_budget);
  print("SendPeerWait repeated while the receiver stalls", bench_polls(&seq), step_budget);
  print("operation: call and launch, 4 callbacks", bench_op(&seq, 0), 300);
  print("operation in its group, 8 callbacks", bench_op(&seq, 1), 300);
  print("kernel of one channel, 3 callbacks", bench_kernel(&seq), 0);
  print("proxy operation, 2 callbacks", bench_proxy_op(&seq), 0);
  plugin->finalize(context);

  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", directory);
  return system(command) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
