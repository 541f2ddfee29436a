// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "writer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// What was last recorded of an event. A send that waits for its receiver says so at every poll, millions of times a second.
struct last {
  char state[24];
  char value[40];
  uint64_t again;   // Times that it came again.
  int64_t again_ns;
};

static struct {
  pthread_mutex_t mutex;
  FILE *file;
  int64_t opened_ns;  // CLOCK_MONOTONIC.
  uint64_t contexts, handles, threads, room;
  struct last *last;  // By handle.
} self = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local uint64_t thread_number;

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t since_open(void) { return clock_ns(CLOCK_MONOTONIC) - self.opened_ns; }

static void open_file(void) {
  const char *dir = getenv("RECORDER_DIR"), *rank = getenv("RANK");
  char path[4096];
  if (rank) snprintf(path, sizeof path, "%s/rank.%s.log", dir ? dir : ".", rank);
  else snprintf(path, sizeof path, "%s/pid.%d.log", dir ? dir : ".", (int)getpid());
  self.file = fopen(path, "ae");
  if (!self.file) {
    fprintf(stderr, "recorder: cannot write %s: %s\n", path, strerror(errno));
    exit(1);
  }
  self.opened_ns = clock_ns(CLOCK_MONOTONIC);
  fprintf(self.file, "0 1 open realtime=%" PRId64 " pid=%d\n", clock_ns(CLOCK_REALTIME), (int)getpid());
}

// Names of threads may have spaces.
static void introduce_thread(void) {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  for (char *c = name; *c; c++) {
    if (*c == ' ') *c = '_';
  }
  thread_number = ++self.threads;
  fprintf(self.file, "%" PRId64 " %" PRIu64 " thread %s\n", since_open(), thread_number, name);
}

static void lock(void) {
  pthread_mutex_lock(&self.mutex);
  if (!self.file) open_file();
  if (!thread_number) introduce_thread();
}

static void unlock(void) {
  fflush(self.file);
  pthread_mutex_unlock(&self.mutex);
}

static void head(int64_t ns, const char *verb) { fprintf(self.file, "%" PRId64 " %" PRIu64 " %s", ns, thread_number, verb); }

void line_begin(const char *verb) {
  lock();
  head(since_open(), verb);
}

void line_end(void) {
  fputc('\n', self.file);
  unlock();
}

void line_number(const char *key, int64_t value) { fprintf(self.file, " %s=%" PRId64, key, value); }
void line_unsigned(const char *key, uint64_t value) { fprintf(self.file, " %s=%" PRIu64, key, value); }
void line_address(const char *key, const void *value) { fprintf(self.file, " %s=0x%" PRIxPTR, key, (uintptr_t)value); }
void line_text(const char *key, const char *value) { fprintf(self.file, " %s=%s", key, value && *value ? value : "-"); }

uint64_t writer_context(void) {
  pthread_mutex_lock(&self.mutex);
  const uint64_t number = ++self.contexts;
  pthread_mutex_unlock(&self.mutex);
  return number;
}

static struct last *last_of(uint64_t handle) {
  if (handle >= self.room) {
    const uint64_t room = (handle + 1) * 2;
    struct last *grown = realloc(self.last, room * sizeof *grown);
    if (!grown) abort();
    memset(grown + self.room, 0, (room - self.room) * sizeof *grown);
    self.last = grown;
    self.room = room;
  }
  return &self.last[handle];
}

static void say_again(uint64_t handle) {
  struct last *l = last_of(handle);
  if (!l->again) return;
  head(l->again_ns, "again");
  fprintf(self.file, " %" PRIu64 " %" PRIu64 "\n", handle, l->again);
  l->again = 0;
}

void line_begin_start(void **handle, const char *event) {
  line_begin("start");
  const uint64_t number = ++self.handles;
  *handle = (void *)(uintptr_t)number;
  fprintf(self.file, " %" PRIu64 " %s", number, event);
}

void writer_state(void *handle, const char *state, const char *value) {
  const uint64_t number = (uintptr_t)handle;
  lock();
  struct last *l = last_of(number);
  if (strcmp(l->state, state) == 0 && strcmp(l->value, value) == 0) {
    l->again++;
    l->again_ns = since_open();
    pthread_mutex_unlock(&self.mutex);
    return;
  }
  say_again(number);
  snprintf(l->state, sizeof l->state, "%s", state);
  snprintf(l->value, sizeof l->value, "%s", value);
  head(since_open(), "state");
  fprintf(self.file, " %" PRIu64 " %s %s\n", number, state, value);
  unlock();
}

void writer_stop(void *handle) {
  const uint64_t number = (uintptr_t)handle;
  lock();
  say_again(number);
  head(since_open(), "stop");
  fprintf(self.file, " %" PRIu64 "\n", number);
  unlock();
}

void writer_finalize(void *context) {
  lock();
  for (uint64_t h = 1; h < self.room; h++) say_again(h);
  head(since_open(), "finalize");
  fprintf(self.file, " %" PRIu64 "\n", (uint64_t)(uintptr_t)context);
  unlock();
}

__attribute__((destructor)) static void unloaded(void) {
  if (!self.file) return;
  line_begin("unload");
  line_end();
}
