// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Version 3 as NCCL 2.26 itself drives it, and not a later NCCL's converter: communicators are named only with each
// operation, nothing tells of API calls, states of steps have no arguments, and proxy operations have states of their own.

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "profiler.h"

static const struct culprit_nccl_profiler_v3 *plugin;

// What a communicator's callers hold in place of the plugin's context.
struct named {
  void *context;  // The plugin's.
  uint64_t comm_id;
  char name[32];
};

static int init(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nnodes, int nranks, int rank,
                culprit_nccl_logger logger) {
  (void)nnodes;
  (void)nranks;
  (void)rank;
  (void)logger;
  struct named *named = must_calloc(1, sizeof *named);
  named->comm_id = comm_id;
  if (comm_name) strncpy(named->name, comm_name, sizeof named->name - 1);
  int result = plugin->init(&named->context, mask);
  if (result != 0) free(named);
  else *context = named;
  return result;
}

static int start(void *context, void **handle, prof_descr *from) {
  const struct named *named = context;
  struct culprit_nccl_descr_v3 to = {.type = (uint8_t)from->type, .parentObj = from->parentObj, .rank = from->rank};
  switch (from->type) {
    case CULPRIT_NCCL_GROUP:
    case CULPRIT_NCCL_PROXY_CTRL: break;
    case CULPRIT_NCCL_COLL:
      to.parentObj = from->coll.parentGroup;
      to.coll.name = named->name;
      to.coll.commHash = named->comm_id;
      to.coll.seqNumber = from->coll.seqNumber;
      to.coll.func = from->coll.func;
      to.coll.sendBuff = from->coll.sendBuff;
      to.coll.recvBuff = from->coll.recvBuff;
      to.coll.count = from->coll.count;
      to.coll.root = from->coll.root;
      to.coll.datatype = from->coll.datatype;
      to.coll.nMaxChannels = from->coll.nChannels;
      to.coll.nWarps = from->coll.nWarps;
      to.coll.algo = from->coll.algo;
      to.coll.proto = from->coll.proto;
      break;
    case CULPRIT_NCCL_P2P:
      to.parentObj = from->p2p.parentGroup;
      to.p2p = (struct culprit_nccl_p2p_v2){.name = named->name,
                                            .commHash = named->comm_id,
                                            .func = from->p2p.func,
                                            .buff = from->p2p.buff,
                                            .datatype = from->p2p.datatype,
                                            .count = from->p2p.count,
                                            .peer = from->p2p.peer};
      break;
    case CULPRIT_NCCL_PROXY_OP: to.proxyOp = from->proxyOp; break;
    case CULPRIT_NCCL_PROXY_STEP: to.proxyStep = from->proxyStep; break;
    case CULPRIT_NCCL_KERNEL_CH: to.kernelCh.channelId = from->kernelCh.channelId; break;
    default: return 0;
  }
  return plugin->startEvent(named->context, handle, &to);
}

static int record(void *handle, int state, prof_args *args) {
  (void)args;
  bool of_step = state >= CULPRIT_NCCL_SEND_GPU_WAIT && state <= CULPRIT_NCCL_RECV_GPU_WAIT;
  return of_step ? plugin->recordEventState(handle, state, NULL) : 0;
}

static int record_op(void *handle, int state, size_t bytes, int steps) {
  union culprit_nccl_state_args_v2 args = {.proxyOp = {.transSize = bytes, .steps = steps}};
  return plugin->recordEventState(handle, state, &args);
}

static int finalize(void *context) {
  struct named *named = context;
  int result = plugin->finalize(named->context);
  free(named);
  return result;
}

bool prof_api_find_native(struct prof_api *api, void *lib) {
  plugin = dlsym(lib, CULPRIT_NCCL_SYMBOL_V3);
  if (!plugin) return false;
  *api = (struct prof_api){.name = plugin->name,
                           .version = 3,
                           .init = init,
                           .start = start,
                           .stop = plugin->stopEvent,
                           .record = record,
                           .record_op = record_op,
                           .finalize = finalize};
  return true;
}
