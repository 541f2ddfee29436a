// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "chain.h"

#include "events.h"
#include "log.h"
#include "profiler_v6.h"
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAIRS (1u << 16)  // In each ring.
#define PAIR_COOKIE 0xcu  // Nibble that marks a pair's handle; the rest is ring and running number.
#define PAIR_RING_SHIFT 58u
#define PAIR_NUMBER_MASK ((UINT64_C(1) << PAIR_RING_SHIFT) - 1)

struct pair {
  uint64_t number;  // Running number of its owner, 0 while it is written.
  handle ours;
  void *theirs;
};

// Steps come a hundred times as often as what lives long enough to be a parent, and must not push that out. Nor must these what has no end
// in sight: communicators, and calls that a CUDA graph launches again and again.
enum ring { RING_LONG = 0, RING_SHORT = 1, RING_COMM = 2, RING_CAPTURED = 3, RINGS = 4 };

static struct {
  uint32_t version;  // Of the other plugin: 2 to 6.
  const void *profiler;
  int events;        // What it asked for, with the parents that NCCL sends along.
  struct pair *rings[RINGS];
  uint64_t next[RINGS];
} chain;

bool chain_on;

#define OTHER(n) ((const struct culprit_nccl_profiler_v##n *)chain.profiler)
#define TO_OTHER(call) \
  switch (chain.version) { \
    case 2: call(2); break; \
    case 3: call(3); break; \
    case 4: call(4); break; \
    case 5: call(5); break; \
    default: call(6); break; \
  }

static void *pair_make(enum ring ring, handle ours, void *theirs) {
  if (ours == 0 && theirs == NULL) return NULL;
  const uint64_t number = __atomic_add_fetch(&chain.next[ring], 1, __ATOMIC_RELAXED);
  struct pair *p = &chain.rings[ring][number % PAIRS];
  PUT(p->number, 0);
  SEQLOCK_STORE_FENCE();
  PUT(p->ours, ours);
  PUT(p->theirs, theirs);
  __atomic_store_n(&p->number, number, __ATOMIC_RELEASE);
  return (void *)(uintptr_t)((uint64_t)PAIR_COOKIE << 60 | (uint64_t)ring << PAIR_RING_SHIFT | (number & PAIR_NUMBER_MASK));
}

// pair_of gives the two sides of a pair's handle, nothing when it is too old or not ours.
static struct pair pair_of(const void *h) {
  struct pair none = {0};
  const uint64_t bits = (uint64_t)(uintptr_t)h;
  const uint64_t number = bits & PAIR_NUMBER_MASK, ring = bits >> PAIR_RING_SHIFT & (RINGS - 1);
  if (bits >> 60 != PAIR_COOKIE || number == 0) return none;
  const struct pair *p = &chain.rings[ring][number % PAIRS];
  if (__atomic_load_n(&p->number, __ATOMIC_ACQUIRE) != number) return none;
  const struct pair found = {.number = number, .ours = GET(p->ours), .theirs = GET(p->theirs)};
  return __atomic_load_n(&p->number, __ATOMIC_ACQUIRE) == number ? found : none;
}

void chain_load(const char *path, uint32_t abi, culprit_nccl_logger logger) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    log_warning(logger, "CULPRIT_CHAIN: %s; no other profiler is called", dlerror());
    return;
  }
  // Its newest version, but none that NCCL itself does not speak yet where it speaks an older one too.
  static const uint32_t newest_first[] = {6, 5, 4, 3, 2};
  for (size_t i = 0; i < sizeof newest_first / sizeof newest_first[0]; i++) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%u", newest_first[i]);
    const void *found = dlsym(library, symbol);
    if (found == NULL) continue;
    chain.profiler = found;
    chain.version = newest_first[i];
    if (newest_first[i] <= abi) break;
  }
  if (chain.profiler == NULL) {
    log_warning(logger, "CULPRIT_CHAIN: %s exports no ncclProfiler_v2 to v6; no other profiler is called", path);
    dlclose(library);
    return;
  }
  for (int i = 0; i < RINGS; i++) {
    chain.rings[i] = shim_map(PAIRS * sizeof *chain.rings[i]);
    if (chain.rings[i] == NULL) {
      log_warning(logger, "CULPRIT_CHAIN: no memory; no other profiler is called");
      return;
    }
  }
  chain_on = true;
  log_info(logger, "calling %s, profiler ABI v%u, as well", path, chain.version);
}

// with_parents adds the parents that NCCL emits along with an event.
static int with_parents(int mask) {
  if ((mask & CULPRIT_NCCL_NET_PLUGIN) != 0) mask |= CULPRIT_NCCL_PROXY_STEP;
  if ((mask & CULPRIT_NCCL_PROXY_STEP) != 0) mask |= CULPRIT_NCCL_PROXY_OP;
  if ((mask & (CULPRIT_NCCL_PROXY_OP | CULPRIT_NCCL_KERNEL_CH)) != 0) mask |= CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P;
  if ((mask & CULPRIT_NCCL_COLL) != 0) mask |= CULPRIT_NCCL_GROUP | CULPRIT_NCCL_COLL_API;
  if ((mask & CULPRIT_NCCL_P2P) != 0) mask |= CULPRIT_NCCL_GROUP | CULPRIT_NCCL_P2P_API;
  if ((mask & (CULPRIT_NCCL_COLL_API | CULPRIT_NCCL_P2P_API)) != 0) mask |= CULPRIT_NCCL_GROUP_API;
  return mask;
}

// known_to_other keeps an event from a version that has no layout for it.
static int known_to_other(int mask) {
  if (chain.version < 6) mask &= CULPRIT_NCCL_CE_COLL - 1;
  if (chain.version < 5) mask &= CULPRIT_NCCL_GROUP_API - 1;
  if (chain.version < 3) mask &= CULPRIT_NCCL_KERNEL_CH - 1;
  return mask;
}

void chain_open(void **context, int *mask, uint64_t comm_id, const char *name, int nnodes, int nranks, int rank,
                culprit_nccl_logger logger) {
  void *theirs = NULL;
  int wanted = 0, failed = 0;
  switch (chain.version) {
    case 2: failed = OTHER(2)->init(&theirs, &wanted); break;
    case 3: failed = OTHER(3)->init(&theirs, &wanted); break;
    case 4: failed = OTHER(4)->init(&theirs, &wanted, name, comm_id, nnodes, nranks, rank, logger); break;
    case 5: failed = OTHER(5)->init(&theirs, comm_id, &wanted, name, nnodes, nranks, rank, logger); break;
    default: failed = OTHER(6)->init(&theirs, comm_id, &wanted, name, nnodes, nranks, rank, logger); break;
  }
  if (failed != 0) {
    log_warning(logger, "CULPRIT_CHAIN: init fails with %d; the other profiler is not called for this communicator", failed);
    theirs = NULL;
    wanted = 0;
  } else {
    __atomic_fetch_or(&chain.events, known_to_other(with_parents(wanted)), __ATOMIC_RELAXED);
    PUT(shim.mask_others, shim.mask_others | (uint32_t)wanted);
    __atomic_fetch_or(mask, wanted, __ATOMIC_RELAXED);
  }
  *context = pair_make(RING_COMM, handle_from_pointer(*context), theirs);
}

void *chain_close(void *context) {
  const struct pair p = pair_of(context);
  if (p.theirs != NULL) {
#define FINALIZE(n) OTHER(n)->finalize(p.theirs)
    TO_OTHER(FINALIZE)
  }
  return handle_to_pointer(p.ours);
}

static void *forward(void *context, struct culprit_nccl_descr_v6 *d, struct chain_comm comm) {
  void *theirs = NULL;
#define FORWARD(n, narrowed) \
  do { \
    struct culprit_nccl_descr_v##n old = narrowed; \
    OTHER(n)->startEvent(context, &theirs, &old); \
  } while (0)
  switch (chain.version) {
    case 2: FORWARD(2, chain_narrow_v2(d, comm)); break;
    case 3: FORWARD(3, chain_narrow_v3(d, comm)); break;
    case 4: FORWARD(4, chain_narrow_v4(d)); break;
    case 5: FORWARD(5, chain_narrow_v5(d)); break;
    default: OTHER(6)->startEvent(context, &theirs, d); break;
  }
  return theirs;
}

// ring_of gives the ring that an event's pair is kept in.
static enum ring ring_of(const struct culprit_nccl_descr_v6 *d) {
  switch (d->type) {
    case CULPRIT_NCCL_PROXY_STEP:
    case CULPRIT_NCCL_NET_PLUGIN:
    case CULPRIT_NCCL_PROXY_CTRL: return RING_SHORT;
    case CULPRIT_NCCL_COLL_API: return d->collApi.graphCaptured ? RING_CAPTURED : RING_LONG;
    case CULPRIT_NCCL_P2P_API: return d->p2pApi.graphCaptured ? RING_CAPTURED : RING_LONG;
    default: return RING_LONG;
  }
}

void chain_start(void *context, void **h, const struct culprit_nccl_descr_v6 *d, struct chain_comm comm) {
  *h = NULL;
  if (d->type == CULPRIT_NCCL_PROXY_OP && d->proxyOp.pid != shim.pid) return;  // All pointers are another process'.
  const struct pair comm_pair = pair_of(context), parent = pair_of(d->parentObj);
  struct culprit_nccl_descr_v6 ours = *d, theirs = *d;
  ours.parentObj = handle_to_pointer(parent.ours);
  theirs.parentObj = parent.theirs;
  if (d->type == CULPRIT_NCCL_COLL) {
    const struct pair group = pair_of(d->coll.parentGroup);
    ours.coll.parentGroup = handle_to_pointer(group.ours);
    theirs.coll.parentGroup = group.theirs;
  } else if (d->type == CULPRIT_NCCL_P2P) {
    const struct pair group = pair_of(d->p2p.parentGroup);
    ours.p2p.parentGroup = handle_to_pointer(group.ours);
    theirs.p2p.parentGroup = group.theirs;
  }
  handle our_handle = 0;
  if (d->type == CULPRIT_NCCL_GROUP || (d->type & shim.mask_wanted) != 0) {
    if (comm.comm_hash != 0) event_identify(comm_pair.ours, comm.comm_hash, comm.name, d->rank);
    our_handle = profiler_v6_start(comm_pair.ours, &ours);
  }
  void *their_handle = NULL;
  if (comm_pair.theirs != NULL && (d->type & (uint64_t)(unsigned)GET(chain.events)) != 0) {
    their_handle = forward(comm_pair.theirs, &theirs, comm);
  }
  *h = pair_make(ring_of(d), our_handle, their_handle);
}

void chain_stop(void *h) {
  const struct pair p = pair_of(h);
  event_stop(p.ours);
  if (p.theirs == NULL) return;
#define STOP(n) OTHER(n)->stopEvent(p.theirs)
  TO_OTHER(STOP)
}

static void forward_state(void *theirs, int state, union culprit_nccl_state_args_v2 *old, uint64_t value) {
  if (theirs == NULL) return;
  union culprit_nccl_state_args args = {.kernelCh = {.pTimer = value}};
  switch (chain.version) {
    case 2:
      if (state < CULPRIT_NCCL_PROXY_OP_IN_PROGRESS) OTHER(2)->recordEventState(theirs, state, old);
      return;
    case 3:
      if (state < CULPRIT_NCCL_PROXY_OP_IN_PROGRESS) OTHER(3)->recordEventState(theirs, state, old);
      return;
    case 4:
      if (state < CULPRIT_NCCL_GROUP_START_API_STOP) OTHER(4)->recordEventState(theirs, state, &args);
      return;
    case 5: OTHER(5)->recordEventState(theirs, state, &args); return;
    default: OTHER(6)->recordEventState(theirs, state, &args); return;
  }
}

void chain_state(void *h, int state, uint64_t value) {
  const struct pair p = pair_of(h);
  event_state(p.ours, state, value);
  union culprit_nccl_state_args_v2 old = {.proxyOp = {.transSize = value}};
  forward_state(p.theirs, state, &old, value);
}

void chain_state_proxy_op(void *h, int state, union culprit_nccl_state_args_v2 *args) {
  const struct pair p = pair_of(h);
  event_state_proxy_op(p.ours, state, args);
  forward_state(p.theirs, state, args, args->proxyOp.transSize);
}
