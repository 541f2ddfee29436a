// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Adapter for versions 6 and 7 of the profiler ABI (NCCL 2.29 to 2.30, and 2.31). Version 7 appends to the descriptors of
// version 6 and changes nothing that is there.

#include "adapter.h"
#include "chain.h"
#include "events.h"
#include "profiler_v6.h"

static int init_v6(void **context, uint64_t comm_id, int *mask, const char *name, int nnodes, int nranks, int rank,
                   culprit_nccl_logger logger) {
  return adapter_open(6, context, comm_id, mask, name, nnodes, nranks, rank, logger);
}

static int init_v7(void **context, uint64_t comm_id, int *mask, const char *name, int nnodes, int nranks, int rank,
                   culprit_nccl_logger logger) {
  return adapter_open(7, context, comm_id, mask, name, nnodes, nranks, rank, logger);
}

static handle start_call(handle comm, const struct culprit_nccl_descr_v6 *d) {
  const handle group = handle_from_pointer(d->parentObj);
  if (d->type == CULPRIT_NCCL_COLL_API) {
    const struct op_call call = {.func = d->collApi.func,
                                 .datatype = d->collApi.datatype,
                                 .count = d->collApi.count,
                                 .root = d->collApi.root,
                                 .peer = -1};
    return event_call(comm, group, &call, d->collApi.graphCaptured);
  }
  const struct op_call call = {
      .func = d->p2pApi.func, .datatype = d->p2pApi.datatype, .count = d->p2pApi.count, .root = -1, .peer = -1, .p2p = true};
  return event_call(comm, group, &call, d->p2pApi.graphCaptured);
}

static handle start_launch(handle comm, const struct culprit_nccl_descr_v6 *d) {
  struct op_launch launch = {.root = -1, .peer = -1};
  if (d->type == CULPRIT_NCCL_COLL) {
    launch.func = d->coll.func;
    launch.datatype = d->coll.datatype;
    launch.algo = d->coll.algo;
    launch.proto = d->coll.proto;
    launch.seq = d->coll.seqNumber;
    launch.count = d->coll.count;
    launch.root = d->coll.root;
    launch.channels = d->coll.nChannels;
    launch.group = handle_from_pointer(d->coll.parentGroup);
  } else if (d->type == CULPRIT_NCCL_CE_COLL) {
    launch.func = d->ceColl.func;
    launch.datatype = d->ceColl.datatype;
    launch.seq = d->ceColl.seqNumber;
    launch.count = d->ceColl.count;
    launch.root = d->ceColl.root;
    launch.no_completion = true;  // Start and stop bracket the enqueueing.
  } else {
    launch.func = d->p2p.func;
    launch.datatype = d->p2p.datatype;
    launch.count = d->p2p.count;
    launch.peer = d->p2p.peer;
    launch.channels = d->p2p.nChannels;
    launch.group = handle_from_pointer(d->p2p.parentGroup);
    launch.p2p = true;
  }
  return event_launch(comm, handle_from_pointer(d->parentObj), &launch);
}

__attribute__((noinline)) handle profiler_v6_start(handle comm, const struct culprit_nccl_descr_v6 *d) {
  const handle parent = handle_from_pointer(d->parentObj);
  switch (d->type) {
    case CULPRIT_NCCL_PROXY_STEP: return event_proxy_step(parent, d->proxyStep.step);
    case CULPRIT_NCCL_PROXY_OP: return event_proxy_op(comm, parent, &d->proxyOp);
    case CULPRIT_NCCL_KERNEL_CH: return event_kernel(parent, d->kernelCh.channelId, d->kernelCh.pTimer);
    case CULPRIT_NCCL_GROUP: return event_group(comm);
    case CULPRIT_NCCL_GROUP_API: return event_group_api(comm);
    case CULPRIT_NCCL_COLL_API:
    case CULPRIT_NCCL_P2P_API: return start_call(comm, d);
    case CULPRIT_NCCL_COLL:
    case CULPRIT_NCCL_CE_COLL:
    case CULPRIT_NCCL_P2P: return start_launch(comm, d);
    default: return 0;
  }
}

static int start_event(void *context, void **h, struct culprit_nccl_descr_v6 *d) {
  if (__builtin_expect(chain_on, 0)) {
    chain_start(context, h, d, (struct chain_comm){0});
  } else if (__builtin_expect(d->type == CULPRIT_NCCL_PROXY_STEP, 1)) {
    *h = handle_to_pointer(event_proxy_step(handle_from_pointer(d->parentObj), d->proxyStep.step));
  } else {
    *h = handle_to_pointer(profiler_v6_start(handle_from_pointer(context), d));
  }
  return CULPRIT_NCCL_SUCCESS;
}

extern const struct culprit_nccl_profiler_v6 ncclProfiler_v6;
EXPORT const struct culprit_nccl_profiler_v6 ncclProfiler_v6 = {
    .name = "Culprit",
    .init = init_v6,
    .startEvent = start_event,
    .stopEvent = adapter_stop,
    .recordEventState = adapter_state,
    .finalize = adapter_finalize,
};

extern const struct culprit_nccl_profiler_v7 ncclProfiler_v7;
EXPORT const struct culprit_nccl_profiler_v7 ncclProfiler_v7 = {
    .as_v6 =
        {
            .name = "Culprit",
            .init = init_v7,
            .startEvent = start_event,
            .stopEvent = adapter_stop,
            .recordEventState = adapter_state,
            .finalize = adapter_finalize,
        },
};
