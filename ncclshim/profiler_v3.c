// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Adapter for version 3 of the profiler ABI (NCCL 2.26). It has no API events, does not tell a receiver that is not ready
// from a slow network, and names the communicator only with each operation.

#include "adapter.h"
#include "chain.h"
#include "events.h"

static int init(void **context, int *mask) { return adapter_open_unnamed(3, context, mask); }

static handle start_launch(handle comm, const struct culprit_nccl_descr_v3 *d) {
  struct op_launch launch = {.root = -1, .peer = -1, .group = handle_from_pointer(d->parentObj)};
  const char *name;
  uint64_t comm_hash;
  if (d->type == CULPRIT_NCCL_COLL) {
    name = d->coll.name;
    comm_hash = d->coll.commHash;
    launch.func = d->coll.func;
    launch.datatype = d->coll.datatype;
    launch.algo = d->coll.algo;
    launch.proto = d->coll.proto;
    launch.seq = d->coll.seqNumber;
    launch.count = d->coll.count;
    launch.root = d->coll.root;
    launch.channels = d->coll.nMaxChannels;
  } else {
    name = d->p2p.name;
    comm_hash = d->p2p.commHash;
    launch.func = d->p2p.func;
    launch.datatype = d->p2p.datatype;
    launch.count = d->p2p.count;
    launch.peer = d->p2p.peer;
    launch.p2p = true;
  }
  event_identify(comm, comm_hash, name, d->rank);
  return event_launch(comm, 0, &launch);
}

static handle start(handle comm, const struct culprit_nccl_descr_v3 *d) {
  const handle parent = handle_from_pointer(d->parentObj);
  switch (d->type) {
    case CULPRIT_NCCL_PROXY_STEP: return event_proxy_step(parent, d->proxyStep.step);
    case CULPRIT_NCCL_PROXY_OP: return event_proxy_op(comm, parent, &d->proxyOp);
    case CULPRIT_NCCL_KERNEL_CH: return event_kernel(parent, d->kernelCh.channelId, 0);
    case CULPRIT_NCCL_GROUP: return event_group(comm);
    case CULPRIT_NCCL_COLL:
    case CULPRIT_NCCL_P2P: return start_launch(comm, d);
    default: return 0;
  }
}

static int start_event(void *context, void **h, struct culprit_nccl_descr_v3 *d) {
  if (__builtin_expect(chain_on, 0)) {
    struct chain_comm comm = {0};
    const struct culprit_nccl_descr_v6 wide = chain_widen_v3(d, &comm);
    chain_start(context, h, &wide, comm);
  } else {
    *h = handle_to_pointer(start(handle_from_pointer(context), d));
  }
  return CULPRIT_NCCL_SUCCESS;
}

extern const struct culprit_nccl_profiler_v3 ncclProfiler_v3;
EXPORT const struct culprit_nccl_profiler_v3 ncclProfiler_v3 = {
    .name = "Culprit",
    .init = init,
    .startEvent = start_event,
    .stopEvent = adapter_stop,
    .recordEventState = adapter_state_v2,
    .finalize = adapter_finalize,
};
