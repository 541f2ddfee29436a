// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for libnccl.so.2: every function has the two names that NCCL's have, and calls public names where NCCL does.
// Built with OLD it has none of the functions that came with NCCL 2.18 and later. The environment sets:
//   FAKENCCL_PLUGIN       a profiler plugin that the first communicator loads, by its version FAKENCCL_ABI (default 6)
//   FAKENCCL_DIE          a function in which the process is killed
//   FAKENCCL_NONBLOCKING  functions return before they are done
//   FAKENCCL_MEET         a directory: who makes a communicator comes back when all its ranks have come, as with NCCL

#include "../preload/nccl_api.h"
#include "../profiler_abi.h"
#include "fakenccl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DECLARE(name, parameters) \
  EXPORT int pnccl##name parameters; \
  EXPORT __attribute__((weak, alias("pnccl" #name))) int nccl##name parameters; \
  EXPORT int pnccl##name parameters

#define BAD_COUNT 666u  // Operations of so many elements are refused.

static __thread int depth;
static __thread struct comm *grouped;  // To be met for at the end of the group: one is enough here.

#define NAME 64u
#define MEET_US 500

struct comm {
  int nranks, rank, device;
  char name[NAME];  // The same on all ranks.
  int splits;
  void **child;  // To be handed over when this communicator is asked for its state.
  void *ready;
};

static void maybe_die(const char *where) {
  const char *die = getenv("FAKENCCL_DIE");
  if (die != NULL && strcmp(die, where) == 0) raise(SIGKILL);
}

// meet returns when all ranks have come to what has that name.
static void meet(const char *name, int nranks, int rank) {
  const char *directory = getenv("FAKENCCL_MEET");
  if (directory == NULL) return;
  char path[512];
  snprintf(path, sizeof path, "%s/%s.%d", directory, name, rank);
  const int fd = open(path, O_WRONLY | O_CREAT, 0600);
  if (fd < 0) abort();
  close(fd);
  for (int i = 0; i < nranks; i++) {
    snprintf(path, sizeof path, "%s/%s.%d", directory, name, i);
    while (access(path, F_OK) != 0) usleep(MEET_US);
  }
}

static int finished(void) { return getenv("FAKENCCL_NONBLOCKING") != NULL ? NCCL_API_IN_PROGRESS : NCCL_API_SUCCESS; }

static void report(int nranks, int rank) {
  const char *path = getenv("FAKENCCL_PLUGIN");
  if (path == NULL) return;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *context = NULL;
  int mask = 0;
  if (getenv("FAKENCCL_ABI") != NULL && strcmp(getenv("FAKENCCL_ABI"), "4") == 0) {
    const struct culprit_nccl_profiler_v4 *p = library == NULL ? NULL : dlsym(library, CULPRIT_NCCL_SYMBOL_V4);
    if (p != NULL) p->init(&context, &mask, NULL, 99, 1, nranks, rank, NULL);
    return;
  }
  const struct culprit_nccl_profiler_v6 *p = library == NULL ? NULL : dlsym(library, CULPRIT_NCCL_SYMBOL_V6);
  if (p != NULL) p->init(&context, 99, &mask, NULL, 1, nranks, rank, NULL);
}

static struct comm *make(int nranks, int rank) {
  struct comm *c = calloc(1, sizeof *c);
  if (c == NULL) abort();
  c->nranks = nranks;
  c->rank = rank;
  report(nranks, rank);
  return c;
}

DECLARE(CommInitRank, (void **comm, int nranks, struct nccl_unique_id id, int rank)) {
  maybe_die("CommInitRank");
  if (id.internal[127] != 'z') return NCCL_API_INVALID_ARGUMENT;  // Says that the id arrives whole.
  struct comm *c = make(nranks, rank);
  snprintf(c->name, sizeof c->name, "%c", id.internal[0]);
  if (depth == 0) {
    meet(c->name, nranks, rank);
  } else {
    grouped = c;
  }
  *comm = c;
  return finished();
}

DECLARE(CommInitAll, (void **comms, int devices, const int *list)) {
  for (int i = 0; i < devices; i++) {
    struct comm *c = make(devices, i);
    c->device = list != NULL ? list[i] : i;
    comms[i] = c;
  }
  return NCCL_API_SUCCESS;
}

DECLARE(CommCount, (const void *comm, int *count)) {
  *count = ((const struct comm *)comm)->nranks;
  return NCCL_API_SUCCESS;
}

DECLARE(CommUserRank, (const void *comm, int *rank)) {
  *rank = ((const struct comm *)comm)->rank;
  return NCCL_API_SUCCESS;
}

DECLARE(CommCuDevice, (const void *comm, int *device)) {
  *device = ((const struct comm *)comm)->device;
  return NCCL_API_SUCCESS;
}

DECLARE(CommGetAsyncError, (void *comm, int *state)) {
  struct comm *c = comm;
  if (c->child != NULL) *c->child = c->ready;
  c->child = NULL;
  *state = NCCL_API_SUCCESS;
  return NCCL_API_SUCCESS;
}

DECLARE(CommDestroy, (void *comm)) {
  maybe_die("CommDestroy");
  free(comm);
  return comm == NULL ? NCCL_API_INVALID_ARGUMENT : NCCL_API_SUCCESS;
}

DECLARE(CommAbort, (void *comm)) {
  free(comm);
  return NCCL_API_SUCCESS;
}


DECLARE(GroupStart, (void)) {
  depth++;
  return NCCL_API_SUCCESS;
}

DECLARE(GroupEnd, (void)) {
  if (--depth == 0) {  // Only the outermost does something.
    maybe_die("GroupEnd");
    if (grouped != NULL) meet(grouped->name, grouped->nranks, grouped->rank);
    grouped = NULL;
  }
  return finished();
}

static int operation(size_t count) {
  maybe_die("operation");
  return count == BAD_COUNT ? NCCL_API_INVALID_ARGUMENT : NCCL_API_SUCCESS;
}

DECLARE(AllReduce, (const void *in, void *out, size_t count, int type, int op, void *comm, void *stream)) {
  // Arguments that are pairwise different show that they arrive in their places.
  return in == FAKE_IN && out == FAKE_OUT && type != op && comm != NULL && stream == FAKE_STREAM ? operation(count)
                                                                                                  : NCCL_API_INVALID_ARGUMENT;
}

DECLARE(Reduce, (const void *in, void *out, size_t count, int type, int op, int root, void *comm, void *stream)) {
  return in == FAKE_IN && out == FAKE_OUT && type != op && root != op && comm != NULL && stream == FAKE_STREAM
             ? operation(count)
             : NCCL_API_INVALID_ARGUMENT;
}

DECLARE(Broadcast, (const void *in, void *out, size_t count, int type, int root, void *comm, void *stream)) {
  return in != NULL && out == FAKE_OUT && type != root && comm != NULL && stream == FAKE_STREAM ? operation(count)
                                                                                                 : NCCL_API_INVALID_ARGUMENT;
}

DECLARE(Bcast, (void *data, size_t count, int type, int root, void *comm, void *stream)) {
  return ncclBroadcast(data, data, count, type, root, comm, stream);
}

DECLARE(ReduceScatter, (const void *in, void *out, size_t count, int type, int op, void *comm, void *stream)) {
  return ncclAllReduce(in, out, count, type, op, comm, stream);
}

DECLARE(AllGather, (const void *in, void *out, size_t count, int type, void *comm, void *stream)) {
  return ncclBroadcast(in, out, count, type, -1, comm, stream);
}

// sendable wants types that are no peers of the tests.
static int sendable(int type, int peer) { return (type == NCCL_API_INT8 || type == NCCL_API_FLOAT32) && peer >= 0; }

DECLARE(Send, (const void *in, size_t count, int type, int peer, void *comm, void *stream)) {
  return in == FAKE_IN && sendable(type, peer) && comm != NULL && stream == FAKE_STREAM ? operation(count)
                                                                                       : NCCL_API_INVALID_ARGUMENT;
}

DECLARE(Recv, (void *out, size_t count, int type, int peer, void *comm, void *stream)) {
  return out == FAKE_OUT && sendable(type, peer) && comm != NULL && stream == FAKE_STREAM ? operation(count)
                                                                                   : NCCL_API_INVALID_ARGUMENT;
}

#ifndef OLD
DECLARE(CommSplit, (void *comm, int color, int key, void **child, void *config)) {
  struct comm *c = comm;
  (void)config;
  *child = NULL;
  char name[NAME];
  snprintf(name, sizeof name, "%.20s-%d", c->name, c->splits++);
  meet(name, c->nranks, c->rank);
  struct comm *made = color < 0 ? NULL : make(c->nranks / 2, key);
  if (made != NULL) snprintf(made->name, sizeof made->name, "%.40s-%d", name, color);
  if (finished() == NCCL_API_SUCCESS) {
    *child = made;
  } else {
    c->child = child;
    c->ready = made;
  }
  return finished();
}

DECLARE(CommShrink, (void *comm, int *excluded, int count, void **child, void *config, int flags)) {
  const struct comm *c = comm;
  (void)config, (void)flags;
  int rank = c->rank;
  for (int i = 0; i < count; i++) rank -= excluded[i] < c->rank;
  *child = make(c->nranks - count, rank);
  return NCCL_API_SUCCESS;
}

DECLARE(GroupSimulateEnd, (void *info)) {
  (void)info;
  depth--;
  return NCCL_API_SUCCESS;
}

DECLARE(AlltoAll, (const void *in, void *out, size_t count, int type, void *comm, void *stream)) {
  return ncclBroadcast(in, out, count, type, -1, comm, stream);
}

DECLARE(Gather, (const void *in, void *out, size_t count, int type, int root, void *comm, void *stream)) {
  return ncclBroadcast(in, out, count, type, root, comm, stream);
}

DECLARE(Scatter, (const void *in, void *out, size_t count, int type, int root, void *comm, void *stream)) {
  return ncclBroadcast(in, out, count, type, root, comm, stream);
}
#endif
