// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The part of NCCL's public API that the program calls, found at run time in the global scope, so that a library that was
// preloaded before NCCL sees every call. Signatures and values are those of NCCL's public documentation.

#ifndef NCCLRUN_NCCL_H
#define NCCLRUN_NCCL_H

#include <stdbool.h>
#include <stddef.h>

#include "../fakegpu/fakegpu.h"

typedef struct nccl_comm *nccl_comm;

// ncclUniqueId.
struct nccl_id {
  char bytes[128];
};

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_FLOAT32 = 7 };
enum nccl_redop { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG };
enum { NCCL_SPLIT_NOCOLOR = -1 };

struct nccl_api {
  int (*GetVersion)(int *version);
  const char *(*GetErrorString)(int result);
  int (*GetUniqueId)(struct nccl_id *id);
  int (*CommInitRank)(nccl_comm *comm, int nranks, struct nccl_id id, int rank);
  int (*CommInitRankConfig)(nccl_comm *comm, int nranks, struct nccl_id id, int rank, void *config);
  int (*CommInitAll)(nccl_comm *comms, int ndev, const int *devices);
  int (*CommSplit)(nccl_comm comm, int color, int key, nccl_comm *child, void *config);
  // From 2.27 on; else NULL.
  int (*CommShrink)(nccl_comm comm, int *excluded, int count, nccl_comm *child, void *config, int flags);
  int (*CommFinalize)(nccl_comm comm);
  int (*CommDestroy)(nccl_comm comm);
  int (*CommAbort)(nccl_comm comm);
  int (*CommGetAsyncError)(nccl_comm comm, int *result);
  int (*AllReduce)(const void *in, void *out, size_t count, int type, int op, nccl_comm comm, cudaStream stream);
  int (*Reduce)(const void *in, void *out, size_t count, int type, int op, int root, nccl_comm comm, cudaStream stream);
  int (*Broadcast)(const void *in, void *out, size_t count, int type, int root, nccl_comm comm, cudaStream stream);
  int (*AllGather)(const void *in, void *out, size_t count, int type, nccl_comm comm, cudaStream stream);
  int (*ReduceScatter)(const void *in, void *out, size_t count, int type, int op, nccl_comm comm, cudaStream stream);
  int (*Send)(const void *in, size_t count, int type, int peer, nccl_comm comm, cudaStream stream);
  int (*Recv)(void *out, size_t count, int type, int peer, nccl_comm comm, cudaStream stream);
  int (*GroupStart)(void);
  int (*GroupEnd)(void);
};

extern struct nccl_api nccl;

// Loads the library with its GPU played, and finds the functions above. Dies with the reason if that fails.
void nccl_load(const char *library, const char *layout);

// Deals with the result of a call named `what`. True: go on. False: the process is being torn down. An error of NCCL is
// announced, and the thread stays here until the job is aborted: a hang, as in a job without a watchdog.
bool nccl_ok(int result, const char *what);
// As that, for the CUDA runtime.
bool cuda_ok(int result, const char *what);

#endif
