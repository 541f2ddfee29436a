// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl.h"

#include "harness.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int nccl_abi;
int nccl_mask;
char nccl_log[4096];
static void *library;
static const void *profiler;

// Versions 2 and 3 name the communicator with each operation.
static struct init_args {
  uint64_t comm_id;
  const char *name;
  int rank;
} init_args;

static void log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
  (void)flags, (void)file, (void)line;
  if (level > CULPRIT_NCCL_LOG_WARN) return;
  const size_t used = strlen(nccl_log);
  va_list args;
  va_start(args, format);
  vsnprintf(nccl_log + used, sizeof nccl_log - used, format, args);
  va_end(args);
}

culprit_nccl_logger nccl_logger = log_line;

#define V(n) ((const struct culprit_nccl_profiler_v##n *)profiler)
#define EACH(expression2, expression3, expression4, expression5, expression6) \
  switch (nccl_abi) { \
    case 2: expression2; break; \
    case 3: expression3; break; \
    case 4: expression4; break; \
    case 5: expression5; break; \
    case 6: case 7: expression6; break; \
    default: harness_fail(__FILE__, __LINE__, "no driver for ABI %d", nccl_abi); \
  }
#define SAME(expression) EACH(expression(2), expression(3), expression(4), expression(5), expression(6))
#define NOTHING (void)0

void nccl_load(int abi) {
  const char *path = getenv("PLUGIN");
  if (path == NULL) harness_fail(__FILE__, __LINE__, "PLUGIN does not name the plugin");
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) harness_fail(__FILE__, __LINE__, "dlopen: %s", dlerror());
  char symbol[32];
  snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", abi);
  profiler = dlsym(library, symbol);
  if (profiler == NULL) harness_fail(__FILE__, __LINE__, "dlsym: %s", dlerror());
  nccl_abi = abi;
}

void nccl_unload(void) { dlclose(library); }

void *nccl_init(uint64_t id, const char *name, int nnodes, int nranks, int rank) {
  void *context = NULL;
  int result = 0;
  if (nccl_abi < 4) init_args = (struct init_args){.comm_id = id, .name = name, .rank = rank};
  EACH(result = V(2)->init(&context, &nccl_mask), result = V(3)->init(&context, &nccl_mask),
       result = V(4)->init(&context, &nccl_mask, name, id, nnodes, nranks, rank, nccl_logger),
       result = V(5)->init(&context, id, &nccl_mask, name, nnodes, nranks, rank, nccl_logger),
       result = V(6)->init(&context, id, &nccl_mask, name, nnodes, nranks, rank, nccl_logger))
  CHECK_EQ(result, CULPRIT_NCCL_SUCCESS);
  return context;
}

#define FINALIZE(n) V(n)->finalize(context)
void nccl_finalize(void *context) { SAME(FINALIZE) }

// start raises an event. Like NCCL it leaves junk in the handle variable: the plugin must write it.
#define START(n, event, parent, ...) \
  do { \
    struct culprit_nccl_descr_v##n d = {.type = (event), .parentObj = (parent), __VA_ARGS__}; \
    CHECK_EQ(V(n)->startEvent(context, &h, &d), CULPRIT_NCCL_SUCCESS); \
  } while (0)
#define JUNK ((void *)(uintptr_t)0xdeadbeefdeadbeefu)

void *nccl_group_api(void *context) {
  if (nccl_abi < 5) return NULL;
  void *h = JUNK;
  EACH(NOTHING, NOTHING, NOTHING, START(5, CULPRIT_NCCL_GROUP_API, NULL, .groupApi = {.groupDepth = 1}),
       START(6, CULPRIT_NCCL_GROUP_API, NULL, .groupApi = {.groupDepth = 1}))
  return h;
}

void *nccl_group(void *context, void *group_api) {
  void *h = JUNK;
#define GROUP(n) START(n, CULPRIT_NCCL_GROUP, group_api, .rank = 0)
  SAME(GROUP)
  return h;
}

static const char *or_else(const char *text, const char *other) { return text != NULL ? text : other; }

static struct nccl_op filled(const struct nccl_op *op) {
  struct nccl_op o = *op;
  o.func = or_else(o.func, "AllReduce");
  o.datatype = or_else(o.datatype, "ncclFloat32");
  o.algo = or_else(o.algo, "RING");
  o.proto = or_else(o.proto, "SIMPLE");
  return o;
}

void *nccl_call(void *context, void *group_api, const struct nccl_op *op) {
  if (nccl_abi < 5) return NULL;
  const struct nccl_op o = filled(op);
  void *h = JUNK;
#define COLL_API {.func = o.func, .count = o.count, .datatype = o.datatype, .root = o.root, .graphCaptured = o.captured}
#define P2P_API {.func = o.func, .count = o.count, .datatype = o.datatype, .graphCaptured = o.captured}
  if (o.p2p) {
    EACH(NOTHING, NOTHING, NOTHING, START(5, CULPRIT_NCCL_P2P_API, group_api, .p2pApi = P2P_API),
         START(6, CULPRIT_NCCL_P2P_API, group_api, .p2pApi = P2P_API))
  } else {
    EACH(NOTHING, NOTHING, NOTHING, START(5, CULPRIT_NCCL_COLL_API, group_api, .collApi = COLL_API),
         START(6, CULPRIT_NCCL_COLL_API, group_api, .collApi = COLL_API))
  }
  return h;
}

void *nccl_launch(void *context, void *call, void *group, const struct nccl_op *op) {
  const struct nccl_op o = filled(op);
  const uint8_t channels = (uint8_t)o.channels;
  void *h = JUNK;
#define COLL .seqNumber = o.seq, .func = o.func, .count = o.count, .root = o.root, .datatype = o.datatype, \
             .nChannels = channels, .algo = o.algo, .proto = o.proto
#define COLL_OLD .name = init_args.name, .commHash = init_args.comm_id, .seqNumber = o.seq, .func = o.func, .count = o.count, \
                 .root = o.root, .datatype = o.datatype, .nMaxChannels = channels, .algo = o.algo, .proto = o.proto
#define P2P_OLD .name = init_args.name, .commHash = init_args.comm_id, .func = o.func, .datatype = o.datatype, \
                .count = o.count, .peer = o.peer
#define P2P .func = o.func, .datatype = o.datatype, .count = o.count, .peer = o.peer, .nChannels = channels
  if (o.p2p) {
    EACH(START(2, CULPRIT_NCCL_P2P, group, .rank = init_args.rank, .p2p = {P2P_OLD}),
         START(3, CULPRIT_NCCL_P2P, group, .rank = init_args.rank, .p2p = {P2P_OLD}),
         START(4, CULPRIT_NCCL_P2P, group, .p2p = {P2P}),
         START(5, CULPRIT_NCCL_P2P, call, .p2p = {P2P, .parentGroup = group}),
         START(6, CULPRIT_NCCL_P2P, call, .p2p = {P2P, .parentGroup = group}))
  } else {
    EACH(START(2, CULPRIT_NCCL_COLL, group, .rank = init_args.rank, .coll = {COLL_OLD}),
         START(3, CULPRIT_NCCL_COLL, group, .rank = init_args.rank, .coll = {COLL_OLD}),
         START(4, CULPRIT_NCCL_COLL, group, .coll = {COLL}),
         START(5, CULPRIT_NCCL_COLL, call, .coll = {COLL, .parentGroup = group}),
         START(6, CULPRIT_NCCL_COLL, call, .coll = {COLL, .parentGroup = group}))
  }
  return h;
}

void *nccl_ce(void *context, void *call, const struct nccl_op *op) {
  const struct nccl_op o = filled(op);
  void *h = JUNK;
  CHECK(nccl_abi >= 6);
  START(6, CULPRIT_NCCL_CE_COLL, call,
        .ceColl = {.seqNumber = o.seq, .func = o.func, .count = o.count, .datatype = o.datatype});
  return h;
}

void *nccl_proxy_of(void *context, void *op, int pid, int channel, int peer, int steps, int is_send) {
  void *h = JUNK;
#define PROXY(n) \
  START(n, CULPRIT_NCCL_PROXY_OP, op, \
        .proxyOp = {.pid = pid, .channelId = (uint8_t)channel, .peer = peer, .nSteps = steps, .chunkSize = 1 << 20, \
                    .isSend = is_send})
  SAME(PROXY)
  return h;
}

void *nccl_proxy(void *context, void *op, int channel, int peer, int steps, int is_send) {
  return nccl_proxy_of(context, op, getpid(), channel, peer, steps, is_send);
}

void *nccl_step(void *context, void *proxy, int step) {
  void *h = JUNK;
#define STEP(n) START(n, CULPRIT_NCCL_PROXY_STEP, proxy, .proxyStep = {.step = step})
  SAME(STEP)
  return h;
}

void *nccl_kernel(void *context, void *op, int channel, uint64_t timer) {
  void *h = JUNK;
#define KERNEL(n) START(n, CULPRIT_NCCL_KERNEL_CH, op, .kernelCh = {.channelId = (uint8_t)channel, .pTimer = timer})
  EACH(h = NULL, START(3, CULPRIT_NCCL_KERNEL_CH, op, .kernelCh = {.channelId = (uint8_t)channel}), KERNEL(4), KERNEL(5),
       KERNEL(6))
  return h;
}

void nccl_proxy_state(void *h, int state, uint64_t bytes, int steps) {
  union culprit_nccl_state_args_v2 args = {.proxyOp = {.transSize = bytes, .steps = steps}};
  if (nccl_abi == 2) V(2)->recordEventState(h, state, &args);
  if (nccl_abi == 3) V(3)->recordEventState(h, state, &args);
}

void nccl_state(void *h, int state, uint64_t value) {
  union culprit_nccl_state_args args = {.kernelCh = {.pTimer = value}};
#define STATE(n) V(n)->recordEventState(h, state, &args)
#define STATE_OLD(n) V(n)->recordEventState(h, state, NULL)  // The steps of versions 2 and 3 come without arguments.
  EACH(STATE_OLD(2), STATE_OLD(3), STATE(4), STATE(5), STATE(6))
}

void nccl_stop(void *h) {
#define STOP(n) V(n)->stopEvent(h)
  SAME(STOP)
}

void *nccl_op_simple(void *context, const struct nccl_op *op) {
  void *group_api = nccl_group_api(context);
  void *call = nccl_call(context, group_api, op);
  nccl_stop(call);
  void *group = nccl_group(context, group_api);
  void *launch = nccl_launch(context, call, group, op);
  nccl_stop(launch);
  nccl_stop(group);
  nccl_stop(group_api);
  return launch;
}

void nccl_send_steps(void *context, void *proxy, int from, int to, uint64_t bytes) {
  for (int i = from; i < to; i++) {
    void *s = nccl_step(context, proxy, i);
    nccl_state(s, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
    nccl_state(s, CULPRIT_NCCL_SEND_PEER_WAIT, 0);
    nccl_state(s, CULPRIT_NCCL_SEND_WAIT, bytes);
    nccl_stop(s);
  }
}

void nccl_recv_steps(void *context, void *proxy, int from, int to, uint64_t bytes) {
  for (int i = from; i < to; i++) {
    void *s = nccl_step(context, proxy, i);
    nccl_state(s, CULPRIT_NCCL_RECV_WAIT, 0);
    nccl_state(s, CULPRIT_NCCL_RECV_FLUSH_WAIT, bytes);
    nccl_state(s, CULPRIT_NCCL_RECV_GPU_WAIT, 0);
    nccl_stop(s);
  }
}

void nccl_kernels(void *context, void *op, int channels, uint64_t gpu_ns) {
  for (int c = 0; c < channels; c++) {
    void *k = nccl_kernel(context, op, c, 1000);
    nccl_state(k, CULPRIT_NCCL_KERNEL_CH_STOP, 1000 + gpu_ns);
    nccl_stop(k);
  }
}
