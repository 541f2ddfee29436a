// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for libnccl.so.2: every function has the two names that NCCL's have.

#include "../preload/nccl_api.h"

#define EXPORT __attribute__((visibility("default")))
#define DEFINE(name, parameters, result) \
  EXPORT int pnccl##name parameters; \
  EXPORT int pnccl##name parameters { return result; } \
  EXPORT __attribute__((weak, alias("pnccl" #name))) int nccl##name parameters;

// Results let the test see that arguments arrive.
DEFINE(CommInitRank, (void **comm, int nranks, struct nccl_unique_id id, int rank),
       (*comm = comm, nranks * 1000 + rank * 10 + (id.internal[127] == 'z')))
DEFINE(CommSplit, (void *comm, int color, int key, void **child, void *config),
       (*child = comm, color * 100 + key * 10 + (config != 0)))
DEFINE(CommDestroy, (void *comm), comm == 0 ? 4 : 0)
