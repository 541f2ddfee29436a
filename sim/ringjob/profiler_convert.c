// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Older plugins on a newer NCCL: what its converters pass on and what they lose.

#include <dlfcn.h>
#include <string.h>

#include "profiler.h"

static const struct culprit_nccl_profiler_v6 *plugin_v6;
static const struct culprit_nccl_profiler_v5 *plugin_v5;
static const struct culprit_nccl_profiler_v4 *plugin_v4;

#define CE_BITS (CULPRIT_NCCL_CE_COLL | CULPRIT_NCCL_CE_SYNC | CULPRIT_NCCL_CE_BATCH)

// Version 5: all but copy-engine events, whose bits are cleared after init.

static int init_v5(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nnodes, int nranks, int rank,
                   culprit_nccl_logger logger) {
  int result = plugin_v5->init(context, comm_id, mask, comm_name, nnodes, nranks, rank, logger);
  if (result == 0) __atomic_and_fetch(mask, ~CE_BITS, __ATOMIC_RELAXED);
  return result;
}

static int start_v5(void *context, void **handle, prof_descr *from) {
  struct culprit_nccl_descr_v5 to = {.type = from->type, .parentObj = from->parentObj, .rank = from->rank};
  switch (from->type) {
    case CULPRIT_NCCL_GROUP:
    case CULPRIT_NCCL_PROXY_CTRL: break;
    case CULPRIT_NCCL_GROUP_API: to.groupApi = from->groupApi; break;
    case CULPRIT_NCCL_COLL_API: to.collApi = from->collApi; break;
    case CULPRIT_NCCL_P2P_API: to.p2pApi = from->p2pApi; break;
    case CULPRIT_NCCL_KERNEL_LAUNCH: to.kernelLaunch = from->kernelLaunch; break;
    case CULPRIT_NCCL_COLL: to.coll = from->coll; break;
    case CULPRIT_NCCL_P2P: to.p2p = from->p2p; break;
    case CULPRIT_NCCL_PROXY_OP: to.proxyOp = from->proxyOp; break;
    case CULPRIT_NCCL_PROXY_STEP: to.proxyStep = from->proxyStep; break;
    case CULPRIT_NCCL_KERNEL_CH: to.kernelCh = from->kernelCh; break;
    default: return 0;
  }
  return plugin_v5->startEvent(context, handle, &to);
}

// Version 4: no API events, and the handle is not even written; Coll and P2p have the Group as parent.

static int init_v4(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nnodes, int nranks, int rank,
                   culprit_nccl_logger logger) {
  return plugin_v4->init(context, mask, comm_name, comm_id, nnodes, nranks, rank, logger);
}

static int start_v4(void *context, void **handle, prof_descr *from) {
  struct culprit_nccl_descr_v4 to;
  // NCCL leaves what it does not copy uninitialised; a fixed pattern makes that visible each time.
  memset(&to, 0xa5, sizeof to);
  to.type = (uint8_t)from->type;
  to.parentObj = from->parentObj;
  to.rank = from->rank;
  switch (from->type) {
    case CULPRIT_NCCL_GROUP:
    case CULPRIT_NCCL_PROXY_CTRL: break;
    case CULPRIT_NCCL_COLL:
      to.coll.seqNumber = from->coll.seqNumber;
      to.coll.func = from->coll.func;
      to.coll.sendBuff = from->coll.sendBuff;
      to.coll.recvBuff = from->coll.recvBuff;
      to.coll.count = from->coll.count;
      to.coll.root = from->coll.root;
      to.coll.datatype = from->coll.datatype;
      to.coll.nChannels = from->coll.nChannels;
      to.coll.nWarps = from->coll.nWarps;
      to.coll.algo = from->coll.algo;
      to.coll.proto = from->coll.proto;
      to.parentObj = from->coll.parentGroup;
      break;
    case CULPRIT_NCCL_P2P:
      to.p2p.func = from->p2p.func;
      to.p2p.buff = from->p2p.buff;
      to.p2p.datatype = from->p2p.datatype;
      to.p2p.count = from->p2p.count;
      to.p2p.peer = from->p2p.peer;  // nChannels is forgotten.
      to.parentObj = from->p2p.parentGroup;
      break;
    case CULPRIT_NCCL_PROXY_OP: to.proxyOp = from->proxyOp; break;
    case CULPRIT_NCCL_PROXY_STEP: to.proxyStep = from->proxyStep; break;
    case CULPRIT_NCCL_KERNEL_CH: to.kernelCh = from->kernelCh; break;
    default: return 0;
  }
  return plugin_v4->startEvent(context, handle, &to);
}

static int record_v4(void *handle, int state, prof_args *args) {
  if (state == CULPRIT_NCCL_GROUP_START_API_STOP || state == CULPRIT_NCCL_GROUP_END_API_START) return 0;
  return plugin_v4->recordEventState(handle, state, args);
}

static bool wants(int asked, int version) { return asked == 0 || asked == version; }

static struct prof_api of_v6(int version) {
  return (struct prof_api){.name = plugin_v6->name,
                           .version = version,
                           .init = plugin_v6->init,
                           .start = plugin_v6->startEvent,
                           .stop = plugin_v6->stopEvent,
                           .record = plugin_v6->recordEventState,
                           .finalize = plugin_v6->finalize};
}

bool prof_api_find(struct prof_api *api, void *lib, int version) {
  if (version == 3) return prof_api_find_native(api, lib);
  const struct culprit_nccl_profiler_v7 *plugin_v7 = dlsym(lib, CULPRIT_NCCL_SYMBOL_V7);
  if (version == 7 && plugin_v7) {
    plugin_v6 = &plugin_v7->as_v6;
    *api = of_v6(7);
    return true;
  }
  if (wants(version, 6) && (plugin_v6 = dlsym(lib, CULPRIT_NCCL_SYMBOL_V6))) {
    *api = of_v6(6);
    return true;
  }
  if (wants(version, 5) && (plugin_v5 = dlsym(lib, CULPRIT_NCCL_SYMBOL_V5))) {
    *api = (struct prof_api){.name = plugin_v5->name,
                             .version = 5,
                             .init = init_v5,
                             .start = start_v5,
                             .stop = plugin_v5->stopEvent,
                             .record = plugin_v5->recordEventState,
                             .finalize = plugin_v5->finalize};
    return true;
  }
  if (wants(version, 4) && (plugin_v4 = dlsym(lib, CULPRIT_NCCL_SYMBOL_V4))) {
    *api = (struct prof_api){.name = plugin_v4->name,
                             .version = 4,
                             .init = init_v4,
                             .start = start_v4,
                             .stop = plugin_v4->stopEvent,
                             .record = record_v4,
                             .finalize = plugin_v4->finalize};
    return true;
  }
  return false;
}
