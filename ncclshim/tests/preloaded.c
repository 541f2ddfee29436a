// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A program that uses NCCL and verbs, run by test_preload with our libraries in LD_PRELOAD. It does not know of them.
// The first argument says what it does, the second is its rank. It fails when NCCL's answers are not what they must be.

#include "../verbs/verbs_abi.h"
#include "fakenccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NRANKS 4
#define FLOAT32 NCCL_API_FLOAT32

static int rank;

#define MUST(call, want) \
  do { \
    const int got_ = (call); \
    if (got_ != (want)) { \
      fprintf(stderr, "line %d: %s gave %d\n", __LINE__, #call, got_); \
      exit(1); \
    } \
  } while (0)

static struct nccl_unique_id id_of(char first) {
  struct nccl_unique_id id;
  memset(&id, 'z', sizeof id);
  id.internal[0] = first;
  return id;
}

static void *make(char id, int want) {
  void *comm = NULL;
  MUST(ncclCommInitRank(&comm, NRANKS, id_of(id), rank), want);
  return comm;
}

static int all_reduce(void *comm, size_t count) {
  return ncclAllReduce(FAKE_IN, FAKE_OUT, count, FLOAT32, 0, comm, FAKE_STREAM);
}

// every calls each operation once.
static void every(void) {
  void *c = make('a', 0);
  MUST(all_reduce(c, 100), 0);
  MUST(ncclReduce(FAKE_IN, FAKE_OUT, 10, FLOAT32, 0, 3, c, FAKE_STREAM), 0);
  MUST(ncclBroadcast(FAKE_IN, FAKE_OUT, 11, NCCL_API_FLOAT16, 2, c, FAKE_STREAM), 0);
  MUST(ncclBcast(FAKE_OUT, 12, FLOAT32, 1, c, FAKE_STREAM), 0);
  MUST(ncclReduceScatter(FAKE_IN, FAKE_OUT, 13, FLOAT32, 0, c, FAKE_STREAM), 0);
  MUST(ncclAllGather(FAKE_IN, FAKE_OUT, 14, FLOAT32, c, FAKE_STREAM), 0);
  MUST(ncclAlltoAll(FAKE_IN, FAKE_OUT, 15, FLOAT32, c, FAKE_STREAM), 0);
  MUST(ncclGather(FAKE_IN, FAKE_OUT, 16, FLOAT32, 1, c, FAKE_STREAM), 0);
  MUST(ncclScatter(FAKE_IN, FAKE_OUT, 17, FLOAT32, 0, c, FAKE_STREAM), 0);
  MUST(ncclSend(FAKE_IN, 18, NCCL_API_INT8, 2, c, FAKE_STREAM), 0);
  MUST(ncclRecv(FAKE_OUT, 19, FLOAT32, 3, c, FAKE_STREAM), 0);
  MUST(all_reduce(c, 1), 0);
  MUST(all_reduce(c, 666), NCCL_API_INVALID_ARGUMENT);
  MUST(all_reduce(NULL, 1), NCCL_API_INVALID_ARGUMENT);
  MUST(ncclCommDestroy(c), 0);
  MUST(ncclCommDestroy(NULL), NCCL_API_INVALID_ARGUMENT);
}

// group has operations in nested groups; FAKENCCL_DIE can end it anywhere.
static void group(void) {
  void *c = make('a', 0);
  MUST(all_reduce(c, 5), 0);
  MUST(ncclGroupStart(), 0);
  for (int peer = 0; peer < 3; peer++) {
    MUST(ncclGroupStart(), 0);
    MUST(ncclSend(FAKE_IN, 8, FLOAT32, peer, c, FAKE_STREAM), 0);
    MUST(ncclGroupEnd(), 0);
    MUST(ncclRecv(FAKE_OUT, 8, FLOAT32, peer, c, FAKE_STREAM), 0);
  }
  MUST(ncclGroupEnd(), 0);
}

// big_group has more operations in a group than are kept open for long: all to all over 300 ranks.
static void big_group(void) {
  void *c = NULL;
  MUST(ncclCommInitRank(&c, 300, id_of('a'), rank), 0);
  for (int round = 0; round < 2; round++) {
    MUST(ncclGroupStart(), 0);
    for (int peer = 0; peer < 300; peer++) {
      MUST(ncclSend(FAKE_IN, 8, NCCL_API_INT8, peer, c, FAKE_STREAM), 0);
      MUST(ncclRecv(FAKE_OUT, 8, NCCL_API_INT8, peer, c, FAKE_STREAM), 0);
    }
    MUST(ncclGroupEnd(), 0);
  }
}

// group_of_calls makes two communicators in a group.
static void group_of_calls(void) {
  void *world = make('a', 0), *some = NULL, *part = NULL;
  MUST(ncclGroupStart(), 0);
  MUST(ncclCommInitRank(&some, 3, id_of('b'), rank), 0);
  MUST(ncclCommSplit(world, rank, 0, &part, NULL), 0);
  MUST(ncclGroupEnd(), 0);
}

static void simulate(void) {
  void *c = make('a', 0);
  MUST(ncclGroupStart(), 0);
  MUST(all_reduce(c, 5), 0);
  MUST(ncclGroupSimulateEnd(NULL), 0);
  MUST(all_reduce(c, 6), 0);
}

// family makes children in orders that differ between ranks where NCCL lets them.
static void family(void) {
  void *world = make('a', 0), *half = NULL, *quarter = NULL, *few = NULL, *again = NULL;
  MUST(ncclCommSplit(world, rank % 2, rank / 2, &half, NULL), 0);
  if (rank != 3) {  // Rank 3 is left out, and calls nothing.
    MUST(ncclCommShrink(world, &(int){3}, 1, &few, NULL, 0), 0);
    MUST(all_reduce(few, 1), 0);
  }
  MUST(ncclCommSplit(world, rank == 0 ? -1 : 7, rank, &quarter, NULL), 0);
  if (rank != 1) MUST(ncclCommShrink(world, &(int){1}, 1, &again, NULL, 0), 0);
  MUST(ncclCommSplit(half, 0, rank, &quarter, NULL), 0);
  MUST(all_reduce(half, 1), 0);
  MUST(all_reduce(quarter, 1), 0);
  MUST(ncclCommAbort(few), 0);
}

static void in_process(void) {
  void *comms[3], *inside[2] = {NULL, NULL};
  MUST(ncclCommInitAll(comms, 3, NULL), 0);
  MUST(ncclGroupStart(), 0);
  for (int i = 0; i < 2; i++) MUST(ncclCommInitRank(&inside[i], 2, id_of('g'), i), 0);
  MUST(ncclGroupEnd(), 0);
  MUST(all_reduce(comms[1], 1), 0);
  MUST(all_reduce(inside[1], 1), 0);
}

static void nonblocking(void) {
  void *c = make('a', NCCL_API_IN_PROGRESS), *child = NULL;
  int state = NCCL_API_IN_PROGRESS;
  MUST(ncclCommSplit(c, 0, 1, &child, NULL), NCCL_API_IN_PROGRESS);
  MUST(ncclCommGetAsyncError(c, &state), 0);
  MUST(all_reduce(c, 1), 0);
  MUST(all_reduce(child, 2), 0);
}

#define THREADS 4
#define OPERATIONS 5000

static void *work(void *argument) {
  for (int round = 0; round < 3; round++) {
    void *c = make(*(const char *)argument, 0);
    for (int i = 0; i < OPERATIONS; i++) MUST(all_reduce(c, 3), 0);
    if (round < 2) MUST(ncclCommDestroy(c), 0);
  }
  return NULL;
}

static void threads(void) {
  static char ids[THREADS] = {'a', 'b', 'c', 'd'};
  pthread_t t[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, &ids[i]);
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

static void forked(void) {
  void *c = make('a', 0);
  MUST(all_reduce(c, 1), 0);
  const pid_t child = fork();
  if (child == 0) {
    MUST(all_reduce(c, 2), 0);
    void *mine = make('b', 0);
    MUST(all_reduce(mine, 2), 0);
    MUST(ncclGroupStart(), 0);
    MUST(all_reduce(mine, 2), 0);
    MUST(ncclGroupEnd(), 0);
    MUST(ncclCommAbort(c), 0);
    exit(0);
  }
  int status = 1;
  MUST(waitpid(child, &status, 0), child);
  MUST(status, 0);
  MUST(all_reduce(c, 3), 0);
}

static void old(void) {
  void *c = make('a', 0), *child = NULL;
  MUST(ncclAlltoAll(FAKE_IN, FAKE_OUT, 15, FLOAT32, c, FAKE_STREAM), NCCL_API_INVALID_USAGE);
  MUST(ncclCommSplit(c, 0, 0, &child, NULL), NCCL_API_INVALID_USAGE);
  MUST(all_reduce(c, 1), 0);
}

static void report_origin(void *library, const char *name) {
  Dl_info where;
  void *found = dlvsym(library, name, VERBS_VERSION);
  if (found == NULL || dladdr(found, &where) == 0) exit(1);
  const char *base = strrchr(where.dli_fname, '/');
  printf("%s %s\n", name, base == NULL ? where.dli_fname : base + 1);
}

// verbs looks functions up as NCCL before 2.30.3 does.
static void verbs(void) {
  void *library = dlopen("libibverbs.so", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  report_origin(library, "ibv_create_qp");
  report_origin(library, "ibv_open_device");
  report_origin(RTLD_DEFAULT, "ibv_modify_qp");  // What an NCCL that is linked with libibverbs calls.
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } deeds[] = {{"every", every},           {"group", group},     {"big_group", big_group}, {"simulate", simulate},
               {"family", family},         {"threads", threads}, {"in_process", in_process}, {"forked", forked},
               {"nonblocking", nonblocking}, {"old", old},         {"verbs", verbs},         {"group_of_calls", group_of_calls}};
  if (argc > 2) rank = atoi(argv[2]);
  for (size_t i = 0; argc > 1 && i < sizeof deeds / sizeof deeds[0]; i++) {
    if (strcmp(argv[1], deeds[i].name) != 0) continue;
    deeds[i].run();
    return 0;
  }
  return 2;
}
