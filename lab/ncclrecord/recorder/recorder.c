// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A profiler plugin that writes down every callback with every field; writer.h has the format of the file. It exports
// versions 2 to 7 of the interface, or, built with -DNEWEST=N, none above N: a newer NCCL then serves it through its
// converters.
//
//   RECORDER_DIR   directory of the files: rank.$RANK.log, or pid.PID.log where there is no RANK; default: the current one
//   RECORDER_MASK  activation mask; default: everything but ProxyCtrl, which comes at every turn of the progress thread
//   RECORDER_FAIL  "init": init returns an error

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../ncclshim/profiler_abi.h"
#include "names.h"
#include "writer.h"

#ifndef NEWEST
#define NEWEST 7
#endif

enum { EVERYTHING = 0xffff & ~CULPRIT_NCCL_PROXY_CTRL };

static int opened(int abi, void **context, int *mask, uint64_t comm, const char *name, int nodes, int ranks, int rank) {
  const char *wanted = getenv("RECORDER_MASK"), *fail = getenv("RECORDER_FAIL");
  const uint64_t number = writer_context();
  const int before = *mask;
  *mask = wanted ? (int)strtol(wanted, NULL, 0) : EVERYTHING;
  line_begin("init");
  line_unsigned("ctx", number);
  line_number("abi", abi);
  line_address("comm", (const void *)(uintptr_t)comm);
  line_text("name", name);
  line_number("nodes", nodes);
  line_number("ranks", ranks);
  line_number("rank", rank);
  line_number("before", before);
  line_number("mask", *mask);
  line_end();
  if (fail && strcmp(fail, "init") == 0) return CULPRIT_NCCL_SYSTEM_ERROR;
  *context = (void *)(uintptr_t)number;
  return 0;
}

static void head(void *context, void **handle, uint64_t type, void *parent, int rank) {
  line_begin_start(handle, event_name(type));
  line_unsigned("ctx", (uintptr_t)context);
  line_unsigned("parent", (uintptr_t)parent);
  line_number("rank", rank);
}

static void proxy_op(const struct culprit_nccl_proxy_op *o) {
  line_text("pid", o->pid == getpid() ? "own" : "other");
  line_number("channel", o->channelId);
  line_number("peer", o->peer);
  line_number("steps", o->nSteps);
  line_number("chunk", o->chunkSize);
  line_number("send", o->isSend);
}

static int stop(void *handle) {
  writer_stop(handle);
  return 0;
}

static int finalize(void *context) {
  writer_finalize(context);
  return 0;
}

// Members that versions 2 to 4 share under different layouts.
#define COLL(d)                                     \
  do {                                              \
    line_unsigned("seq", (d)->coll.seqNumber);      \
    line_text("func", (d)->coll.func);              \
    line_address("from", (d)->coll.sendBuff);       \
    line_address("to", (d)->coll.recvBuff);         \
    line_unsigned("count", (d)->coll.count);        \
    line_number("root", (d)->coll.root);            \
    line_text("datatype", (d)->coll.datatype);      \
    line_number("warps", (d)->coll.nWarps);         \
    line_text("algo", (d)->coll.algo);              \
    line_text("proto", (d)->coll.proto);            \
  } while (0)

#define P2P(d)                                      \
  do {                                              \
    line_text("func", (d)->p2p.func);               \
    line_address("buff", (d)->p2p.buff);            \
    line_text("datatype", (d)->p2p.datatype);       \
    line_unsigned("count", (d)->p2p.count);         \
    line_number("peer", (d)->p2p.peer);             \
  } while (0)

#define COMM(member)                                                            \
  do {                                                                          \
    line_text("name", (member).name);                                           \
    line_address("comm", (const void *)(uintptr_t)(member).commHash);           \
  } while (0)

// Versions 2 and 3: the communicator is named in every operation, not at init.

static int state_v2(void *handle, int state, union culprit_nccl_state_args_v2 *args) {
  char value[40] = "-";
  if (args) snprintf(value, sizeof value, "%zu/%d", args->proxyOp.transSize, args->proxyOp.steps);
  writer_state(handle, state_name(state), value);
  return 0;
}

static int init_v2(void **context, int *mask) { return opened(2, context, mask, 0, NULL, -1, -1, -1); }

static int start_v2(void *context, void **handle, struct culprit_nccl_descr_v2 *d) {
  head(context, handle, d->type, d->parentObj, d->rank);
  switch (d->type) {
    case CULPRIT_NCCL_COLL:
      COMM(d->coll);
      COLL(d);
      line_unsigned("traffic", d->coll.trafficBytes);
      line_number("max_channels", d->coll.nMaxChannels);
      break;
    case CULPRIT_NCCL_P2P:
      COMM(d->p2p);
      P2P(d);
      break;
    case CULPRIT_NCCL_PROXY_OP: proxy_op(&d->proxyOp); break;
    case CULPRIT_NCCL_PROXY_STEP: line_number("step", d->proxyStep.step); break;
    default: break;
  }
  line_end();
  return 0;
}

static int init_v3(void **context, int *mask) { return opened(3, context, mask, 0, NULL, -1, -1, -1); }

static int start_v3(void *context, void **handle, struct culprit_nccl_descr_v3 *d) {
  head(context, handle, d->type, d->parentObj, d->rank);
  switch (d->type) {
    case CULPRIT_NCCL_COLL:
      COMM(d->coll);
      COLL(d);
      line_number("max_channels", d->coll.nMaxChannels);
      break;
    case CULPRIT_NCCL_P2P:
      COMM(d->p2p);
      P2P(d);
      break;
    case CULPRIT_NCCL_PROXY_OP: proxy_op(&d->proxyOp); break;
    case CULPRIT_NCCL_PROXY_STEP: line_number("step", d->proxyStep.step); break;
    case CULPRIT_NCCL_KERNEL_CH: line_number("channel", d->kernelCh.channelId); break;
    case CULPRIT_NCCL_NET_PLUGIN: line_number("id", d->netPlugin.id); break;
    default: break;
  }
  line_end();
  return 0;
}

// Version 4 on: all arguments of a state are one word.

static int state_v4(void *handle, int state, union culprit_nccl_state_args *args) {
  char value[40] = "-";
  if (args && state >= CULPRIT_NCCL_PROXY_CTRL_IDLE && state <= CULPRIT_NCCL_PROXY_CTRL_APPEND_END) {
    snprintf(value, sizeof value, "%d", args->proxyCtrl.appendedProxyOps);
  } else if (args) {
    snprintf(value, sizeof value, "%" PRIu64, args->kernelCh.pTimer);
  }
  writer_state(handle, state_name(state), value);
  return 0;
}

static void kernel_ch(const struct culprit_nccl_kernel_ch *k) {
  line_number("channel", k->channelId);
  line_unsigned("timer", k->pTimer);
}

static int init_v4(void **context, int *mask, const char *name, uint64_t comm, int nodes, int ranks, int rank,
                   culprit_nccl_logger logger) {
  (void)logger;
  return opened(4, context, mask, comm, name, nodes, ranks, rank);
}

static int start_v4(void *context, void **handle, struct culprit_nccl_descr_v4 *d) {
  head(context, handle, d->type, d->parentObj, d->rank);
  switch (d->type) {
    case CULPRIT_NCCL_COLL:
      COLL(d);
      line_number("channels", d->coll.nChannels);
      break;
    case CULPRIT_NCCL_P2P:
      P2P(d);
      line_number("channels", d->p2p.nChannels);
      break;
    case CULPRIT_NCCL_PROXY_OP: proxy_op(&d->proxyOp); break;
    case CULPRIT_NCCL_PROXY_STEP: line_number("step", d->proxyStep.step); break;
    case CULPRIT_NCCL_KERNEL_CH: kernel_ch(&d->kernelCh); break;
    case CULPRIT_NCCL_NET_PLUGIN: line_number("id", d->netPlugin.id); break;
    default: break;
  }
  line_end();
  return 0;
}

// Versions 5 to 7: each appends to the members of the one before and moves nothing.

static inline void coll_api(const struct culprit_nccl_coll_api *c) {
  line_text("func", c->func);
  line_unsigned("count", c->count);
  line_text("datatype", c->datatype);
  line_number("root", c->root);
  line_address("stream", c->stream);
  line_number("graph", c->graphCaptured);
}

static inline void p2p_api(const struct culprit_nccl_p2p_api *p) {
  line_text("func", p->func);
  line_unsigned("count", p->count);
  line_text("datatype", p->datatype);
  line_address("stream", p->stream);
  line_number("graph", p->graphCaptured);
}

static inline void members_v5(const struct culprit_nccl_descr_v5 *d) {
  switch (d->type) {
    case CULPRIT_NCCL_GROUP_API:
      line_number("graph", d->groupApi.graphCaptured);
      line_number("depth", d->groupApi.groupDepth);
      break;
    case CULPRIT_NCCL_COLL_API: coll_api(&d->collApi); break;
    case CULPRIT_NCCL_P2P_API: p2p_api(&d->p2pApi); break;
    case CULPRIT_NCCL_KERNEL_LAUNCH: line_address("stream", d->kernelLaunch.stream); break;
    case CULPRIT_NCCL_COLL:
      COLL(d);
      line_number("channels", d->coll.nChannels);
      line_unsigned("group", (uintptr_t)d->coll.parentGroup);
      break;
    case CULPRIT_NCCL_P2P:
      P2P(d);
      line_number("channels", d->p2p.nChannels);
      line_unsigned("group", (uintptr_t)d->p2p.parentGroup);
      break;
    case CULPRIT_NCCL_PROXY_OP: proxy_op(&d->proxyOp); break;
    case CULPRIT_NCCL_PROXY_STEP: line_number("step", d->proxyStep.step); break;
    case CULPRIT_NCCL_KERNEL_CH: kernel_ch(&d->kernelCh); break;
    case CULPRIT_NCCL_NET_PLUGIN: line_number("id", d->netPlugin.id); break;
    default: break;
  }
}

static inline void members_v6(const struct culprit_nccl_descr_v6 *d) {
  switch (d->type) {
    case CULPRIT_NCCL_CE_COLL:
      line_unsigned("seq", d->ceColl.seqNumber);
      line_text("func", d->ceColl.func);
      line_unsigned("count", d->ceColl.count);
      line_number("root", d->ceColl.root);
      line_text("datatype", d->ceColl.datatype);
      line_text("sync", d->ceColl.syncStrategy);
      line_number("intra", d->ceColl.intraBatchSync);
      line_number("batch_size", d->ceColl.batchSize);
      line_number("batches", d->ceColl.numBatches);
      line_number("ce_seq", d->ceColl.ceSeqNum);
      line_address("stream", d->ceColl.stream);
      break;
    case CULPRIT_NCCL_CE_SYNC:
      line_number("complete", d->ceCollSync.isComplete);
      line_number("ranks", d->ceCollSync.nRanks);
      break;
    case CULPRIT_NCCL_CE_BATCH:
      line_number("ops", d->ceCollBatch.numOps);
      line_unsigned("bytes", d->ceCollBatch.totalBytes);
      line_number("intra", d->ceCollBatch.useIntraSync);
      break;
    default: break;
  }
}

static inline void members_v7(const struct culprit_nccl_descr_v7 *d) {
  switch (d->type) {
    case CULPRIT_NCCL_COLL_API: line_unsigned("tag", d->collApi.userTag); break;
    case CULPRIT_NCCL_P2P_API: line_unsigned("tag", d->p2pApi.userTag); break;
    case CULPRIT_NCCL_COLL:
      line_text("variant", d->coll.kernelVariant);
      line_number("symmetric", d->coll.isSymColl);
      line_unsigned("tag", d->coll.userTag);
      break;
    case CULPRIT_NCCL_P2P: line_unsigned("tag", d->p2p.userTag); break;
    case CULPRIT_NCCL_KERNEL_PHASE:
      line_number("channel", d->kernelPhase.channelId);
      line_number("phase", d->kernelPhase.phaseId);
      line_text("phase_name", d->kernelPhase.phaseName);
      line_unsigned("timer", d->kernelPhase.pTimer);
      break;
    default: break;
  }
}

#define VERSION(n, descr)                                                                                                 \
  static int init_v##n(void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks, int rank,        \
                       culprit_nccl_logger logger) {                                                                      \
    (void)logger;                                                                                                         \
    return opened(n, context, mask, comm, name, nodes, ranks, rank);                                                      \
  }                                                                                                                       \
  static int start_v##n(void *context, void **handle, struct descr *d) {                                                  \
    head(context, handle, d->type, d->parentObj, d->rank);                                                                \
    members_v5((const void *)d);                                                                                          \
    if (n >= 6) members_v6((const void *)d);                                                                              \
    if (n >= 7) members_v7((const void *)d);                                                                              \
    line_end();                                                                                                           \
    return 0;                                                                                                             \
  }

#define EXPORT __attribute__((visibility("default"))) const struct

extern const struct culprit_nccl_profiler_v2 ncclProfiler_v2;
EXPORT culprit_nccl_profiler_v2 ncclProfiler_v2 = {"recorder", init_v2, start_v2, stop, state_v2, finalize};
#if NEWEST >= 3
extern const struct culprit_nccl_profiler_v3 ncclProfiler_v3;
EXPORT culprit_nccl_profiler_v3 ncclProfiler_v3 = {"recorder", init_v3, start_v3, stop, state_v2, finalize};
#endif
#if NEWEST >= 4
extern const struct culprit_nccl_profiler_v4 ncclProfiler_v4;
EXPORT culprit_nccl_profiler_v4 ncclProfiler_v4 = {"recorder", init_v4, start_v4, stop, state_v4, finalize};
#endif
#if NEWEST >= 5
VERSION(5, culprit_nccl_descr_v5)
extern const struct culprit_nccl_profiler_v5 ncclProfiler_v5;
EXPORT culprit_nccl_profiler_v5 ncclProfiler_v5 = {"recorder", init_v5, start_v5, stop, state_v4, finalize};
#endif
#if NEWEST >= 6
VERSION(6, culprit_nccl_descr_v6)
extern const struct culprit_nccl_profiler_v6 ncclProfiler_v6;
EXPORT culprit_nccl_profiler_v6 ncclProfiler_v6 = {"recorder", init_v6, start_v6, stop, state_v4, finalize};
#endif
#if NEWEST >= 7
VERSION(7, culprit_nccl_descr_v6)
extern const struct culprit_nccl_profiler_v7 ncclProfiler_v7;
EXPORT culprit_nccl_profiler_v7 ncclProfiler_v7 = {{"recorder", init_v7, start_v7, stop, state_v4, finalize}, {0}};
#endif
