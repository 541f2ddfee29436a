// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl.h"

#include <dlfcn.h>
#include <string.h>

struct nccl nccl;

static const char *bind(void *handle, const char *name, void *slot) {
  void *address = dlsym(handle, name);
  memcpy(slot, &address, sizeof address);
  return address ? NULL : name;
}

const char *nccl_bind(void *handle) {
  const char *missing = NULL;
#define BIND(f) \
  if (!missing) missing = bind(handle, "nccl" #f, &nccl.f)
  BIND(GetUniqueId);
  BIND(CommInitRank);
  BIND(CommInitAll);
  BIND(CommDestroy);
  BIND(CommAbort);
  BIND(CommGetAsyncError);
  BIND(AllReduce);
  BIND(ReduceScatter);
  BIND(AllGather);
  BIND(Broadcast);
  BIND(Reduce);
  BIND(Send);
  BIND(Recv);
  BIND(GroupStart);
  BIND(GroupEnd);
  BIND(RedOpCreatePreMulSum);
  BIND(RedOpDestroy);
  BIND(GetErrorString);
  return missing;
}
