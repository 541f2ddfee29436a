// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "calls.h"

#include "find.h"

#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

#define MADE 32u  // Communicators that one group of calls can make.

struct made {
  void *const *comm;  // Where NCCL puts it.
  uint64_t id;
  int nranks, rank;
};

// In the threads' fixed part, so that using it allocates nothing.
static __thread __attribute__((tls_model("initial-exec"))) struct {
  unsigned inside;  // Hooked calls.
  unsigned depth;   // ncclGroupStart without its end.
  uint64_t group;   // Of the plugin, for the operations since the outermost start.
  unsigned made;
  struct made list[MADE];
  unsigned waiting;  // Calls that block at the end of the group only.
  struct {
    uint64_t id;
    int nranks;
    const void *comm;
  } wait[MADE];
} thread;

// Children of communicators that do not block, until their parent is asked for its state.
static struct {
  pthread_mutex_t lock;
  unsigned count;
  struct made list[MADE];
  const void *parents[MADE];
} awaited = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool accepted(int result) { return result == NCCL_API_SUCCESS || result == NCCL_API_IN_PROGRESS; }

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}

bool calls_nested(void) { return thread.inside != 0; }

void calls_operation(const struct culprit_api_call *call) {
  thread.inside++;
  thread.group = culprit_hooks.group_call(thread.group, call);
}

void calls_operation_done(int result) {
  thread.inside--;
  if (thread.depth != 0) return;
  culprit_hooks.group_end(thread.group, accepted(result));
  thread.group = 0;
}

void calls_group_start(int result) {
  if (result == NCCL_API_SUCCESS) thread.depth++;
}

static const char group_end[] = "ncclGroupEnd";

void calls_group_end(void) {
  thread.inside++;
  if (thread.depth != 1) return;
  culprit_hooks.group_ending(thread.group);
  for (unsigned i = 0; i < thread.waiting; i++) {
    culprit_hooks.call_begin(group_end, thread.wait[i].id, thread.wait[i].nranks, thread.wait[i].comm);
  }
}

// ask has NCCL tell a number of a communicator that is ready; -1 where it does not.
static int ask(void **cache, const char *profiled, const char *name, const void *comm) {
  int (*get)(const void *, int *);
  int value = -1;
  *(void **)&get = find(cache, profiled, name);
  return get != NULL && get(comm, &value) == NCCL_API_SUCCESS ? value : -1;
}

static void made(const struct made *m, bool ready) {
  static void *caches[3];
  const void *comm = *m->comm;
  int nranks = m->nranks, rank = m->rank, device = -1;
  if (comm == NULL) return;  // Left out of a split, or not ready yet.
  if (nranks < 0 && ready) {
    nranks = ask(&caches[0], "pncclCommCount", "ncclCommCount", comm);
    rank = ask(&caches[1], "pncclCommUserRank", "ncclCommUserRank", comm);
  }
  if (ready) device = ask(&caches[2], "pncclCommCuDevice", "ncclCommCuDevice", comm);
  culprit_hooks.comm_made(comm, nranks < 0 ? 0 : m->id, nranks, rank, device, ready);
}

void calls_group_ended(int result, bool launched) {
  thread.inside--;
  if (thread.depth == 0 || --thread.depth != 0) return;
  culprit_hooks.group_end(thread.group, launched && accepted(result));
  thread.group = 0;
  for (unsigned i = 0; i < thread.waiting; i++) culprit_hooks.call_end(group_end, thread.wait[i].id, result);
  thread.waiting = 0;
  for (unsigned i = 0; i < thread.made && launched && accepted(result); i++) {
    made(&thread.list[i], result == NCCL_API_SUCCESS);
  }
  thread.made = 0;
}

void calls_blocking(const char *what, uint64_t id, int nranks, const void *comm) {
  thread.inside++;
  if (thread.depth == 0) {
    culprit_hooks.call_begin(what, id, nranks, comm);
    return;
  }
  if (thread.waiting == MADE) return;
  thread.wait[thread.waiting].id = id;
  thread.wait[thread.waiting].nranks = nranks;
  thread.wait[thread.waiting++].comm = comm;
}

void calls_blocking_done(const char *what, uint64_t id, int result) {
  thread.inside--;
  if (thread.depth == 0) culprit_hooks.call_end(what, id, result);
}

void calls_made(void *const *comm, uint64_t id, int nranks, int rank, int result) {
  if (comm == NULL || !accepted(result)) return;
  const struct made m = {.comm = comm, .id = id, .nranks = nranks, .rank = rank};
  if (thread.depth == 0) {
    made(&m, result == NCCL_API_SUCCESS);
  } else if (thread.made < MADE) {
    thread.list[thread.made++] = m;
  }
}

void calls_made_here(void *const *comms, int count, int result) {
  static uint64_t serial;
  if (comms == NULL || !accepted(result)) return;
  const uint64_t id = mix(mix((uint64_t)getpid(), __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED)), (uintptr_t)&serial);
  for (int i = 0; i < count; i++) calls_made(&comms[i], id, count, i, result);
}

void calls_split(const void *parent, void *const *child, uint64_t id, int result) {
  if (result != NCCL_API_IN_PROGRESS || thread.depth != 0 || child == NULL || id == 0) {
    calls_made(child, id, -1, -1, result);
    return;
  }
  pthread_mutex_lock(&awaited.lock);
  for (unsigned i = 0; i < MADE; i++) {
    if (awaited.list[i].comm != NULL) continue;
    awaited.list[i] = (struct made){.comm = child, .id = id, .nranks = -1, .rank = -1};
    awaited.parents[i] = parent;
    __atomic_fetch_add(&awaited.count, 1, __ATOMIC_RELAXED);
    break;
  }
  pthread_mutex_unlock(&awaited.lock);
}

void calls_state(const void *parent, int state) {
  if (state == NCCL_API_IN_PROGRESS || __atomic_load_n(&awaited.count, __ATOMIC_RELAXED) == 0) return;
  pthread_mutex_lock(&awaited.lock);
  for (unsigned i = 0; i < MADE; i++) {
    if (awaited.list[i].comm == NULL || awaited.parents[i] != parent) continue;
    const struct made m = awaited.list[i];
    awaited.list[i].comm = NULL;
    __atomic_fetch_sub(&awaited.count, 1, __ATOMIC_RELAXED);
    if (state == NCCL_API_SUCCESS) made(&m, true);
  }
  pthread_mutex_unlock(&awaited.lock);
}

uint64_t calls_child(const void *parent, const int *excluded, int count, bool shrink) {
  static const int nobody;
  return culprit_hooks.comm_child(parent, shrink && excluded == NULL ? &nobody : excluded, excluded == NULL ? 0 : count);
}

uint64_t calls_color(uint64_t split, int color) { return split == 0 ? 0 : mix(split, (uint32_t)color); }

uint64_t calls_id(const struct nccl_unique_id *ids, int count) {
  uint64_t h = 0xcbf29ce484222325u;
  for (int i = 0; i < count; i++) {
    for (size_t b = 0; b < sizeof ids[i].internal; b++) h = (h ^ (unsigned char)ids[i].internal[b]) * 0x100000001b3u;
  }
  return h != 0 ? h : 1;
}

const char *calls_datatype(int datatype) {
  static const char *const names[NCCL_API_DATATYPES] = {
      "ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",   "ncclInt64",      "ncclUint64",
      "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  return datatype >= 0 && datatype < NCCL_API_DATATYPES ? names[datatype] : NULL;
}
