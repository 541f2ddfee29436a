// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "fault_model.h"

#include <stdlib.h>

#include "clock.h"
#include "comm.h"
#include "conn.h"
#include "options.h"
#include "program.h"
#include "proxy.h"

static bool begins(struct fault *f) {
  switch (f->kind) {
    case LINK_STALL:
    case LINK_SLOW:
    case FLUSH_STALL:
    case FLUSH_SLOW:
    case GPU_SLOW:
    case PROXY_DELAY: return true;
    default: return false;
  }
}

static void ends(struct fault *f) {
  (void)f;
  proxy_wake_all();
}

#define KIND(k) (1ull << (k))

const struct program program = {
    .name = "ringjob",
    .kinds = KIND(LINK_STALL) | KIND(LINK_SLOW) | KIND(FLUSH_STALL) | KIND(FLUSH_SLOW) | KIND(GPU_FREEZE) | KIND(GPU_SLOW) |
             KIND(KERNEL_STALL) | KIND(PROXY_DELAY) | KIND(OP_NOT_ENTERED) | KIND(GROUP_STALL) | KIND(OTHER_OP) |
             KIND(SWAP_ORDER) | KIND(STOP) | KIND(KILL) | KIND(EXIT) | KIND(CHECKPOINT) | KIND(FIRST_STEP) | KIND(DATA_LATE),
    .usage = options_usage,
    .fault_begins = begins,
    .fault_ends = ends,
    .aborting = proxy_wake_all,
};

void fault_before_launch(const struct comm *comm) { fault_hold(GROUP_STALL, comm->name, false); }

void fault_before_kernel(const struct comm *comm) { fault_hold(KERNEL_STALL, comm->name, false); }

double fault_compute_factor(void) {
  const struct fault *f = fault_find(GPU_SLOW, NULL);
  return f ? f->value : 1;
}

bool fault_gpu_frozen(const struct comm *comm, uint64_t slices, uint64_t total) {
  struct fault *f = fault_find(GPU_FREEZE, comm->name);
  // In the middle: after the first slice where there is more than one.
  if (!f || (!atomic_load(&f->felt) && slices == 0 && total > 1)) return false;
  fault_feel(f);
  return true;
}

static uint64_t milliseconds(const struct fault *f) { return f ? (uint64_t)(f->value * (double)NS_PER_MS) : 0; }

uint64_t fault_proxy_delay(void) { return milliseconds(fault_find(PROXY_DELAY, NULL)); }

bool fault_flush_stalled(const struct comm *comm) { return fault_find(FLUSH_STALL, comm->name) != NULL; }

uint64_t fault_flush_delay(const struct comm *comm) { return milliseconds(fault_find(FLUSH_SLOW, comm->name)); }

static const struct fault *find_link(enum fault_kind kind, const struct conn *conn) {
  const struct comm *comm = conn->comm;
  return conn->net ? fault_find_link(kind, comm->name, comm->members[conn->peer], conn->channel) : NULL;
}

bool fault_link_stalled(const struct conn *conn) { return find_link(LINK_STALL, conn) != NULL; }

double fault_link_share(const struct conn *conn) {
  const struct fault *f = find_link(LINK_SLOW, conn);
  return f ? f->value : 1;
}
