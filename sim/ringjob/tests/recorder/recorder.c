// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A profiler plugin that writes down every call, one line each, for the test program. It exports versions 4, 5 and 6.
//
//   RECORDER_DIR   directory of the files rank.N.log (N is RANK)
//   RECORDER_MASK  activation mask; default all that ringjob emits
//   RECORDER_FAIL  "init": init returns an error
//
// Line: sequence thread verb context handle, then fields as key=value. Handles are running numbers from 1 and carry no
// memory, so nothing can dangle.

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../../../ncclshim/profiler_abi.h"

static struct {
  pthread_mutex_t mutex;
  FILE *file;
  uint64_t sequence, contexts;
  atomic_ullong handles;
  int references;
} self = {.mutex = PTHREAD_MUTEX_INITIALIZER};

__attribute__((format(printf, 2, 3))) static void put(const char *verb, const char *format, ...) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  pthread_mutex_lock(&self.mutex);
  if (self.file) {
    fprintf(self.file, "%llu thread=%s/%ld ns=%lld verb=%s ", (unsigned long long)++self.sequence, name, syscall(SYS_gettid),
            (long long)t.tv_sec * 1000000000ll + t.tv_nsec, verb);
    va_list args;
    va_start(args, format);
    vfprintf(self.file, format, args);
    va_end(args);
    fputc('\n', self.file);
    fflush(self.file);
  }
  pthread_mutex_unlock(&self.mutex);
}

static int init_common(void **context, int *mask, const char *name, uint64_t id, int nnodes, int nranks, int rank, int version) {
  pthread_mutex_lock(&self.mutex);
  if (!self.file) {
    char path[512];
    const char *dir = getenv("RECORDER_DIR"), *world_rank = getenv("RANK");
    snprintf(path, sizeof path, "%s/rank.%s.log", dir ? dir : ".", world_rank ? world_rank : "0");
    self.file = fopen(path, "a");
  }
  uint64_t number = ++self.contexts;
  self.references++;
  pthread_mutex_unlock(&self.mutex);
  const char *wanted = getenv("RECORDER_MASK");
  int all = 4095;
  if (version == 4) all = 255;
  *mask = wanted ? (int)strtol(wanted, NULL, 0) : all;
  const char *fail = getenv("RECORDER_FAIL");
  put("init", "version=%d ctx=%llu name=%s id=%llx nnodes=%d nranks=%d rank=%d", version, (unsigned long long)number,
      name ? name : "-", (unsigned long long)id, nnodes, nranks, rank);
  if (fail && strcmp(fail, "init") == 0) return CULPRIT_NCCL_SYSTEM_ERROR;
  *context = (void *)(uintptr_t)number;
  return 0;
}

static int init_v4(void **context, int *mask, const char *name, uint64_t id, int nnodes, int nranks, int rank, culprit_nccl_logger logger) {
  (void)logger;
  return init_common(context, mask, name, id, nnodes, nranks, rank, 4);
}

static int init_v5(void **context, uint64_t id, int *mask, const char *name, int nnodes, int nranks, int rank, culprit_nccl_logger logger) {
  (void)logger;
  return init_common(context, mask, name, id, nnodes, nranks, rank, 5);
}

static int init_v6(void **context, uint64_t id, int *mask, const char *name, int nnodes, int nranks, int rank, culprit_nccl_logger logger) {
  (void)logger;
  return init_common(context, mask, name, id, nnodes, nranks, rank, 6);
}

static unsigned long long begin(void **handle) {
  unsigned long long h = atomic_fetch_add(&self.handles, 1) + 1;
  *handle = (void *)(uintptr_t)h;
  return h;
}

#define HEAD "type=%s ctx=%llu handle=%llu parent=%llu rank=%d "
#define HEAD_ARGS(kind) \
  kind, (unsigned long long)(uintptr_t)context, h, (unsigned long long)(uintptr_t)d->parentObj, d->rank
#define WORD(p) ((unsigned long long)(uintptr_t)(p))

// What v4, v5 and v6 have in common.
#define START_COMMON()                                                                                                    \
  case CULPRIT_NCCL_GROUP: put("start", HEAD, HEAD_ARGS("Group")); break;                                                  \
  case CULPRIT_NCCL_PROXY_OP:                                                                                              \
    put("start", HEAD "pid=%d channel=%d peer=%d steps=%d chunk=%d send=%d", HEAD_ARGS("ProxyOp"), (int)d->proxyOp.pid,    \
        d->proxyOp.channelId, d->proxyOp.peer, d->proxyOp.nSteps, d->proxyOp.chunkSize, d->proxyOp.isSend);                \
    break;                                                                                                                 \
  case CULPRIT_NCCL_PROXY_STEP: put("start", HEAD "step=%d", HEAD_ARGS("ProxyStep"), d->proxyStep.step); break;            \
  case CULPRIT_NCCL_KERNEL_CH:                                                                                             \
    put("start", HEAD "channel=%d timer=%llu", HEAD_ARGS("KernelCh"), d->kernelCh.channelId,                               \
        (unsigned long long)d->kernelCh.pTimer);                                                                           \
    break;                                                                                                                 \
  default: put("start", HEAD, HEAD_ARGS("Other")); break

#define START_COLL(group)                                                                                                 \
  put("start", HEAD "seq=%llu func=%s count=%zu root=%d datatype=%s channels=%d algo=%s proto=%s group=%llu",              \
      HEAD_ARGS("Coll"), (unsigned long long)d->coll.seqNumber, d->coll.func, d->coll.count, d->coll.root,                 \
      d->coll.datatype, d->coll.nChannels, d->coll.algo, d->coll.proto, group)

#define START_P2P(group)                                                                                                  \
  put("start", HEAD "func=%s count=%zu peer=%d datatype=%s channels=%d group=%llu", HEAD_ARGS("P2p"), d->p2p.func,         \
      d->p2p.count, d->p2p.peer, d->p2p.datatype, d->p2p.nChannels, group)

#define START_API()                                                                                                       \
  case CULPRIT_NCCL_GROUP_API: put("start", HEAD "depth=%d", HEAD_ARGS("GroupApi"), d->groupApi.groupDepth); break;        \
  case CULPRIT_NCCL_COLL_API:                                                                                              \
    put("start", HEAD "func=%s count=%zu datatype=%s root=%d", HEAD_ARGS("CollApi"), d->collApi.func, d->collApi.count,    \
        d->collApi.datatype, d->collApi.root);                                                                             \
    break;                                                                                                                 \
  case CULPRIT_NCCL_P2P_API:                                                                                               \
    put("start", HEAD "func=%s count=%zu datatype=%s", HEAD_ARGS("P2pApi"), d->p2pApi.func, d->p2pApi.count,               \
        d->p2pApi.datatype);                                                                                               \
    break;                                                                                                                 \
  case CULPRIT_NCCL_KERNEL_LAUNCH: put("start", HEAD, HEAD_ARGS("KernelLaunch")); break

static int start_v4(void *context, void **handle, struct culprit_nccl_descr_v4 *d) {
  unsigned long long h = begin(handle);
  switch (d->type) {
    case CULPRIT_NCCL_COLL: START_COLL(0ull); break;
    case CULPRIT_NCCL_P2P: START_P2P(0ull); break;
    START_COMMON();
  }
  return 0;
}

static int start_v5(void *context, void **handle, struct culprit_nccl_descr_v5 *d) {
  unsigned long long h = begin(handle);
  switch (d->type) {
    case CULPRIT_NCCL_COLL: START_COLL(WORD(d->coll.parentGroup)); break;
    case CULPRIT_NCCL_P2P: START_P2P(WORD(d->p2p.parentGroup)); break;
    START_API();
    START_COMMON();
  }
  return 0;
}

static int start_v6(void *context, void **handle, struct culprit_nccl_descr_v6 *d) {
  unsigned long long h = begin(handle);
  switch (d->type) {
    case CULPRIT_NCCL_COLL: START_COLL(WORD(d->coll.parentGroup)); break;
    case CULPRIT_NCCL_P2P: START_P2P(WORD(d->p2p.parentGroup)); break;
    START_API();
    START_COMMON();
  }
  return 0;
}

static int stop(void *handle) {
  put("stop", "handle=%llu", WORD(handle));
  return 0;
}

static int record(void *handle, int state, union culprit_nccl_state_args *args) {
  put("record", "handle=%llu state=%d arg=%llu", WORD(handle), state,
      args ? (unsigned long long)args->kernelCh.pTimer : 0ull);
  return 0;
}

static int finalize(void *context) {
  put("finalize", "ctx=%llu", WORD(context));
  pthread_mutex_lock(&self.mutex);
  if (--self.references == 0 && self.file) {
    fclose(self.file);
    self.file = NULL;
  }
  pthread_mutex_unlock(&self.mutex);
  return 0;
}

// Unloading must show: the last line.
__attribute__((destructor)) static void unloaded(void) {
  const char *dir = getenv("RECORDER_DIR"), *rank = getenv("RANK");
  if (!dir || !rank) return;
  char path[512];
  snprintf(path, sizeof path, "%s/rank.%s.log", dir, rank);
  FILE *f = fopen(path, "a");
  if (!f) return;
  fprintf(f, "0 thread=-/0 ns=0 verb=unload\n");
  fclose(f);
}

extern const struct culprit_nccl_profiler_v4 ncclProfiler_v4;
extern const struct culprit_nccl_profiler_v5 ncclProfiler_v5;
extern const struct culprit_nccl_profiler_v6 ncclProfiler_v6;
const struct culprit_nccl_profiler_v4 ncclProfiler_v4 = {"recorder", init_v4, start_v4, stop, record, finalize};
const struct culprit_nccl_profiler_v5 ncclProfiler_v5 = {"recorder", init_v5, start_v5, stop, record, finalize};
const struct culprit_nccl_profiler_v6 ncclProfiler_v6 = {"recorder", init_v6, start_v6, stop, record, finalize};
