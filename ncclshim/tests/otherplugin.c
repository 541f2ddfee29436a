// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Another vendor's profiler plugin, of ABI version VERSION (a macro): hands out pointers to its own records and counts
// what does not fit together.

#include "otherplugin.h"

#include "../profiler_abi.h"

#include <stdlib.h>
#include <string.h>

#define PASTE(a, b) a##b
#define NAMED(prefix, n) PASTE(prefix, n)
#define DESCR struct NAMED(culprit_nccl_descr_v, VERSION)
#define PROFILER struct NAMED(culprit_nccl_profiler_v, VERSION)
#define SYMBOL NAMED(ncclProfiler_v, VERSION)
#if VERSION < 4
#define ARGS union culprit_nccl_state_args_v2
#else
#define ARGS union culprit_nccl_state_args
#endif

#define MAGIC 0x07e9u

struct record {
  unsigned magic;
  unsigned type;
  unsigned stopped;
};

struct other_counts other_counts;

#define RECORDS 1024  // Reused in turn.
static struct record records[RECORDS];
static unsigned next_record;
static struct record context_record = {.magic = MAGIC};

static int open_context(void **context, int *mask) {
  const char *fail = getenv("OTHER_FAILS");
  if (fail != NULL) return 3;
  other_counts.inits++;
  *context = &context_record;
  const char *wanted = getenv("OTHER_MASK");
  *mask = wanted == NULL ? 0x7fff : atoi(wanted);
  return 0;
}

#if VERSION < 4
static int init(void **context, int *mask) { return open_context(context, mask); }
#elif VERSION == 4
static int init(void **context, int *mask, const char *name, uint64_t hash, int nnodes, int nranks, int rank,
                culprit_nccl_logger logger) {
  (void)name, (void)nnodes, (void)rank, (void)logger;
  other_counts.comm_id = hash;
  other_counts.nranks = nranks;
  return open_context(context, mask);
}
#else
static int init(void **context, uint64_t id, int *mask, const char *name, int nnodes, int nranks, int rank,
                culprit_nccl_logger logger) {
  (void)name, (void)nnodes, (void)rank, (void)logger;
  other_counts.comm_id = id;
  other_counts.nranks = nranks;
  return open_context(context, mask);
}
#endif

static const struct record *own(const void *p) {
  const struct record *r = p;
  if (r == NULL) return NULL;
  if (r->magic != MAGIC) {
    other_counts.wrong++;
    return NULL;
  }
  return r;
}

static void check_parent(const void *parent, unsigned wanted) {
  const struct record *r = own(parent);
  if (r == NULL) {
    other_counts.orphans++;
  } else if ((r->type & wanted) == 0) {
    other_counts.wrong++;
  }
}

static int start(void *context, void **h, DESCR *d) {
  if (context != &context_record) other_counts.wrong++;
  unsigned bit = 0;
  while (bit < 15 && (d->type >> bit) != 1) bit++;
  other_counts.starts[bit]++;
  switch (d->type) {
    case CULPRIT_NCCL_COLL:
      if (strcmp(d->coll.func, "AllReduce") != 0 || d->coll.seqNumber != 5 || d->coll.count != 64) other_counts.wrong++;
#if VERSION < 4
      if (d->coll.commHash != 0) other_counts.comm_id = d->coll.commHash;
#endif
#if VERSION < 5
      check_parent(d->parentObj, CULPRIT_NCCL_GROUP);
#else
      check_parent(d->coll.parentGroup, CULPRIT_NCCL_GROUP);
      if (getenv("OTHER_CALLS") != NULL) check_parent(d->parentObj, CULPRIT_NCCL_COLL_API);
#endif
      break;
    case CULPRIT_NCCL_PROXY_OP:
      check_parent(d->parentObj, CULPRIT_NCCL_COLL);
      if (d->proxyOp.nSteps != 2 || d->proxyOp.peer != 1) other_counts.wrong++;
      break;
    case CULPRIT_NCCL_PROXY_STEP: check_parent(d->parentObj, CULPRIT_NCCL_PROXY_OP); break;
    case CULPRIT_NCCL_KERNEL_CH: check_parent(d->parentObj, CULPRIT_NCCL_COLL); break;
    default: break;
  }
  struct record *r = &records[next_record++ % RECORDS];
  r->stopped = 0;
  r->magic = MAGIC;
  r->type = (unsigned)d->type;
  *h = r;
  return 0;
}

static int stop(void *h) {
  struct record *r = h;
  if (own(h) == NULL) return 0;
  other_counts.stops++;
  if (r->stopped++ != 0) other_counts.wrong++;
  return 0;
}

static int state(void *h, int s, ARGS *args) {
  (void)args;
  if (own(h) == NULL) return 0;
  other_counts.states++;
#if VERSION >= 4
  if (s == CULPRIT_NCCL_SEND_WAIT) other_counts.bytes += args->proxyStep.transSize;
#else
  if (s >= CULPRIT_NCCL_PROXY_OP_IN_PROGRESS) other_counts.wrong++;
#endif
  return 0;
}

static int finalize(void *context) {
  if (context != &context_record) other_counts.wrong++;
  other_counts.finalizes++;
  return 0;
}

extern const PROFILER SYMBOL;
const PROFILER SYMBOL = {
    .name = "Other",
    .init = init,
    .startEvent = start,
    .stopEvent = stop,
    .recordEventState = state,
    .finalize = finalize,
};
