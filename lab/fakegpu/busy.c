// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "busy.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "node.h"
#include "state.h"

enum { ADD_EVERY_MS = 50 };

static struct {
  int kernels;
  uint64_t since_ns;  // monotonic; not yet added
} gpus[NODE_GPUS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// The caller holds lock.
static void add(int gpu) {
  uint64_t t = now();
  state_add_busy(gpu, t - gpus[gpu].since_ns);
  gpus[gpu].since_ns = t;
}

// A kernel that hangs counts, too.
static void *add_now_and_then(void *arg) {
  (void)arg;
  pthread_setname_np(pthread_self(), "fakegpu-busy");
  for (;;) {
    nanosleep(&(struct timespec){0, ADD_EVERY_MS * 1000000}, NULL);
    pthread_mutex_lock(&lock);
    for (int gpu = 0; gpu < NODE_GPUS_MAX; gpu++) {
      if (gpus[gpu].kernels > 0) add(gpu);
    }
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static void start(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, add_now_and_then, NULL) == 0) pthread_detach(thread);
}

void busy_begin(int gpu) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start);
  pthread_mutex_lock(&lock);
  if (gpus[gpu].kernels++ == 0) gpus[gpu].since_ns = now();
  pthread_mutex_unlock(&lock);
}

void busy_end(int gpu) {
  pthread_mutex_lock(&lock);
  add(gpu);
  gpus[gpu].kernels--;
  pthread_mutex_unlock(&lock);
}
