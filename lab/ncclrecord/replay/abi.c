// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "abi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../ncclshim/profiler_abi.h"

// Texts of a descriptor; NCCL's live as long as the library.
struct texts {
  char name[64], func[32], datatype[32], algo[32], proto[32], variant[64];
};

static const struct culprit_nccl_profiler_v2 *v2;
static const struct culprit_nccl_profiler_v3 *v3;
static const struct culprit_nccl_profiler_v4 *v4;
static const struct culprit_nccl_profiler_v5 *v5;
static const struct culprit_nccl_profiler_v6 *v6;  // And v7, which begins as v6 does.

static void logger(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
  (void)level, (void)flags, (void)file, (void)line, (void)format;
}

static int number(const struct line *l, const char *key) { return (int)line_number(l, key); }
static void *address(const struct line *l, const char *key) { return (void *)(uintptr_t)line_number(l, key); }

static struct culprit_nccl_proxy_op proxy_op(const struct line *l) {
  char pid[8] = "";
  const bool own = strcmp(line_text(l, "pid", pid, sizeof pid) ? pid : "", "own") == 0;
  return (struct culprit_nccl_proxy_op){.pid = own ? getpid() : getpid() + 1,
                                        .channelId = (uint8_t)number(l, "channel"),
                                        .peer = number(l, "peer"),
                                        .nSteps = number(l, "steps"),
                                        .chunkSize = number(l, "chunk"),
                                        .isSend = number(l, "send")};
}

static uint64_t timer(const struct start *s) {
  const uint64_t since = line_number(s->line, "timer");
  return since ? (uint64_t)s->began_real_ns + since : 0;
}

// Members that the descriptors share under different layouts.
#define FILL_HEAD(d, kind)                          \
  do {                                              \
    (d).type = (kind)s->type;                       \
    (d).parentObj = s->parent;                      \
    (d).rank = number(l, "rank");                   \
  } while (0)

#define FILL_COLL(c)                                                    \
  do {                                                                  \
    (c).seqNumber = line_number(l, "seq");                              \
    (c).func = line_text(l, "func", t.func, sizeof t.func);             \
    (c).sendBuff = address(l, "from");                                  \
    (c).recvBuff = address(l, "to");                                    \
    (c).count = line_number(l, "count");                                \
    (c).root = number(l, "root");                                       \
    (c).datatype = line_text(l, "datatype", t.datatype, sizeof t.datatype); \
    (c).nWarps = (uint8_t)number(l, "warps");                           \
    (c).algo = line_text(l, "algo", t.algo, sizeof t.algo);             \
    (c).proto = line_text(l, "proto", t.proto, sizeof t.proto);         \
  } while (0)

#define FILL_P2P(p)                                                     \
  do {                                                                  \
    (p).func = line_text(l, "func", t.func, sizeof t.func);             \
    (p).buff = address(l, "buff");                                      \
    (p).datatype = line_text(l, "datatype", t.datatype, sizeof t.datatype); \
    (p).count = line_number(l, "count");                                \
    (p).peer = number(l, "peer");                                       \
  } while (0)

#define FILL_COMM(m)                                                    \
  do {                                                                  \
    (m).name = line_text(l, "name", t.name, sizeof t.name);             \
    (m).commHash = line_number(l, "comm");                              \
  } while (0)

// Versions 2 and 3.
#define OLD(n, kernel)                                                                         \
  static int init_v##n(void **context, int *mask, const struct line *l) {                      \
    (void)l;                                                                                   \
    return v##n->init(context, mask);                                                          \
  }                                                                                            \
  static void start_v##n(const struct start *s, void **handle) {                               \
    const struct line *l = s->line;                                                            \
    struct texts t;                                                                            \
    struct culprit_nccl_descr_v##n d = {0};                                                    \
    FILL_HEAD(d, uint8_t);                                                                     \
    switch (s->type) {                                                                         \
      case CULPRIT_NCCL_COLL:                                                                  \
        FILL_COMM(d.coll);                                                                     \
        FILL_COLL(d.coll);                                                                     \
        d.coll.nMaxChannels = (uint8_t)number(l, "max_channels");                              \
        break;                                                                                 \
      case CULPRIT_NCCL_P2P:                                                                   \
        FILL_COMM(d.p2p);                                                                      \
        FILL_P2P(d.p2p);                                                                       \
        break;                                                                                 \
      case CULPRIT_NCCL_PROXY_OP: d.proxyOp = proxy_op(l); break;                              \
      case CULPRIT_NCCL_PROXY_STEP: d.proxyStep.step = number(l, "step"); break;               \
      kernel                                                                                   \
      default: break;                                                                          \
    }                                                                                          \
    v##n->startEvent(s->context, handle, &d);                                                  \
  }                                                                                            \
  static void state_v##n(void *handle, int state, const char *value, int64_t began_real_ns) {  \
    (void)began_real_ns;                                                                       \
    const char *steps = strchr(value, '/');                                                    \
    union culprit_nccl_state_args_v2 args = {0};                                               \
    args.proxyOp.transSize = strtoull(value, NULL, 10);                                        \
    if (steps) args.proxyOp.steps = atoi(steps + 1);                                           \
    v##n->recordEventState(handle, state, *value == '-' ? NULL : &args);                       \
  }

OLD(2, )
OLD(3, case CULPRIT_NCCL_KERNEL_CH: d.kernelCh.channelId = (uint8_t)number(l, "channel"); break;)

// Version 4 on.
static union culprit_nccl_state_args args_v4(int state, const char *value, int64_t began_real_ns) {
  union culprit_nccl_state_args args = {.kernelCh.pTimer = strtoull(value, NULL, 10)};
  if (state == CULPRIT_NCCL_KERNEL_CH_STOP && args.kernelCh.pTimer) args.kernelCh.pTimer += (uint64_t)began_real_ns;
  return args;
}

#define STATE(n)                                                                               \
  static void state_v##n(void *handle, int state, const char *value, int64_t began_real_ns) {  \
    union culprit_nccl_state_args args = args_v4(state, value, began_real_ns);                 \
    v##n->recordEventState(handle, state, *value == '-' ? NULL : &args);                       \
  }

STATE(4)
STATE(5)
STATE(6)

static int init_v4(void **context, int *mask, const struct line *l) {
  char name[64];
  return v4->init(context, mask, line_text(l, "name", name, sizeof name), line_number(l, "comm"), number(l, "nodes"),
                  number(l, "ranks"), number(l, "rank"), logger);
}

static void start_v4(const struct start *s, void **handle) {
  const struct line *l = s->line;
  struct texts t;
  struct culprit_nccl_descr_v4 d = {0};
  FILL_HEAD(d, uint8_t);
  switch (s->type) {
    case CULPRIT_NCCL_COLL:
      FILL_COLL(d.coll);
      d.coll.nChannels = (uint8_t)number(l, "channels");
      break;
    case CULPRIT_NCCL_P2P:
      FILL_P2P(d.p2p);
      d.p2p.nChannels = (uint8_t)number(l, "channels");
      break;
    case CULPRIT_NCCL_PROXY_OP: d.proxyOp = proxy_op(l); break;
    case CULPRIT_NCCL_PROXY_STEP: d.proxyStep.step = number(l, "step"); break;
    case CULPRIT_NCCL_KERNEL_CH:
      d.kernelCh.channelId = (uint8_t)number(l, "channel");
      d.kernelCh.pTimer = timer(s);
      break;
    default: break;
  }
  v4->startEvent(s->context, handle, &d);
}

static void fill_call(struct culprit_nccl_descr_v6 *d, const struct start *s, struct texts *t) {
  const struct line *l = s->line;
  const char *func = line_text(l, "func", t->func, sizeof t->func);
  const char *datatype = line_text(l, "datatype", t->datatype, sizeof t->datatype);
  if (s->type == CULPRIT_NCCL_COLL_API) {
    d->collApi = (struct culprit_nccl_coll_api){func, line_number(l, "count"), datatype, number(l, "root"),
                                                address(l, "stream"), line_number(l, "graph") != 0};
  } else if (s->type == CULPRIT_NCCL_P2P_API) {
    d->p2pApi = (struct culprit_nccl_p2p_api){func, line_number(l, "count"), datatype, address(l, "stream"),
                                              line_number(l, "graph") != 0};
  } else if (s->type == CULPRIT_NCCL_GROUP_API) {
    d->groupApi = (struct culprit_nccl_group_api){line_number(l, "graph") != 0, number(l, "depth")};
  } else if (s->type == CULPRIT_NCCL_KERNEL_LAUNCH) {
    d->kernelLaunch.stream = address(l, "stream");
  }
}

// The descriptors of v5 to v7 begin alike; v7's is the longest.
union longest {
  struct culprit_nccl_descr_v5 v5;
  struct culprit_nccl_descr_v6 v6;
  struct culprit_nccl_descr_v7 v7;
};

static void fill_v6(union longest *all, const struct start *s, struct texts *into) {
  const struct line *l = s->line;
  struct culprit_nccl_descr_v6 *d = &all->v6;
#define t (*into)
  FILL_HEAD(*d, uint64_t);
  switch (s->type) {
    case CULPRIT_NCCL_COLL:
      FILL_COLL(d->coll);
      d->coll.nChannels = (uint8_t)number(l, "channels");
      d->coll.parentGroup = s->group;
      break;
    case CULPRIT_NCCL_P2P:
      FILL_P2P(d->p2p);
      d->p2p.nChannels = (uint8_t)number(l, "channels");
      d->p2p.parentGroup = s->group;
      break;
    case CULPRIT_NCCL_PROXY_OP: d->proxyOp = proxy_op(l); break;
    case CULPRIT_NCCL_PROXY_STEP: d->proxyStep.step = number(l, "step"); break;
    case CULPRIT_NCCL_KERNEL_CH:
      d->kernelCh.channelId = (uint8_t)number(l, "channel");
      d->kernelCh.pTimer = timer(s);
      break;
    case CULPRIT_NCCL_KERNEL_PHASE:
      all->v7.kernelPhase.channelId = (uint8_t)number(l, "channel");
      all->v7.kernelPhase.phaseId = (uint8_t)number(l, "phase");
      all->v7.kernelPhase.phaseName = line_text(l, "phase_name", t.variant, sizeof t.variant);
      all->v7.kernelPhase.pTimer = timer(s);
      break;
    default: fill_call(d, s, into); break;
  }
#undef t
}

static int init_v5(void **context, int *mask, const struct line *l) {
  char name[64];
  return v5->init(context, line_number(l, "comm"), mask, line_text(l, "name", name, sizeof name), number(l, "nodes"),
                  number(l, "ranks"), number(l, "rank"), logger);
}

static void start_v5(const struct start *s, void **handle) {
  struct texts t;
  union longest d = {.v7 = {0}};
  fill_v6(&d, s, &t);
  v5->startEvent(s->context, handle, &d.v5);
}

static int init_v6(void **context, int *mask, const struct line *l) {
  char name[64];
  return v6->init(context, line_number(l, "comm"), mask, line_text(l, "name", name, sizeof name), number(l, "nodes"),
                  number(l, "ranks"), number(l, "rank"), logger);
}

static void start_v6(const struct start *s, void **handle) {
  struct texts t;
  union longest d = {.v7 = {0}};
  fill_v6(&d, s, &t);
  v6->startEvent(s->context, handle, &d.v6);
}

#define USE(n, symbol, as)                                                                                          \
  case n:                                                                                                           \
    as = dlsym(abi->plugin, symbol);                                                                                \
    if (!as) return false;                                                                                          \
    *abi = (struct abi){abi->plugin, n, init_##as, start_##as, state_##as, as->stopEvent, as->finalize};            \
    return true;

bool abi_find(struct abi *abi, int version) {
  switch (version) {
    USE(2, CULPRIT_NCCL_SYMBOL_V2, v2)
    USE(3, CULPRIT_NCCL_SYMBOL_V3, v3)
    USE(4, CULPRIT_NCCL_SYMBOL_V4, v4)
    USE(5, CULPRIT_NCCL_SYMBOL_V5, v5)
    USE(6, CULPRIT_NCCL_SYMBOL_V6, v6)
    USE(7, CULPRIT_NCCL_SYMBOL_V7, v6)
    default: return false;
  }
}
