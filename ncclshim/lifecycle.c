// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "lifecycle.h"

#include "shim.h"

void lifecycle_note(enum culprit_lifecycle_kind kind, uint64_t at_ns, uint32_t comm_index, uint64_t comm_id,
                    uint64_t arg0, const char *text) {
  const uint64_t n = __atomic_fetch_add(&shim.file.header->lifecycle_head, 1, __ATOMIC_RELAXED);
  struct culprit_lifecycle *l = trace_lifecycle(&shim.file, n);
  PUT(l->ticket, 0);
  SEQLOCK_STORE_FENCE();
  PUT(l->at_ns, at_ns);
  PUT(l->kind, (uint32_t)kind);
  PUT(l->comm_index, comm_index);
  PUT(l->comm_id, comm_id);
  PUT(l->arg0, arg0);
  put_text(l->text, text, sizeof l->text);
  __atomic_store_n(&l->ticket, n + 1, __ATOMIC_RELEASE);
}

void lifecycle_dropped(enum culprit_section_kind table, uint64_t at_ns) {
  const uint32_t bit = 1u << table;
  if ((GET(shim.dropped_kinds) & bit) != 0) return;
  if ((__atomic_fetch_or(&shim.dropped_kinds, bit, __ATOMIC_RELAXED) & bit) != 0) return;
  lifecycle_note(CULPRIT_LIFE_DROPPED, at_ns, NONE, 0, table, "table full, later ones are not tracked");
}
