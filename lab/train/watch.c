// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "program.h"
#include "rendezvous.h"

// How often the thread looks up while nothing happens.
#define LOOK_NS (100 * NS_PER_MS)
// After an abort, teardown gets this long.
#define TEARDOWN_NS (3 * NS_PER_S)

static struct {
  pthread_t thread;
  uint64_t grace_ns;
  atomic_bool met, over;
} self;

static void watched_signals(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGTERM);
  sigaddset(set, SIGINT);
  sigaddset(set, SIGUSR1);
  sigaddset(set, SIGUSR2);
}

static uint64_t abort_job(void) {
  if (abort_requested()) die(EXIT_ABORTED, "teardown did not end");
  event_emit("abort", ",\"grace_seconds\":%.1f", (double)self.grace_ns / NS_PER_S);
  abort_set();
  program.aborting();
  return now_ns() + TEARDOWN_NS;
}

static void *watch_main(void *arg) {
  sigset_t set;
  watched_signals(&set);
  uint64_t deadline = UINT64_MAX;
  while (!atomic_load(&self.over)) {
    uint64_t now = now_ns();
    bool met = atomic_load(&self.met);
    uint64_t next = fault_tick(now);
    if (met && deadline != UINT64_MAX) control_request_stop();
    if (now >= deadline) deadline = abort_job();
    uint64_t wait = LOOK_NS;
    if (next != UINT64_MAX && next > now && next - now < wait) wait = next - now;
    struct timespec t = {.tv_nsec = (long)wait};
    int got = sigtimedwait(&set, NULL, &t);
    if (got == SIGTERM || got == SIGINT) {
      if (atomic_load(&self.met)) control_request_stop();
      if (deadline == UINT64_MAX) deadline = now_ns() + self.grace_ns;
    } else if (got == SIGUSR1) {
      fault_signal_start();
    } else if (got == SIGUSR2) {
      fault_signal_clear();
    }
  }
  return arg;
}

void watch_start(uint64_t grace_ns) {
  sigset_t set;
  watched_signals(&set);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  self.grace_ns = grace_ns;
  if (pthread_create(&self.thread, NULL, watch_main, NULL) != 0) die(EXIT_SYSTEM, "starting the control thread");
  pthread_setname_np(self.thread, "control");
}

void watch_met(void) {
  fault_start_clock();
  atomic_store(&self.met, true);
}

void watch_stop(void) {
  atomic_store(&self.over, true);
  pthread_join(self.thread, NULL);
}
