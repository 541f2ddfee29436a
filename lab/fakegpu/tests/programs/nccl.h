// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The part of NCCL's public interface that the tests call, bound when the library is loaded.

#ifndef FAKEGPU_TESTS_NCCL_H
#define FAKEGPU_TESTS_NCCL_H

#include <stddef.h>

#include "../../cudart.h"

typedef struct nccl_comm *nccl_comm;
typedef struct {
  char bytes[128];
} nccl_id;

enum { NCCL_INT32 = 2, NCCL_FLOAT32 = 7, NCCL_SUM = 0 };

// clang-format off
#define NCCL_FUNCTIONS(X)                                                                             \
  X(GetVersion, (int *version))                                                                       \
  X(GetUniqueId, (nccl_id *id))                                                                       \
  X(CommInitRank, (nccl_comm *comm, int ranks, nccl_id id, int rank))                                 \
  X(CommInitAll, (nccl_comm *comms, int count, const int *devices))                                   \
  X(CommDestroy, (nccl_comm comm))                                                                    \
  X(CommAbort, (nccl_comm comm))                                                                      \
  X(CommGetAsyncError, (nccl_comm comm, int *error))                                                  \
  X(AllReduce, (const void *in, void *out, size_t count, int type, int op, nccl_comm comm, cudaStream stream))      \
  X(ReduceScatter, (const void *in, void *out, size_t count, int type, int op, nccl_comm comm, cudaStream stream))  \
  X(AllGather, (const void *in, void *out, size_t count, int type, nccl_comm comm, cudaStream stream))              \
  X(Broadcast, (const void *in, void *out, size_t count, int type, int root, nccl_comm comm, cudaStream stream))    \
  X(Send, (const void *in, size_t count, int type, int peer, nccl_comm comm, cudaStream stream))      \
  X(Recv, (void *out, size_t count, int type, int peer, nccl_comm comm, cudaStream stream))           \
  X(GroupStart, (void))                                                                               \
  X(GroupEnd, (void))
// clang-format on

struct nccl {
#define X(name, parameters) int(*name) parameters;
  NCCL_FUNCTIONS(X)
#undef X
};

#endif
