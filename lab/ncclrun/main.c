// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// ncclrun: a training job on the real NCCL library, with GPUs that are played. See README.md.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "event.h"
#include "fault.h"
#include "fault_gpu.h"
#include "launch.h"
#include "program.h"
#include "rendezvous.h"
#include "train.h"
#include "watch.h"

const struct program program = {
    .name = "ncclrun",
    .kinds = FAULT_GPU_KINDS | 1ull << OP_NOT_ENTERED | 1ull << BROADCAST_NOT_ENTERED | 1ull << GROUP_STALL | 1ull << OTHER_OP |
             1ull << SWAP_ORDER | 1ull << STOP | 1ull << KILL | 1ull << EXIT | 1ull << CHECKPOINT | 1ull << FIRST_STEP | 1ull << EVAL |
             1ull << INIT_HANG | 1ull << SPLIT_HANG | 1ull << DATA_LATE,
    .usage = options_usage,
    .fault_begins = fault_gpu_begins,
    .fault_ends = fault_gpu_ends,
    .aborting = comm_abort_all,
    .prepare_host = environment_of_host,
    .prepare_rank = environment_of_rank,
    .before_kill = environment_clean,
};

// One rank of the process, in a thread of its own.
struct life {
  struct options *options;
  int number;
  struct rank rank;
  struct comm *world;  // Made already, by ncclCommInitAll; else NULL.
  pthread_t thread;
  bool orderly;
};

// The ncclUniqueId of a communicator, as hexadecimal digits in a file of the rendezvous. Its first member makes it.
static void share_id(const char *file, bool first, struct nccl_id *id) {
  char text[2 * sizeof id->bytes + 2];
  size_t n = sizeof id->bytes;
  if (first) {
    if (nccl.GetUniqueId(id) != NCCL_SUCCESS) die(EXIT_SYSTEM, "ncclGetUniqueId failed");
    for (size_t i = 0; i < n; i++) snprintf(text + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
    snprintf(text + 2 * n, 2, "\n");
    rendezvous_publish(file, text);
    return;
  }
  rendezvous_await(file, text, sizeof text);
  for (size_t i = 0; i < n; i++) {
    unsigned byte;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) die(EXIT_SYSTEM, "rendezvous: %s is broken", file);
    id->bytes[i] = (char)byte;
  }
}

// A communicator that a rank is in: which of those of the name, and as what.
struct place {
  struct comm **comm;
  int color, size, member;
};

// Megatron's communicators, with expert and context parallelism inside data parallelism.
static struct place place_of(struct groups *g, const char *name) {
  const struct options *o = g->rank->options;
  int rank = g->rank->rank, tp = rank % o->tp, dp = rank / o->tp % o->dp, pp = rank / (o->tp * o->dp);
  if (strcmp(name, "tp") == 0) return (struct place){&g->tp, dp + o->dp * pp, o->tp, tp};
  if (strcmp(name, "dp") == 0) return (struct place){&g->dp, tp + o->tp * pp, o->dp, dp};
  if (strcmp(name, "pp") == 0) return (struct place){&g->pp, tp + o->tp * dp, o->pp, pp};
  if (strcmp(name, "ep") == 0) return (struct place){&g->ep, tp + o->tp * (pp + o->pp * (dp / o->ep)), o->ep, dp % o->ep};
  if (strcmp(name, "cp") == 0) return (struct place){&g->cp, tp + o->tp * (pp + o->pp * (dp / o->cp)), o->cp, dp % o->cp};
  return (struct place){&g->world, 0, o->world_size, rank};
}

// Every rank takes part in every split; one of one member is not made.
static bool make_splits(struct groups *g) {
  static const char *const names[] = {"tp", "dp", "pp", "ep", "cp"};
  bool ok = true;
  for (size_t i = 0; ok && i < sizeof names / sizeof *names; i++) {
    struct place p = place_of(g, names[i]);
    if (p.size > 1) ok = comm_split(g->world, p.color, p.member, names[i], p.size, p.member, p.comm);
  }
  return ok;
}

// Those that were asked for, each by itself and in that order, as JAX makes one for each group of devices that it needs.
static bool make_cliques(struct groups *g) {
  char names[64];
  snprintf(names, sizeof names, "%s", g->rank->options->cliques);
  fault_hold(INIT_HANG, NULL, false);
  bool ok = true;
  for (char *rest = names, *name; ok && (name = strsep(&rest, ",")) != NULL;) {
    struct place p = place_of(g, name);
    if (p.size < 2) continue;
    struct nccl_id id;
    char file[64];
    snprintf(file, sizeof file, "unique_id-%s-%d", name, p.color);
    share_id(file, p.member == 0, &id);
    ok = comm_clique(g->rank, &id, name, p.size, p.member, p.comm);
  }
  return ok;
}

static bool open_groups(struct life *life, struct groups *g) {
  struct nccl_id id;
  *g = (struct groups){.rank = &life->rank, .world = life->world};
  if (!g->world && !rank_open(&life->rank, life->options, life->number)) return false;
  if (life->options->cliques) return make_cliques(g);
  if (!g->world) {
    share_id("unique_id", life->rank.rank == 0, &id);
    g->world = comm_world(&life->rank, &id);
  }
  if (!g->world || !cuda_ok(cudaSetDevice(life->number), "cudaSetDevice") || !make_splits(g)) return false;
  return !life->options->shrink || g->world->rank == g->world->nranks - 1 || comm_shrink(g->world, "rest", &g->rest);
}

static bool close_groups(const struct groups *g) {
  struct comm *comms[] = {g->rest, g->cp, g->ep, g->tp, g->dp, g->pp, g->world};
  bool ok = true;
  for (size_t i = 0; ok && i < sizeof comms / sizeof *comms; i++) ok = comm_destroy(comms[i]);
  return ok;
}

static void announce_ready(void) {
  int version = 0;
  nccl.GetVersion(&version);
  const char *ras = getenv("NCCL_RAS_ADDR");
  event_emit("rank_ready", ",\"pid\":%ld,\"nccl\":%d,\"ras\":\"%s\"", (long)getpid(), version, ras ? ras : "");
}

static void *live(void *arg) {
  struct life *life = arg;
  int rank = life->options->first_rank + life->number;
  struct groups groups;
  event_set_rank(rank);
  fault_of_thread(rank);
  if (!open_groups(life, &groups)) return NULL;
  watch_met();
  announce_ready();
  bool ok = life->options->selftest ? selftest(&groups) : train(&groups);
  life->orderly = ok && close_groups(&groups);
  return NULL;
}

// Where one process has all ranks of the job, it makes the first communicators at once.
static bool init_all(struct life *lives, int count) {
  struct rank *ranks = must_calloc((size_t)count, sizeof *ranks);
  struct comm **worlds = must_calloc((size_t)count, sizeof(struct comm *));
  bool ok = true;
  for (int i = 0; ok && i < count; i++) ok = rank_open(&lives[i].rank, lives[i].options, i);
  fault_hold(INIT_HANG, NULL, false);
  for (int i = 0; i < count; i++) ranks[i] = lives[i].rank;
  ok = ok && !abort_requested() && comm_world_of_all(ranks, count, worlds);
  for (int i = 0; ok && i < count; i++) {
    lives[i].world = worlds[i];
    lives[i].world->owner = &lives[i].rank;
  }
  free(ranks);
  free(worlds);
  return ok;
}

static bool live_all(struct options *options) {
  int count = options->per_process;
  struct life *lives = must_calloc((size_t)count, sizeof *lives);
  for (int i = 0; i < count; i++) lives[i] = (struct life){.options = options, .number = i};
  bool ok = count == 1 || count < options->world_size || options->cliques || init_all(lives, count);
  for (int i = 0; ok && i < count; i++) {
    if (pthread_create(&lives[i].thread, NULL, live, &lives[i]) != 0) die(EXIT_SYSTEM, "starting the thread of a rank");
  }
  for (int i = 0; ok && i < count; i++) pthread_join(lives[i].thread, NULL);
  for (int i = 0; ok && i < count; i++) ok = lives[i].orderly;
  free(lives);
  return ok;
}

// Where a fault strikes that names no communicator: where the gradient goes, or the operations of a list.
static const char *default_comm(const struct options *o) {
  if (o->selftest) return "world";
  return o->dp > 1 ? "dp" : o->tp > 1 ? "tp" : o->pp > 1 ? "pp" : "world";
}

static int run(int argc, char **argv) {
  static struct options options;
  options_parse(&options, argc, argv);
  event_set_rank(options.first_rank);
  fault_arm(options.first_rank, options.per_process, default_comm(&options), options.rendezvous);
  fault_gpu_open(&options);
  watch_start(options.grace_ns);
  rendezvous_open(options.rendezvous, options.rendezvous_ns);
  environment_of_nccl(&options);
  nccl_load(options.library, options.layout);
  fault_start();
  bool orderly = live_all(&options);
  // Watched to the end: an abort may hang on a GPU that does.
  if (!orderly) comm_await_abort();
  watch_stop();
  return orderly ? EXIT_OK : EXIT_ABORTED;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "launch") == 0) return launch_main(argc - 1, argv + 1, argv[0]);
  return run(argc, argv);
}
