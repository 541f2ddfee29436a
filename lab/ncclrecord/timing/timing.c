// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A profiler plugin that hands every callback on to another one and measures how long that takes, on the threads of NCCL
// that make them.
//
//   TIMING_PLUGIN  the other plugin; unset: none, which shows what the measuring itself costs
//   TIMING_OUT     file that gets the figures, a JSON object a line; $RANK is appended
//
// Of each kind of callback: how many, and a histogram in nanoseconds. Of each thread: the time in callbacks, and the CPU
// time that the thread had used at its last event.

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../ncclshim/profiler_abi.h"
#include "../recorder/names.h"

enum { KINDS = 3 * 16, START = 0, STATE = 16, STOP = 32, BUCKETS = 4096, THREADS = 64, NS_PER_BUCKET = 4 };

struct thread {
  pthread_t id;
  _Atomic int64_t inside_ns, cpu_ns, first_cpu_ns;
  _Atomic uint64_t calls;
  _Atomic bool proxy;  // It reported proxy operations or kernels.
};

static struct {
  void *plugin;
  int (*start)(void *, void **, void *);
  int (*stop)(void *);
  int (*state)(void *, int, void *);
  int (*finalize)(void *);
  _Atomic uint32_t histogram[KINDS][BUCKETS];
  _Atomic uint64_t sum_ns[KINDS], count[KINDS];
  struct thread threads[THREADS];
  atomic_int thread_count;
} self;

// Handles are wrapped so that states and stops know the kind of their event.
struct handle {
  void *inner;
  uint8_t kind;
};

static _Thread_local struct thread *me;

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct thread *thread_of_caller(void) {
  if (me) return me;
  const int n = atomic_fetch_add(&self.thread_count, 1);
  me = &self.threads[n < THREADS ? n : THREADS - 1];
  me->first_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  return me;
}

static void account(int kind, int64_t ns) {
  struct thread *t = thread_of_caller();
  const int64_t bucket = ns / NS_PER_BUCKET;
  atomic_fetch_add_explicit(&self.histogram[kind][bucket < BUCKETS ? bucket : BUCKETS - 1], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&self.sum_ns[kind], (uint64_t)ns, memory_order_relaxed);
  atomic_fetch_add_explicit(&self.count[kind], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&t->inside_ns, ns, memory_order_relaxed);
  atomic_fetch_add_explicit(&t->calls, 1, memory_order_relaxed);
}

static int bit(uint64_t type) {
  for (int i = 0; i < EVENT_NAMES; i++) {
    if (type == (uint64_t)1 << i) return i;
  }
  return 0;
}

static int begin(void *context, void **handle, void *descr, uint64_t type, void **parent) {
  struct handle *h = calloc(1, sizeof *h);
  if (!h) return 0;
  h->kind = (uint8_t)bit(type);
  if (*parent) *parent = ((struct handle *)*parent)->inner;
  const int64_t began = clock_ns(CLOCK_MONOTONIC);
  if (self.start) self.start(context, &h->inner, descr);
  account(START + h->kind, clock_ns(CLOCK_MONOTONIC) - began);
  *handle = h;
  return 0;
}

// Up to v4 the type is a byte. v5 to v7 name the Group too.
static int start_old(void *context, void **handle, void *descr) {
  struct culprit_nccl_descr_v4 *d = descr;
  return begin(context, handle, d, d->type, &d->parentObj);
}

static int start_new(void *context, void **handle, void *descr) {
  struct culprit_nccl_descr_v6 *d = descr;
  void **group = d->type == CULPRIT_NCCL_COLL ? &d->coll.parentGroup : d->type == CULPRIT_NCCL_P2P ? &d->p2p.parentGroup : NULL;
  if (group && *group) *group = ((struct handle *)*group)->inner;
  return begin(context, handle, d, d->type, &d->parentObj);
}

static int state(void *handle, int number, void *args) {
  struct handle *h = handle;
  if (!h) return 0;
  const int64_t began = clock_ns(CLOCK_MONOTONIC);
  if (self.state && h->inner) self.state(h->inner, number, args);
  account(STATE + h->kind, clock_ns(CLOCK_MONOTONIC) - began);
  return 0;
}

// Handles are not freed: NCCL may use them after their stop.
static int stop(void *handle) {
  struct handle *h = handle;
  if (!h) return 0;
  const int64_t began = clock_ns(CLOCK_MONOTONIC);
  if (self.stop && h->inner) self.stop(h->inner);
  account(STOP + h->kind, clock_ns(CLOCK_MONOTONIC) - began);
  if (h->kind == bit(CULPRIT_NCCL_PROXY_OP)) {
    struct thread *t = thread_of_caller();
    t->proxy = true;
    t->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - t->first_cpu_ns;
  }
  return 0;
}

static uint64_t quantile(int kind, double share) {
  uint64_t seen = 0;
  const double wanted = share * (double)self.count[kind];
  for (int b = 0; b < BUCKETS; b++) {
    seen += self.histogram[kind][b];
    if ((double)seen >= wanted) return (uint64_t)b * NS_PER_BUCKET;
  }
  return 0;
}

static void report(void) {
  const char *out = getenv("TIMING_OUT"), *rank = getenv("RANK");
  char path[4096];
  snprintf(path, sizeof path, "%s%s", out ? out : "timing.", rank ? rank : "0");
  FILE *f = fopen(path, "we");
  if (!f) return;
  static const char *const calls[] = {"start", "state", "stop"};
  for (int k = 0; k < KINDS; k++) {
    if (!self.count[k]) continue;
    fprintf(f, "{\"event\":\"%s\",\"call\":\"%s\",\"count\":%" PRIu64 ",\"sum_ns\":%" PRIu64 ",\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 "}\n",
            event_names[k % 16], calls[k / 16], self.count[k], self.sum_ns[k], quantile(k, 0.5), quantile(k, 0.99));
  }
  for (int i = 0; i < THREADS && i < self.thread_count; i++) {
    struct thread *t = &self.threads[i];
    if (!t->proxy) continue;
    fprintf(f, "{\"thread\":%d,\"calls\":%" PRIu64 ",\"inside_ns\":%" PRId64 ",\"cpu_ns\":%" PRId64 "}\n", i, t->calls, t->inside_ns, t->cpu_ns);
  }
  fclose(f);
}

static int finalize(void *context) {
  return self.finalize ? self.finalize(context) : 0;
}

__attribute__((destructor)) static void unloaded(void) { report(); }

// The other plugin's interface of the same version, or of an older one that is laid out alike; NULL where there is none.
static const void *inner(const char *symbol, const char *older) {
  const char *name = getenv("TIMING_PLUGIN");
  if (!name || !*name) return NULL;
  if (!self.plugin) self.plugin = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const void *api = self.plugin ? dlsym(self.plugin, symbol) : NULL;
  if (self.plugin && !api && older) api = dlsym(self.plugin, older);
  if (!api) {
    const char *why = self.plugin ? NULL : dlerror();
    fprintf(stderr, "timing: %s %s\n", why ? "not loaded:" : "the plugin does not export", why ? why : symbol);
    exit(1);
  }
  return api;
}

#define USE(api)                                              \
  do {                                                        \
    self.start = (int (*)(void *, void **, void *))(api)->startEvent;     \
    self.stop = (api)->stopEvent;                             \
    self.state = (int (*)(void *, int, void *))(api)->recordEventState;   \
    self.finalize = (api)->finalize;                          \
  } while (0)

enum { EVERYTHING = CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P | CULPRIT_NCCL_PROXY_OP | CULPRIT_NCCL_PROXY_STEP | CULPRIT_NCCL_KERNEL_CH };

// NCCL leaves a communicator without a context alone.
static int no_plugin(void **context) {
  *context = &self;
  return 0;
}

#define INIT_OLD(n)                                                                                  \
  static int init_v##n(void **context, int *mask) {                                                  \
    const struct culprit_nccl_profiler_v##n *api = inner(CULPRIT_NCCL_SYMBOL_V##n, NULL);            \
    *mask = EVERYTHING;                                                                              \
    if (!api) return no_plugin(context);                                                             \
    USE(api);                                                                                        \
    return api->init(context, mask);                                                                 \
  }
#define INIT_NEW(n, as)                                                                              \
  static int init_v##n(void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks, int rank, \
                       culprit_nccl_logger logger) {                                                 \
    const struct culprit_nccl_profiler_v##as *api = inner(CULPRIT_NCCL_SYMBOL_V##n, CULPRIT_NCCL_SYMBOL_V5); \
    *mask = EVERYTHING;                                                                              \
    if (!api) return no_plugin(context);                                                             \
    USE(api);                                                                                        \
    return api->init(context, comm, mask, name, nodes, ranks, rank, logger);                         \
  }

INIT_OLD(2)
INIT_OLD(3)
INIT_NEW(5, 5)
INIT_NEW(6, 6)
INIT_NEW(7, 6)

static int init_v4(void **context, int *mask, const char *name, uint64_t comm, int nodes, int ranks, int rank,
                   culprit_nccl_logger logger) {
  const struct culprit_nccl_profiler_v4 *api = inner(CULPRIT_NCCL_SYMBOL_V4, NULL);
  *mask = EVERYTHING;
  if (!api) return no_plugin(context);
  USE(api);
  return api->init(context, mask, name, comm, nodes, ranks, rank, logger);
}

#define EXPORT(n, type)                                           \
  extern const struct type ncclProfiler_v##n;                     \
  __attribute__((visibility("default"))) const struct type ncclProfiler_v##n

#define START_AS(n, how) \
  static int start_v##n(void *c, void **h, struct culprit_nccl_descr_v##n *d) { return how(c, h, d); }
START_AS(2, start_old)
START_AS(3, start_old)
START_AS(4, start_old)
START_AS(5, start_new)
START_AS(6, start_new)
static int state_v2(void *h, int s, union culprit_nccl_state_args_v2 *a) { return state(h, s, a); }
static int state_v4(void *h, int s, union culprit_nccl_state_args *a) { return state(h, s, a); }

EXPORT(2, culprit_nccl_profiler_v2) = {"timing", init_v2, start_v2, stop, state_v2, finalize};
EXPORT(3, culprit_nccl_profiler_v3) = {"timing", init_v3, start_v3, stop, state_v2, finalize};
EXPORT(4, culprit_nccl_profiler_v4) = {"timing", init_v4, start_v4, stop, state_v4, finalize};
EXPORT(5, culprit_nccl_profiler_v5) = {"timing", init_v5, start_v5, stop, state_v4, finalize};
EXPORT(6, culprit_nccl_profiler_v6) = {"timing", init_v6, start_v6, stop, state_v4, finalize};
EXPORT(7, culprit_nccl_profiler_v7) = {{"timing", init_v7, start_v6, stop, state_v4, finalize}, {0}};
