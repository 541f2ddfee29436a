// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// libculprit-preload.so, for LD_PRELOAD: NCCL's API as the job calls it. Two uses:
//  - NCCL's profiler interface is silent until a communicator exists and after its end: calls that can block are noted when
//    they begin and when they come back.
//  - Where that interface does not exist (NCCL before 2.24) or belongs to another plugin, the calls are what is known of the
//    operations: their order, sizes and times, not their end.
// The functions forward to NCCL's second names (pncclX). Where NCCL is linked into another library, nothing here is called.

#include "calls.h"
#include "find.h"

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

// Types of the parameters, for the lists below. DATATYPE and STREAM are an enum and an opaque pointer of NCCL and CUDA.
typedef const void *buffer;
typedef void *pointer;

// REAL declares `forward`, NCCL's own function, and leaves at once where the call is not to be noted. A program that looks for
// a function which its NCCL has not got finds the one here, and is told that it must not use it.
#define REAL(name, parameters, arguments) \
  static void *cache; \
  int(*forward) parameters; \
  *(void **)&forward = find(&cache, "pnccl" #name, "nccl" #name); \
  if (forward == NULL) return NCCL_API_INVALID_USAGE; \
  if (calls_nested()) return forward arguments

// OPERATION defines one on a communicator; the last arguments are further fields of culprit_api_call.
#define OPERATION(name, text, parameters, arguments, ...) \
  EXPORT int nccl##name parameters; \
  EXPORT int nccl##name parameters { \
    REAL(name, parameters, arguments); \
    calls_operation(&(struct culprit_api_call){ \
        .comm = comm, .func = text, .datatype = calls_datatype(datatype), .count = count, __VA_ARGS__}); \
    const int result = forward arguments; \
    calls_operation_done(result); \
    return result; \
  }

// BLOCKING defines a call that makes or ends a communicator. before: its value is `word` in `after`, which follows the call;
// id, size, on: see call_begin of struct culprit_hooks.
#define BLOCKING(name, parameters, arguments, before, id, size, on, after) \
  EXPORT int nccl##name parameters; \
  EXPORT int nccl##name parameters { \
    REAL(name, parameters, arguments); \
    const uint64_t word = before; \
    calls_blocking("nccl" #name, id, size, on); \
    const int result = forward arguments; \
    calls_blocking_done("nccl" #name, id, result); \
    after; \
    return result; \
  }

OPERATION(AllReduce, "AllReduce",
          (buffer send, pointer recv, size_t count, int datatype, int op, pointer comm, pointer stream),
          (send, recv, count, datatype, op, comm, stream), .root = -1, .peer = -1)
OPERATION(Reduce, "Reduce",
          (buffer send, pointer recv, size_t count, int datatype, int op, int root, pointer comm, pointer stream),
          (send, recv, count, datatype, op, root, comm, stream), .root = root, .peer = -1)
OPERATION(Broadcast, "Broadcast",
          (buffer send, pointer recv, size_t count, int datatype, int root, pointer comm, pointer stream),
          (send, recv, count, datatype, root, comm, stream), .root = root, .peer = -1)
OPERATION(Bcast, "Broadcast", (pointer data, size_t count, int datatype, int root, pointer comm, pointer stream),
          (data, count, datatype, root, comm, stream), .root = root, .peer = -1)
OPERATION(ReduceScatter, "ReduceScatter",
          (buffer send, pointer recv, size_t count, int datatype, int op, pointer comm, pointer stream),
          (send, recv, count, datatype, op, comm, stream), .root = -1, .peer = -1)
OPERATION(AllGather, "AllGather", (buffer send, pointer recv, size_t count, int datatype, pointer comm, pointer stream),
          (send, recv, count, datatype, comm, stream), .root = -1, .peer = -1)
OPERATION(AlltoAll, "AlltoAll", (buffer send, pointer recv, size_t count, int datatype, pointer comm, pointer stream),
          (send, recv, count, datatype, comm, stream), .root = -1, .peer = -1)
OPERATION(AllToAll, "AlltoAll", (buffer send, pointer recv, size_t count, int datatype, pointer comm, pointer stream),
          (send, recv, count, datatype, comm, stream), .root = -1, .peer = -1)  // RCCL's spelling.
OPERATION(Gather, "Gather",
          (buffer send, pointer recv, size_t count, int datatype, int root, pointer comm, pointer stream),
          (send, recv, count, datatype, root, comm, stream), .root = root, .peer = -1)
OPERATION(Scatter, "Scatter",
          (buffer send, pointer recv, size_t count, int datatype, int root, pointer comm, pointer stream),
          (send, recv, count, datatype, root, comm, stream), .root = root, .peer = -1)
OPERATION(Send, "Send", (buffer send, size_t count, int datatype, int peer, pointer comm, pointer stream),
          (send, count, datatype, peer, comm, stream), .root = -1, .peer = peer, .p2p = true)
OPERATION(Recv, "Recv", (pointer recv, size_t count, int datatype, int peer, pointer comm, pointer stream),
          (recv, count, datatype, peer, comm, stream), .root = -1, .peer = peer, .p2p = true)

EXPORT int ncclGroupStart(void);
EXPORT int ncclGroupStart(void) {
  REAL(GroupStart, (void), ());
  const int result = forward();
  calls_group_start(result);
  return result;
}

EXPORT int ncclGroupEnd(void);
EXPORT int ncclGroupEnd(void) {
  REAL(GroupEnd, (void), ());
  calls_group_end();
  const int result = forward();
  calls_group_ended(result, true);
  return result;
}

EXPORT int ncclGroupSimulateEnd(pointer info);
EXPORT int ncclGroupSimulateEnd(pointer info) {
  REAL(GroupSimulateEnd, (pointer info), (info));
  calls_group_end();
  const int result = forward(info);
  calls_group_ended(result, false);
  return result;
}

EXPORT int ncclCommGetAsyncError(pointer comm, int *state);
EXPORT int ncclCommGetAsyncError(pointer comm, int *state) {
  REAL(CommGetAsyncError, (pointer comm, int *state), (comm, state));
  const int result = forward(comm, state);
  if (result == NCCL_API_SUCCESS && state != NULL) calls_state(comm, *state);
  return result;
}

BLOCKING(CommInitRank, (pointer *comm, int nranks, struct nccl_unique_id id, int rank), (comm, nranks, id, rank),
         calls_id(&id, 1), word, nranks, NULL, calls_made(comm, word, nranks, rank, result))
BLOCKING(CommInitRankConfig, (pointer *comm, int nranks, struct nccl_unique_id id, int rank, pointer config),
         (comm, nranks, id, rank, config), calls_id(&id, 1), word, nranks, NULL,
         calls_made(comm, word, nranks, rank, result))
BLOCKING(CommInitRankScalable,
         (pointer *comm, int nranks, int rank, int ids, struct nccl_unique_id *id, pointer config),
         (comm, nranks, rank, ids, id, config), id == NULL ? 0 : calls_id(id, ids), word, nranks, NULL,
         calls_made(comm, word, nranks, rank, result))
BLOCKING(CommInitAll, (pointer *comms, int devices, const int *list), (comms, devices, list), 0, word, 0, NULL,
         calls_made_here(comms, devices, result))
BLOCKING(CommSplit, (pointer comm, int color, int key, pointer *child, pointer config), (comm, color, key, child, config),
         calls_child(comm, NULL, 0, false), word, -1, comm, calls_split(comm, child, calls_color(word, color), result))
BLOCKING(CommShrink, (pointer comm, int *excluded, int count, pointer *child, pointer config, int flags),
         (comm, excluded, count, child, config, flags), calls_child(comm, excluded, count, true), word, -1 - count, comm,
         calls_split(comm, child, word, result))
BLOCKING(CommFinalize, (pointer comm), (comm), 0, word, -1, comm, (void)0)
BLOCKING(CommDestroy, (pointer comm), (comm), culprit_hooks.comm_leaving(comm), 0, -1, comm,
         culprit_hooks.comm_gone(comm, word))
BLOCKING(CommAbort, (pointer comm), (comm), culprit_hooks.comm_leaving(comm), 0, -1, comm,
         culprit_hooks.comm_gone(comm, word))
