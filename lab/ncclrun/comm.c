// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "event.h"
#include "fault.h"

// How long a thread sleeps between looks at an event: the longer it has waited, the longer.
#define LOOK_LEAST_NS (20 * 1000ull)
#define LOOK_MOST_NS (2 * NS_PER_MS)

static struct {
  pthread_mutex_t lock;
  pthread_cond_t aborted;
  struct comm *all;
  int aborting;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .aborted = PTHREAD_COND_INITIALIZER};

bool rank_open(struct rank *r, const struct options *options, int number) {
  *r = (struct rank){.options = options, .rank = options->first_rank + number, .device = number};
  return cuda_ok(cudaSetDevice(number), "cudaSetDevice") && cuda_ok(cudaStreamCreate(&r->compute), "cudaStreamCreate");
}

static struct comm *comm_new(const struct rank *owner, nccl_comm handle, const char *name, int nranks, int rank) {
  struct comm *c = must_calloc(1, sizeof *c);
  *c = (struct comm){.owner = owner, .handle = handle, .nranks = nranks, .rank = rank};
  snprintf(c->name, sizeof c->name, "%s", name);
  if (!cuda_ok(cudaStreamCreate(&c->stream), "cudaStreamCreate") || !cuda_ok(cudaEventCreate(&c->before), "cudaEventCreate") ||
      !cuda_ok(cudaEventCreate(&c->after), "cudaEventCreate")) {
    return NULL;
  }
  pthread_mutex_lock(&self.lock);
  c->next = self.all;
  self.all = c;
  pthread_mutex_unlock(&self.lock);
  return c;
}

struct comm *comm_world(const struct rank *rank, const struct nccl_id *id) {
  nccl_comm handle = NULL;
  fault_hold(INIT_HANG, NULL, false);
  if (abort_requested()) return NULL;
  int n = rank->options->world_size;
  if (!nccl_ok(nccl.CommInitRank(&handle, n, *id, rank->rank), "ncclCommInitRank")) return NULL;
  return comm_new(rank, handle, "world", n, rank->rank);
}

bool comm_world_of_all(const struct rank *ranks, int count, struct comm **worlds) {
  nccl_comm *handles = must_calloc((size_t)count, sizeof *handles);
  bool ok = nccl_ok(nccl.CommInitAll(handles, count, NULL), "ncclCommInitAll");
  for (int i = 0; ok && i < count; i++) {
    ok = cuda_ok(cudaSetDevice(i), "cudaSetDevice");
    worlds[i] = ok ? comm_new(&ranks[i], handles[i], "world", count, i) : NULL;
    ok = worlds[i] != NULL;
  }
  free(handles);
  return ok;
}

bool comm_split(struct comm *parent, int color, int key, const char *name, int nranks, int rank, struct comm **child) {
  nccl_comm handle = NULL;
  *child = NULL;
  fault_hold(SPLIT_HANG, name, false);
  if (abort_requested()) return false;
  if (!nccl_ok(nccl.CommSplit(parent->handle, color, key, &handle, NULL), "ncclCommSplit")) return false;
  if (color == NCCL_SPLIT_NOCOLOR) return true;
  *child = comm_new(parent->owner, handle, name, nranks, rank);
  return *child != NULL;
}

bool comm_shrink(struct comm *parent, const char *name, struct comm **child) {
  nccl_comm handle = NULL;
  int last = parent->nranks - 1;
  fault_hold(SPLIT_HANG, name, false);
  if (abort_requested()) return false;
  if (!nccl.CommShrink) die(EXIT_USAGE, "--shrink: this release of NCCL has no ncclCommShrink");
  if (!nccl_ok(nccl.CommShrink(parent->handle, &last, 1, &handle, NULL, 0), "ncclCommShrink")) return false;
  *child = comm_new(parent->owner, handle, name, last, parent->rank);
  return *child != NULL;
}

bool comm_clique(const struct rank *rank, const struct nccl_id *id, const char *name, int nranks, int member, struct comm **comm) {
  nccl_comm handle = NULL;
  fault_hold(SPLIT_HANG, name, false);
  if (abort_requested() || !nccl_ok(nccl.CommInitRankConfig(&handle, nranks, *id, member, NULL), "ncclCommInitRankConfig")) return false;
  *comm = comm_new(rank, handle, name, nranks, member);
  return *comm != NULL;
}

static void forget(struct comm *comm) {
  pthread_mutex_lock(&self.lock);
  for (struct comm **at = &self.all; *at; at = &(*at)->next) {
    if (*at != comm) continue;
    *at = comm->next;
    break;
  }
  pthread_mutex_unlock(&self.lock);
}

bool comm_destroy(struct comm *comm) {
  if (!comm) return true;
  if (!gpu_sync(comm->stream) || !nccl_ok(nccl.CommFinalize(comm->handle), "ncclCommFinalize")) return false;
  forget(comm);
  if (!nccl_ok(nccl.CommDestroy(comm->handle), "ncclCommDestroy")) return false;
  cudaEventDestroy(comm->before);
  cudaEventDestroy(comm->after);
  cudaStreamDestroy(comm->stream);
  free(comm);
  return true;
}

static void *abort_one(void *arg) {
  struct comm *comm = arg;
  cudaSetDevice(comm->owner->device);
  nccl.CommAbort(comm->handle);
  pthread_mutex_lock(&self.lock);
  self.aborting--;
  pthread_cond_broadcast(&self.aborted);
  pthread_mutex_unlock(&self.lock);
  return NULL;
}

void comm_abort_all(void) {
  pthread_mutex_lock(&self.lock);
  for (struct comm *c = self.all; c; c = c->next) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, abort_one, c) != 0) continue;
    pthread_detach(thread);
    self.aborting++;
  }
  pthread_mutex_unlock(&self.lock);
}

void comm_await_abort(void) {
  pthread_mutex_lock(&self.lock);
  while (self.aborting > 0) pthread_cond_wait(&self.aborted, &self.lock);
  pthread_mutex_unlock(&self.lock);
}

static bool order(cudaStream first, cudaEvent event, cudaStream then) {
  return cuda_ok(cudaEventRecord(event, first), "cudaEventRecord") &&
         cuda_ok(cudaStreamWaitEvent(then, event, 0), "cudaStreamWaitEvent");
}

bool comm_enter(struct comm *c) { return order(c->owner->compute, c->before, c->stream); }

bool comm_join(struct comm *c) { return order(c->stream, c->after, c->owner->compute); }

// Not cudaEventSynchronize: on a GPU that hangs it does not return.
bool gpu_await(cudaEvent event) {
  int result;
  for (uint64_t wait = LOOK_LEAST_NS; (result = cudaEventQuery(event)) == CUDA_NOT_READY; sleep_ns(wait)) {
    if (abort_requested()) return false;
    if (wait < LOOK_MOST_NS) wait += wait / 4;
  }
  return cuda_ok(result, "cudaEventQuery");
}

bool gpu_sync(cudaStream stream) {
  cudaEvent event;
  if (!cuda_ok(cudaEventCreate(&event), "cudaEventCreate")) return false;
  bool ok = cuda_ok(cudaEventRecord(event, stream), "cudaEventRecord") && gpu_await(event);
  cudaEventDestroy(event);
  return ok;
}
