// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "group.h"

#include "op.h"

handle group_plan(uint32_t comm) {
  BUMP(shim.comms[comm].plan, 1);
  const uint64_t n = GET(shim.comms[comm].plan);
  return handle_make(HANDLE_GROUP, shim.cookie, (uint32_t)(n >> HANDLE_INDEX_BITS), (uint32_t)n, 0);
}

// publish_since writes since when any thread has been inside a group.
static void publish_since(void) {
  uint64_t since = 0;
  for (uint64_t open = GET(shim.groups_open); open != 0; open &= open - 1) {
    const uint64_t at = GET(shim.groups[__builtin_ctzll(open)].since_ns);
    if (since == 0 || at < since) since = at;
  }
  PUT(shim.file.header->group_open_since_ns, since);
}

handle group_api_open(uint64_t now) {
  BUMP(shim.file.header->group_count, 1);
  uint64_t open = GET(shim.groups_open);
  uint32_t i = 0;
  do {
    if (open == UINT64_MAX) return 0;
    i = (uint32_t)__builtin_ctzll(~open);
  } while (!__atomic_compare_exchange_n(&shim.groups_open, &open, open | UINT64_C(1) << i, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED));
  struct group_slot *g = &shim.groups[i];
  const uint32_t generation = GET(g->generation) + 1;
  PUT(g->first_op, 0);
  PUT(g->since_ns, now);
  PUT(g->generation, generation);
  if (open == 0) PUT(shim.file.header->group_open_since_ns, now);
  return handle_make(HANDLE_GROUP_API, shim.cookie, generation, i, 0);
}

void group_api_ending(handle h, uint64_t now) {
  struct group_slot *g = group_api_find(h);
  if (g == NULL) return;
  PUT(g->since_ns, now);
  publish_since();
}

void group_api_close(handle h) {
  struct group_slot *g = group_api_find(h);
  uint32_t generation = g == NULL ? 0 : GET(g->generation);
  if (g == NULL || (generation & HANDLE_GENERATION_MASK) != handle_generation(h) ||
      !__atomic_compare_exchange_n(&g->generation, &generation, generation + 1, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED)) {
    shim_stale();
    return;
  }
  handle op = GET(g->first_op);
  __atomic_fetch_and(&shim.groups_open, ~(UINT64_C(1) << handle_index(h)), __ATOMIC_RELEASE);
  publish_since();
  for (uint32_t i = 0; op != 0 && i < shim.file.op_count; i++) op = op_group_ended(op);
}
