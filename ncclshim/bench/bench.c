// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What a callback costs. Drives a built plugin as NCCL does and prints the median over many rounds beside the budget.
// Times are compared with a reading of the processor's counter in the same run, because that is what a callback cannot
// do without and what differs most between machines. Nothing is asserted: a shared machine proves nothing.
//
//   bench PLUGIN.so [OTHER.so]
//
// OTHER is any plugin with version 6 of the interface; what the same callbacks cost with it is a second column. Pools that
// NVIDIA's example plugin sizes by its environment are made large enough for the load.

#include "../profiler_abi.h"

#include <dlfcn.h>
#include <stdbool.h>
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
#define OPS 64     // In a round.

static const struct culprit_nccl_profiler_v6 *plugin;
static void *context;
static volatile uint64_t sink;
static unsigned long dropped;  // Events that a plugin gave no handle for: those cost less than they should.

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
  if (h == NULL) dropped++;
  return h;
}

// An operation with everything around it, as NCCL nests them: group of calls, call, plan, launch.
struct op {
  void *group, *call, *plan, *launch;
};

static uint64_t sequence;

static void *open_group(void) { return start(NULL, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_GROUP_API, .groupApi = {.groupDepth = 1}}); }

static void *open_call(void *group) {
  return start(group, (struct culprit_nccl_descr_v6){
                          .type = CULPRIT_NCCL_COLL_API,
                          .collApi = {.func = "AllReduce", .count = 262144, .datatype = "ncclFloat32"}});
}

static void *open_launch(void *call, void *plan) {
  return start(call, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_COLL,
                                                    .coll = {.seqNumber = sequence++,
                                                             .func = "AllReduce",
                                                             .count = 262144,
                                                             .datatype = "ncclFloat32",
                                                             .nChannels = 1,
                                                             .algo = "RING",
                                                             .proto = "SIMPLE",
                                                             .parentGroup = plan}});
}

static struct op open_op(void) {
  struct op o = {.group = open_group()};
  o.call = open_call(o.group);
  plugin->stopEvent(o.call);
  o.plan = start(o.group, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_GROUP});
  o.launch = open_launch(o.call, o.plan);
  plugin->stopEvent(o.launch);
  plugin->stopEvent(o.plan);
  plugin->stopEvent(o.group);
  return o;
}

static void *proxy_op(const struct op *o, int steps, int is_send, int peer) {
  return start(o->launch, (struct culprit_nccl_descr_v6){
                       .type = CULPRIT_NCCL_PROXY_OP,
                       .proxyOp = {.pid = getpid(), .peer = peer, .nSteps = steps, .chunkSize = 1 << 20, .isSend = is_send}});
}

// An operation ends with its kernel, which runs as long as its proxies do.
static void *open_kernel(const struct op *o) {
  return start(o->launch, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_KERNEL_CH, .kernelCh = {.pTimer = 1}});
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
static double bench_cycle(int is_send) {
  static double per[ROUNDS];
  static void *steps[STEPS];
  const int states[2][3] = {
      {CULPRIT_NCCL_RECV_WAIT, CULPRIT_NCCL_RECV_FLUSH_WAIT, CULPRIT_NCCL_RECV_GPU_WAIT},
      {CULPRIT_NCCL_SEND_GPU_WAIT, CULPRIT_NCCL_SEND_PEER_WAIT, CULPRIT_NCCL_SEND_WAIT},
  };
  const int window = 4;
  for (int r = 0; r < ROUNDS; r++) {
    const struct op o = open_op();
    void *kernel = open_kernel(&o), *p = proxy_op(&o, STEPS, is_send, 1);
    union culprit_nccl_state_args args = {.proxyStep = {.transSize = 1 << 20}};
    struct culprit_nccl_descr_v6 d = {.type = CULPRIT_NCCL_PROXY_STEP, .parentObj = p};
    const double t = now_ns();
    for (int i = 0; i < STEPS + window; i++) {
      if (i < STEPS) {
        d.proxyStep.step = i;
        plugin->startEvent(context, &steps[i], &d);
        plugin->recordEventState(steps[i], states[is_send][0], &args);
      }
      if (i >= 1 && i <= STEPS) {
        plugin->recordEventState(steps[i - 1], states[is_send][1], &args);
        plugin->recordEventState(steps[i - 1], states[is_send][2], &args);
      }
      if (i >= window) plugin->stopEvent(steps[i - window]);
    }
    per[r] = (now_ns() - t) / (STEPS * 5);
    plugin->stopEvent(p);
    plugin->stopEvent(kernel);
  }
  return median(per, ROUNDS);
}

// One kind of callback at a time, over all steps of a proxy operation. The window is unlimited, so later parts find
// more steps outstanding than in life; each callback does the same work.
static void bench_parts(double out[PARTS]) {
  static double per[PARTS][ROUNDS];
  static void *steps[STEPS];
  union culprit_nccl_state_args args = {.proxyStep = {.transSize = 1 << 20}};
  const int states[] = {0, CULPRIT_NCCL_SEND_GPU_WAIT, CULPRIT_NCCL_SEND_PEER_WAIT, CULPRIT_NCCL_SEND_WAIT};
  for (int r = 0; r < ROUNDS; r++) {
    const struct op o = open_op();
    void *kernel = open_kernel(&o), *p = proxy_op(&o, STEPS, 1, 1);
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
    plugin->stopEvent(kernel);
  }
  for (int part = 0; part < PARTS; part++) out[part] = median(per[part], ROUNDS);
}

static double bench_polls(void) {
  static double per[ROUNDS];
  union culprit_nccl_state_args args = {.proxyStep = {.transSize = 0}};
  const struct op o = open_op();
  void *kernel = open_kernel(&o), *p = proxy_op(&o, 8, 1, 1);
  void *step = start(p, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_PROXY_STEP});
  plugin->recordEventState(step, CULPRIT_NCCL_SEND_GPU_WAIT, &args);
  for (int r = 0; r < ROUNDS; r++) {
    const double t = now_ns();
    for (int i = 0; i < STEPS; i++) plugin->recordEventState(step, CULPRIT_NCCL_SEND_PEER_WAIT, &args);
    per[r] = (now_ns() - t) / STEPS;
  }
  plugin->stopEvent(step);
  plugin->stopEvent(p);
  plugin->stopEvent(kernel);
  return median(per, ROUNDS);
}

// Operations as the user's thread sees them: call, launch, their stops. Either OPS of them in one group and one plan, or each
// with the events of a group and a plan of its own. Their ends are not counted.
static double bench_op(bool own_group) {
  static double per[ROUNDS];
  static struct op ops[OPS];
  for (int r = 0; r < ROUNDS; r++) {
    double t = now_ns();
    if (own_group) {
      for (int i = 0; i < OPS; i++) ops[i] = open_op();
      per[r] = (now_ns() - t) / OPS;
    } else {
      void *group = open_group();
      void *plan = start(group, (struct culprit_nccl_descr_v6){.type = CULPRIT_NCCL_GROUP});
      t = now_ns();
      for (int i = 0; i < OPS; i++) {
        void *call = open_call(group);
        plugin->stopEvent(call);
        ops[i].launch = open_launch(call, plan);
        plugin->stopEvent(ops[i].launch);
      }
      per[r] = (now_ns() - t) / OPS;
      plugin->stopEvent(plan);
      plugin->stopEvent(group);
    }
    for (int i = 0; i < OPS; i++) plugin->stopEvent(open_kernel(&ops[i]));
  }
  return median(per, ROUNDS);
}

static double bench_kernel(void) {
  static double per[ROUNDS];
  static struct op ops[OPS];
  for (int r = 0; r < ROUNDS; r++) {
    for (int i = 0; i < OPS; i++) ops[i] = open_op();
    const double t = now_ns();
    for (int i = 0; i < OPS; i++) {
      union culprit_nccl_state_args args = {.kernelCh = {.pTimer = 2}};
      void *k = open_kernel(&ops[i]);
      plugin->recordEventState(k, CULPRIT_NCCL_KERNEL_CH_STOP, &args);
      plugin->stopEvent(k);
    }
    per[r] = (now_ns() - t) / OPS;
  }
  return median(per, ROUNDS);
}

static double bench_proxy_op(void) {
  static double per[ROUNDS];
  static struct op ops[OPS];
  static void *kernels[OPS];
  for (int r = 0; r < ROUNDS; r++) {
    for (int i = 0; i < OPS; i++) {
      ops[i] = open_op();
      kernels[i] = open_kernel(&ops[i]);
    }
    const double t = now_ns();
    for (int i = 0; i < OPS; i++) plugin->stopEvent(proxy_op(&ops[i], 1, 1, 1));
    per[r] = (now_ns() - t) / OPS;
    for (int i = 0; i < OPS; i++) plugin->stopEvent(kernels[i]);
  }
  return median(per, ROUNDS);
}

enum row { CALL, SEND, RECEIVE, START, FIRST, SECOND, THIRD, STOP, POLLS, OPERATION, OPERATION_GROUP, KERNEL, PROXY_OP, ROWS };

static const struct {
  const char *text;
  enum { NO_BUDGET, STEP_BUDGET, OP_BUDGET } budget;
} rows[ROWS] = {
    [CALL] = {"one callback that does nothing", NO_BUDGET},
    [SEND] = {"step callback, send, mean of start 3 states stop", STEP_BUDGET},
    [RECEIVE] = {"step callback, receive, mean of start 3 states stop", STEP_BUDGET},
    [START] = {"  start", STEP_BUDGET},
    [FIRST] = {"  SendGPUWait", STEP_BUDGET},
    [SECOND] = {"  SendPeerWait, first", STEP_BUDGET},
    [THIRD] = {"  SendWait", STEP_BUDGET},
    [STOP] = {"  stop", STEP_BUDGET},
    [POLLS] = {"SendPeerWait repeated while the receiver stalls", STEP_BUDGET},
    [OPERATION] = {"operation: call and launch, 4 callbacks", OP_BUDGET},
    [OPERATION_GROUP] = {"operation in its group, 8 callbacks", OP_BUDGET},
    [KERNEL] = {"kernel of one channel, 3 callbacks", NO_BUDGET},
    [PROXY_OP] = {"proxy operation, 2 callbacks", NO_BUDGET},
};

__attribute__((format(printf, 5, 6))) static void no_log(int level, unsigned long flags, const char *file, int line,
                                                         const char *format, ...) {
  (void)level, (void)flags, (void)file, (void)line, (void)format;
}

// measure fills in what a plugin costs; false when it cannot be loaded.
static bool measure(const char *path, double out[ROWS]) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  plugin = library == NULL ? NULL : dlsym(library, CULPRIT_NCCL_SYMBOL_V6);
  if (plugin == NULL) {
    fprintf(stderr, "loading %s: %s\n", path, dlerror());
    return false;
  }
  int mask = 0;
  plugin->init(&context, 1, &mask, "bench", 2, 4, 0, no_log);
  double parts[PARTS];
  bench_cycle(1);  // Warms up.
  out[CALL] = bench_call();
  out[SEND] = bench_cycle(1);
  out[RECEIVE] = bench_cycle(0);
  bench_parts(parts);
  for (int i = 0; i < PARTS; i++) out[START + i] = parts[i];
  out[POLLS] = bench_polls();
  out[OPERATION] = bench_op(false);
  out[OPERATION_GROUP] = bench_op(true);
  out[KERNEL] = bench_kernel();
  out[PROXY_OP] = bench_proxy_op();
  plugin->finalize(context);
  return true;
}

static void environment(void) {
  // More than a round opens, and the pool of collectives not smaller than that of calls: each call keeps its own.
  static const struct {
    const char *name, *size;
  } pools[] = {{"GROUP_API", "128"}, {"COLL_API", "128"}, {"COLL", "512"}, {"GROUP", "1048576"}};
  setenv("CULPRIT_EVENTS", "all", 1);
  setenv("CULPRIT_KEEP_SECONDS", "0", 1);
  setenv("NCCL_PROFILE_EVENT_MASK", "4095", 1);
  for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
    char name[64];
    snprintf(name, sizeof name, "NCCL_PROFILE_%s_POOL_SIZE", pools[i].name);
    setenv(name, pools[i].size, 1);
  }
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s PLUGIN.so [OTHER.so]\n", argv[0]);
    return EXIT_FAILURE;
  }
  char directory[] = "/dev/shm/culprit-bench-XXXXXX";
  if (mkdtemp(directory) == NULL || setenv("CULPRIT_DIR", directory, 1) != 0) {
    perror("making a directory");
    return EXIT_FAILURE;
  }
  environment();
  double ours[ROWS], other[ROWS] = {0};
  bool measured = measure(argv[1], ours);
  const unsigned long ours_dropped = dropped;
  if (measured && argc == 3) measured = measure(argv[2], other);
  if (measured) {
    const double counter_ns = bench_counter();
    printf("%-52s %8.1f ns\n", "one reading of the counter", counter_ns);
    for (int i = 0; i < ROWS; i++) {
      printf("%-52s %8.1f ns", rows[i].text, ours[i]);
      if (rows[i].budget != NO_BUDGET) {
        printf("   budget %6.1f ns", rows[i].budget == STEP_BUDGET ? counter_ns + 10 : 300.0);
      } else if (argc == 3) {
        printf("%19s", "");
      }
      if (argc == 3) printf("   other %8.1f ns", other[i]);
      putchar('\n');
    }
    if (dropped != 0) printf("events without a handle: %lu, of the other plugin %lu\n", ours_dropped, dropped - ours_dropped);
  }
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", directory);
  return system(command) == 0 && measured ? EXIT_SUCCESS : EXIT_FAILURE;
}
