// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl.h"

#include <dlfcn.h>
#include <string.h>

#include "clock.h"
#include "event.h"
#include "fault.h"

#define HOLD_NS (10 * NS_PER_MS)

struct nccl_api nccl;

// A data pointer becomes a function pointer by its bytes: C has no cast for that.
static void find_if_there(const char *name, void *function) {
  void *address = dlsym(RTLD_DEFAULT, name);
  memcpy(function, &address, sizeof address);
}

static void find(const char *name, void *function) {
  if (!dlsym(RTLD_DEFAULT, name)) die(EXIT_SYSTEM, "the NCCL library has no %s", name);
  find_if_there(name, function);
}

void nccl_load(const char *library, const char *layout) {
  char why[512];
  if (!fakegpu_load_nccl(library, layout, why, sizeof why)) die(EXIT_SYSTEM, "loading %s: %s", library, why);
#define FIND(f) find("nccl" #f, &nccl.f)
  FIND(GetVersion);
  FIND(GetErrorString);
  FIND(GetUniqueId);
  FIND(CommInitRank);
  FIND(CommInitRankConfig);
  FIND(CommInitAll);
  FIND(CommSplit);
  find_if_there("ncclCommShrink", &nccl.CommShrink);
  FIND(CommFinalize);
  FIND(CommDestroy);
  FIND(CommAbort);
  FIND(CommGetAsyncError);
  FIND(AllReduce);
  FIND(Reduce);
  FIND(Broadcast);
  FIND(AllGather);
  FIND(ReduceScatter);
  FIND(Send);
  FIND(Recv);
  FIND(GroupStart);
  FIND(GroupEnd);
#undef FIND
}

static bool stay(const char *event, const char *what, int code, const char *text) {
  if (abort_requested()) return false;
  event_emit(event, ",\"call\":\"%s\",\"code\":%d,\"text\":\"%s\"", what, code, text);
  while (!abort_requested()) sleep_ns(HOLD_NS);
  return false;
}

bool nccl_ok(int result, const char *what) {
  if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) return !abort_requested();
  return stay("nccl_error", what, result, nccl.GetErrorString(result));
}

bool cuda_ok(int result, const char *what) {
  if (result == CUDA_OK) return !abort_requested();
  return stay("cuda_error", what, result, cudaGetErrorString(result));
}
