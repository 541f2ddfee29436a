// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Calls a profiler plugin as NCCL did in a recording: the same callbacks with the same fields, in the same order, on as
// many threads.
//
//   replay PLUGIN < SCRIPT      SCRIPT: the lines of the recorder (recorder/writer.h) with absolute times; GPU times are
//                               nanoseconds since time 0
//
// As NCCL does, it leaves out events that the plugin's mask does not ask for and calls for events that got no handle. It
// ends without running exit handlers, as a process that is killed: what the plugin left behind is what it had written.

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../ncclshim/profiler_abi.h"
#include "../recorder/names.h"
#include "abi.h"
#include "script.h"

enum { AGAIN = 3, THREADS = 64, SPIN_NS = 200000 };

static struct {
  struct script script;
  struct abi abi;
  void **handles, **contexts;  // By the recording's numbers.
  int mask;
  int64_t began_ns;  // CLOCK_MONOTONIC of time 0.
  int64_t began_real_ns;
  pthread_mutex_t mutex;
  pthread_cond_t moved;
  size_t next;
} self = {.mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Waits for a time of the script. Who comes late shifts all that follows: neither calls nor GPU times run into each other.
static void wait_until(int64_t ns) {
  int64_t left;
  while ((left = self.began_ns + ns - clock_ns(CLOCK_MONOTONIC)) > 0) {
    if (left > SPIN_NS) nanosleep(&(struct timespec){.tv_nsec = left / 2 % 1000000000}, NULL);
  }
  self.began_ns -= left;
  self.began_real_ns -= left;
}

// A bit of the mask makes NCCL emit the parents of its event too.
static bool emitted(uint64_t type) {
  uint64_t m = (uint64_t)self.mask;
  if (m & CULPRIT_NCCL_PROXY_STEP) m |= CULPRIT_NCCL_PROXY_OP;
  if (m & (CULPRIT_NCCL_PROXY_OP | CULPRIT_NCCL_KERNEL_CH | CULPRIT_NCCL_KERNEL_PHASE)) m |= CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P;
  if (m & (CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P)) m |= CULPRIT_NCCL_GROUP | CULPRIT_NCCL_COLL_API | CULPRIT_NCCL_P2P_API;
  if (m & (CULPRIT_NCCL_COLL_API | CULPRIT_NCCL_P2P_API)) m |= CULPRIT_NCCL_GROUP_API;
  return (m & type) != 0;
}

static void do_init(const struct line *l) {
  const uint64_t ctx = line_number(l, "ctx");
  if (!self.abi.version && !abi_find(&self.abi, (int)line_number(l, "abi"))) {
    fprintf(stderr, "replay: the plugin has no version %" PRIu64 "\n", line_number(l, "abi"));
    exit(1);
  }
  if (self.abi.init(&self.contexts[ctx], &self.mask, l) != 0) {
    fprintf(stderr, "replay: the plugin's init failed\n");
    exit(1);
  }
}

static void do_start(const struct line *l) {
  const uint64_t type = event_type(l->name);
  if (!emitted(type)) return;
  const struct start start = {
      .line = l,
      .type = type,
      .context = self.contexts[line_number(l, "ctx")],
      .parent = self.handles[line_number(l, "parent")],
      .group = self.handles[line_number(l, "group")],
      .began_real_ns = self.began_real_ns,
  };
  self.abi.start(&start, &self.handles[l->handle]);
}

static void do_state(const struct line *l, int times) {
  void *handle = self.handles[l->handle];
  for (int i = 0; handle && i < times; i++) self.abi.state(handle, state_number(l->name), l->value, self.began_real_ns);
}

// "again" repeats the state recorded last of the event.
static void do_again(size_t at) {
  const struct line *l = &self.script.lines[at];
  for (size_t i = at; i-- > 0;) {
    const struct line *before = &self.script.lines[i];
    if (before->handle != l->handle || strcmp(before->verb, "state") != 0) continue;
    const int count = atoi(l->value);
    do_state(before, count < AGAIN ? count : AGAIN);
    return;
  }
}

static void call(size_t at) {
  const struct line *l = &self.script.lines[at];
  if (strcmp(l->verb, "init") == 0) do_init(l);
  else if (strcmp(l->verb, "start") == 0) do_start(l);
  else if (strcmp(l->verb, "state") == 0) do_state(l, 1);
  else if (strcmp(l->verb, "again") == 0) do_again(at);
  else if (strcmp(l->verb, "stop") == 0 && self.handles[l->handle]) self.abi.stop(self.handles[l->handle]);
  else if (strcmp(l->verb, "finalize") == 0) self.abi.finalize(self.contexts[l->handle]);
}

// One of the recorded threads: makes its calls when their turn comes.
static void *run(void *arg) {
  const int thread = (int)(intptr_t)arg;
  for (size_t at = 0; at < self.script.count; at++) {
    if (self.script.lines[at].thread != thread) continue;
    pthread_mutex_lock(&self.mutex);
    while (self.next != at) pthread_cond_wait(&self.moved, &self.mutex);
    pthread_mutex_unlock(&self.mutex);
    wait_until(self.script.lines[at].ns);
    call(at);
    pthread_mutex_lock(&self.mutex);
    self.next = at + 1;
    pthread_cond_broadcast(&self.moved);
    pthread_mutex_unlock(&self.mutex);
  }
  return NULL;
}

static void *must_calloc(size_t n, size_t size) {
  void *p = calloc(n, size);
  if (!p) abort();
  return p;
}

int main(int argc, char **argv) {
  if (argc != 2 || !script_read(&self.script, stdin)) {
    fprintf(stderr, "usage: replay PLUGIN < SCRIPT\n");
    return 2;
  }
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!plugin) {
    fprintf(stderr, "replay: %s\n", dlerror());
    return 1;
  }
  self.abi.plugin = plugin;
  self.handles = must_calloc(self.script.handles + 1, sizeof *self.handles);
  self.contexts = must_calloc(self.script.count + 1, sizeof *self.contexts);
  self.began_ns = clock_ns(CLOCK_MONOTONIC);
  self.began_real_ns = clock_ns(CLOCK_REALTIME);
  pthread_t threads[THREADS];
  for (int i = 0; i < self.script.threads && i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, run, (void *)(intptr_t)(i + 1))) abort();
  }
  for (int i = 0; i < self.script.threads && i < THREADS; i++) pthread_join(threads[i], NULL);
  _exit(0);
}
