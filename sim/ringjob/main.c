// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// ringjob: a training job without GPUs. See README.md.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "gpu.h"
#include "launch.h"
#include "meet.h"
#include "profiler.h"
#include "rendezvous.h"
#include "train.h"
#include "watch.h"

// How long an orderly end waits for the others.
#define FINISH_NS (10 * NS_PER_S)

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
  // Where the gradient goes, if there is such a communicator.
  const char *gradient = options.dp > 1 ? "dp" : options.tp > 1 ? "tp" : options.pp > 1 ? "pp" : "world";
  fault_arm(options.rank, 1, gradient, options.rendezvous);
  watch_start(options.grace_ns);

  uint16_t port = listener_start(proxy_wake_all);
  uint64_t unique_id;
  uint16_t *ports = meet(&options, port, &unique_id);
  struct job job = {.options = &options, .gpu = gpu_new()};
  make_comms(&job, unique_id, ports);
  watch_met();
  event_emit("rank_ready", ",\"pid\":%ld", (long)getpid());

  struct train *train = options.selftest ? NULL : train_new(&job);
  bool many = options.selftest && strcmp(options.selftest, "soak") == 0;
  bool orderly = train ? train_run(train) : many ? soak(&job) : selftest(&job);
  finish(&job, orderly);
  if (train) train_free(train);
  watch_stop();
  free(ports);
  return orderly ? EXIT_OK : EXIT_ABORTED;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "launch") == 0) return launch_main(argc - 1, argv + 1, argv[0]);
  return rank_main(argc, argv);
}
