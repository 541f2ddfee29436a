// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// One rank of a job that knows nothing of us: it calls NCCL's API and waits for the others after each step, as a training
// job waits for its stream. The stand-in NCCL moves nothing, so the ranks wait by way of a file.
//
//   trainer RANK RANKS FILE STEP [CALL WHEN]
//
// Before STEP the rank stays away from NCCL, as in a data loader; 0: never. Before step WHEN all make one more communicator:
// CALL is "init", "group" (the same inside a group) or "split".

#include "fakenccl.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP_US 5000
#define POLL_US 500

#define MUST(call) \
  do { \
    if ((call) != 0) { \
      perror(#call); \
      exit(1); \
    } \
  } while (0)

static void *join(char id, int ranks, int rank) {
  struct nccl_unique_id unique;
  memset(&unique, 'z', sizeof unique);
  unique.internal[0] = id;
  void *comm = NULL;
  MUST(ncclCommInitRank(&comm, ranks, unique, rank));
  return comm;
}

// wait_for_all returns when every rank has come as far as this one.
static void wait_for_all(uint32_t *steps, int ranks, uint32_t step) {
  for (int i = 0; i < ranks; i++) {
    while (__atomic_load_n(&steps[i], __ATOMIC_ACQUIRE) < step) usleep(POLL_US);
  }
}

// grow makes one more communicator.
static void grow(const char *call, void *world, int ranks, int rank) {
  void *comm = NULL;
  if (strcmp(call, "split") == 0) {
    MUST(ncclCommSplit(world, rank % 2, rank / 2, &comm, NULL));
    return;
  }
  const bool grouped = strcmp(call, "group") == 0;
  if (grouped) MUST(ncclGroupStart());
  comm = join('l', ranks, rank);
  if (grouped) MUST(ncclGroupEnd());
}

int main(int argc, char **argv) {
  if (argc != 5 && argc != 7) return 2;
  const char *call = argc == 7 ? argv[5] : "";
  const uint32_t when = argc == 7 ? (uint32_t)atoi(argv[6]) : 0;
  const int rank = atoi(argv[1]), ranks = atoi(argv[2]);
  const uint32_t away = (uint32_t)atoi(argv[4]);
  const size_t bytes = (size_t)ranks * sizeof(uint32_t);
  const int fd = open(argv[3], O_RDWR | O_CREAT, 0600);
  if (fd < 0) return 2;
  MUST(ftruncate(fd, (off_t)bytes));
  uint32_t *steps = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (steps == MAP_FAILED) return 2;

  void *world = join('w', ranks, rank);
  void *pair = join((char)('a' + rank / 2), 2, rank % 2);  // Neighbours.
  for (uint32_t step = 1;; step++) {
    usleep(STEP_US);
    while (step == away) pause();
    if (step == when) grow(call, world, ranks, rank);
    MUST(ncclAllReduce(FAKE_IN, FAKE_OUT, 1000, NCCL_API_FLOAT32, 0, pair, FAKE_STREAM));
    MUST(ncclGroupStart());
    MUST(ncclAllGather(FAKE_IN, FAKE_OUT, 1000, NCCL_API_FLOAT32, pair, FAKE_STREAM));
    MUST(ncclGroupEnd());
    MUST(ncclAllReduce(FAKE_IN, FAKE_OUT, 4000, NCCL_API_FLOAT32, 0, world, FAKE_STREAM));
    __atomic_store_n(&steps[rank], step, __ATOMIC_RELEASE);
    wait_for_all(steps, ranks, step);
  }
}
