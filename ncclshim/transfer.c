// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "transfer.h"

#include "shim.h"

void transfer_begin(uint32_t proxy, uint32_t step, uint64_t bytes, uint64_t now) {
  struct transfer_starts *t = &shim.transfer_starts[proxy];
  t->at_ns[step % TRANSFERS_OPEN] = now;
  t->bytes[step % TRANSFERS_OPEN] = (uint32_t)bytes;
}

void transfer_end(uint32_t proxy, uint32_t step, uint64_t bytes, uint64_t now) {
  struct transfer_starts *t = &shim.transfer_starts[proxy];
  const struct proxy_ctl *p = &shim.proxies[proxy];
  const uint64_t began = t->at_ns[step % TRANSFERS_OPEN];
  if (began == 0) return;  // Its start was lost.
  t->at_ns[step % TRANSFERS_OPEN] = 0;

  const uint64_t n = __atomic_fetch_add(&shim.file.header->transfers_head, 1, __ATOMIC_RELAXED);
  struct culprit_transfer *to = trace_transfer(&shim.file, n);
  PUT(to->ticket, 0);
  SEQLOCK_STORE_FENCE();
  PUT(to->flow_index, p->flow);
  PUT(to->flow_generation, shim.flows[p->flow].generation);
  PUT(to->op_number, p->number);
  PUT(to->step, step);
  PUT(to->bytes, bytes != 0 ? (uint32_t)bytes : t->bytes[step % TRANSFERS_OPEN]);
  PUT(to->started_ns, began);
  PUT(to->ended_ns, now);
  __atomic_store_n(&to->ticket, n + 1, __ATOMIC_RELEASE);
}
