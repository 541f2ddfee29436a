// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Adapter for version 4 of the profiler ABI (NCCL 2.27). It has no API events: an operation begins with its launch.

#include "adapter.h"
#include "chain.h"
#include "events.h"

static int init(void **context, int *mask, const char *name, uint64_t comm_hash, int nnodes, int nranks, int rank,
                culprit_nccl_logger logger) {
  return adapter_open(4, context, comm_hash, mask, name, nnodes, nranks, rank, logger);
}

static handle start_launch(handle comm, const struct culprit_nccl_descr_v4 *d) {
  struct op_launch launch = {.root = -1, .peer = -1, .group = handle_from_pointer(d->parentObj)};
  if (d->type == CULPRIT_NCCL_COLL) {
    launch.func = d->coll.func;
    launch.datatype = d->coll.datatype;
    launch.algo = d->coll.algo;
    launch.proto = d->coll.proto;
    launch.seq = d->coll.seqNumber;
    launch.count = d->coll.count;
    launch.root = d->coll.root;
    launch.channels = d->coll.nChannels;
  } else {  // The channels are not to be trusted: a newer NCCL's converter does not fill them in.
    launch.func = d->p2p.func;
    launch.datatype = d->p2p.datatype;
    launch.count = d->p2p.count;
    launch.peer = d->p2p.peer;
    launch.p2p = true;
  }
  return event_launch(comm, 0, &launch);
}

static __attribute__((noinline)) handle start(handle comm, const struct culprit_nccl_descr_v4 *d) {
  const handle parent = handle_from_pointer(d->parentObj);
  switch (d->type) {
    case CULPRIT_NCCL_PROXY_STEP: return event_proxy_step(parent, d->proxyStep.step);
    case CULPRIT_NCCL_PROXY_OP: return event_proxy_op(comm, parent, &d->proxyOp);
    case CULPRIT_NCCL_KERNEL_CH: return event_kernel(parent, d->kernelCh.channelId, d->kernelCh.pTimer);
    case CULPRIT_NCCL_GROUP: return event_group(comm);
    case CULPRIT_NCCL_COLL:
    case CULPRIT_NCCL_P2P: return start_launch(comm, d);
    default: return 0;
  }
}

static int start_event(void *context, void **h, struct culprit_nccl_descr_v4 *d) {
  if (__builtin_expect(chain_on, 0)) {
    const struct culprit_nccl_descr_v6 wide = chain_widen_v4(d);
    chain_start(context, h, &wide, (struct chain_comm){0});
  } else if (__builtin_expect(d->type == CULPRIT_NCCL_PROXY_STEP, 1)) {
    *h = handle_to_pointer(event_proxy_step(handle_from_pointer(d->parentObj), d->proxyStep.step));
  } else {
    *h = handle_to_pointer(start(handle_from_pointer(context), d));
  }
  return CULPRIT_NCCL_SUCCESS;
}

extern const struct culprit_nccl_profiler_v4 ncclProfiler_v4;
EXPORT const struct culprit_nccl_profiler_v4 ncclProfiler_v4 = {
    .name = "Culprit",
    .init = init,
    .startEvent = start_event,
    .stopEvent = adapter_stop,
    .recordEventState = adapter_state,
    .finalize = adapter_finalize,
};
