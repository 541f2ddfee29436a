// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// ringjob: a training job without GPUs. See README.md.

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "gpu.h"
#include "launch.h"
#include "profiler.h"
#include "rendezvous.h"
#include "train.h"

// How often the control thread looks up while nothing happens.
#define CONTROL_NS (100 * NS_PER_MS)
// After an abort, teardown gets this long.
#define TEARDOWN_NS (3 * NS_PER_S)
// How long an orderly end waits for the others.
#define FINISH_NS (10 * NS_PER_S)

struct control {
  pthread_t thread;
  uint64_t grace_ns;
  atomic_bool met;   // The others are known.
  atomic_bool over;
};

// Signals and times: SIGTERM ends the job, SIGUSR1 and SIGUSR2 begin and end faults.
static void *control_main(void *arg) {
  struct control *control = arg;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  uint64_t deadline = UINT64_MAX;
  while (!atomic_load(&control->over)) {
    uint64_t now = now_ns();
    uint64_t next = atomic_load(&control->met) ? fault_tick(now) : UINT64_MAX;
    if (now >= deadline) {
      if (abort_requested()) die(EXIT_ABORTED, "teardown did not end");
      event_emit("abort", ",\"grace_seconds\":%.1f", (double)control->grace_ns / NS_PER_S);
      abort_set();
      proxy_wake_all();
      deadline = now + TEARDOWN_NS;
    }
    uint64_t wait = CONTROL_NS;
    if (next != UINT64_MAX && next > now && next - now < wait) wait = next - now;
    struct timespec t = {.tv_nsec = (long)wait};
    int got = sigtimedwait(&set, NULL, &t);
    if (got == SIGTERM || got == SIGINT) {
      if (atomic_load(&control->met)) control_request_stop();
      if (deadline == UINT64_MAX) deadline = now_ns() + control->grace_ns;
    } else if (got == SIGUSR1) {
      fault_signal_start();
    } else if (got == SIGUSR2) {
      fault_signal_clear();
    }
  }
  return NULL;
}

static void block_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
}

// Megatron's communicators. Every rank takes part in every split; one of one member is not made.
static void make_comms(struct job *job, uint64_t unique_id, const uint16_t *ports) {
  const struct options *o = job->options;
  int tp = o->rank % o->tp, dp = o->rank / o->tp % o->dp, pp = o->rank / (o->tp * o->dp);
  job->world = comm_world(o, unique_id, ports, job->gpu);
  if (o->tp > 1) job->tp = comm_split(job->world, dp + o->dp * pp, tp, "tp");
  if (o->dp > 1) job->dp = comm_split(job->world, tp + o->tp * pp, dp, "dp");
  if (o->pp > 1) job->pp = comm_split(job->world, tp + o->tp * dp, pp, "pp");
}

static void finish(const struct job *job, bool orderly) {
  struct comm *comms[] = {job->tp, job->dp, job->pp, job->world};
  int count = (int)(sizeof comms / sizeof *comms);
  if (orderly) {
    // Nobody closes a connection that another one still needs.
    for (int i = 0; i < count; i++) {
      if (comms[i]) proxy_flush(comms[i]->proxy);
    }
    control_finish(job->options->world_size, FINISH_NS);
  }
  gpu_free(job->gpu);
  if (abort_requested()) proxy_shared_free();
  for (int i = 0; i < count; i++) comm_destroy(comms[i]);
  proxy_shared_free();
  listener_stop();
}

static int rank_main(int argc, char **argv) {
  struct options options;
  options_parse(&options, argc, argv);
  event_set_rank(options.rank);
  block_signals();
  fault_arm(&options);
  struct control control = {.grace_ns = options.grace_ns};
  if (pthread_create(&control.thread, NULL, control_main, &control) != 0) die(EXIT_SYSTEM, "starting the control thread");
  pthread_setname_np(control.thread, "control");

  uint16_t port = listener_start(proxy_wake_all);
  uint64_t unique_id;
  uint16_t *ports = rendezvous_meet(&options, port, &unique_id);
  struct job job = {.options = &options, .gpu = gpu_new()};
  make_comms(&job, unique_id, ports);
  fault_start_clock();
  atomic_store(&control.met, true);
  event_emit("rank_ready", ",\"pid\":%ld", (long)getpid());

  struct train *train = options.selftest ? NULL : train_new(&job);
  bool many = options.selftest && strcmp(options.selftest, "soak") == 0;
  bool orderly = train ? train_run(train) : many ? soak(&job) : selftest(&job);
  finish(&job, orderly);
  if (train) train_free(train);
  atomic_store(&control.over, true);
  pthread_join(control.thread, NULL);
  free(ports);
  return orderly ? EXIT_OK : EXIT_ABORTED;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "launch") == 0) return launch_main(argc - 1, argv + 1, argv[0]);
  return rank_main(argc, argv);
}
