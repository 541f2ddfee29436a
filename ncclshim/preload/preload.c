// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// libculprit-preload.so, for LD_PRELOAD: notes when a thread enters an NCCL call that can block, and when it comes back.
// NCCL's profiler interface is silent until a communicator exists and after its end, so a hang while one is made, split,
// finalized or destroyed shows nowhere else. The functions forward to NCCL's second names (pncclX).
//
// It needs NCCL as a shared library: where it is linked into another one, nothing here is called, and nothing changes.

#include "../hooks.h"
#include "nccl_api.h"

#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

// find gives NCCL's function: under its second name wherever it is, else the next one of the same name.
static void *find(const char *profiled, const char *name) {
  void *found = dlsym(RTLD_NEXT, profiled);
  if (found != NULL) return found;
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);  // In a scope of its own, as PyTorch's may be.
  if (library != NULL) {
    found = dlsym(library, profiled);
    dlclose(library);
  }
  return found != NULL ? found : dlsym(RTLD_NEXT, name);
}

// FORWARD defines ncclX: note, call, note. The function is looked up at every call: none of them is frequent.
#define FORWARD(name, parameters, arguments) \
  EXPORT int nccl##name parameters; \
  EXPORT int nccl##name parameters { \
    int(*forward) parameters; \
    *(void **)&forward = find("pnccl" #name, "nccl" #name); \
    if (forward == NULL) return NCCL_API_SYSTEM_ERROR; \
    culprit_hooks.call_begin("nccl" #name, 0); \
    const int result = forward arguments; \
    culprit_hooks.call_end("nccl" #name, 0, result); \
    return result; \
  }

FORWARD(CommInitRank, (void **comm, int nranks, struct nccl_unique_id id, int rank), (comm, nranks, id, rank))
FORWARD(CommInitRankConfig, (void **comm, int nranks, struct nccl_unique_id id, int rank, void *config),
        (comm, nranks, id, rank, config))
FORWARD(CommInitRankScalable,
        (void **comm, int nranks, int rank, int ids, struct nccl_unique_id *id, void *config),
        (comm, nranks, rank, ids, id, config))
FORWARD(CommInitAll, (void **comms, int devices, const int *list), (comms, devices, list))
FORWARD(CommSplit, (void *comm, int color, int key, void **child, void *config), (comm, color, key, child, config))
FORWARD(CommShrink, (void *comm, int *excluded, int count, void **child, void *config, int flags),
        (comm, excluded, count, child, config, flags))
FORWARD(CommFinalize, (void *comm), (comm))
FORWARD(CommDestroy, (void *comm), (comm))
FORWARD(CommAbort, (void *comm), (comm))
