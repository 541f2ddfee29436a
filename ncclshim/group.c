// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "group.h"

#include "op.h"

handle group_plan(uint32_t comm) {
  BUMP(shim.comms[comm].plan, 1);
  const uint64_t n = GET(shim.comms[comm].plan);
  return handle_make(HANDLE_GROUP, shim.cookie, (uint32_t)(n >> HANDLE_INDEX_BITS), (uint32_t)n, 0);
}

static bool is_open(uint32_t generation) { return (generation & 1) != 0; }

// publish_since writes since when any thread has been inside a group.
static void publish_since(void) {
  uint64_t since = 0;
  const uint32_t high = GET(shim.groups_high);
  for (uint32_t i = 0; i < high; i++) {
    if (!is_open(__atomic_load_n(&shim.groups[i].generation, __ATOMIC_ACQUIRE))) continue;
    const uint64_t at = GET(shim.groups[i].since_ns);
    if (since == 0 || at < since) since = at;
  }
  PUT(shim.file.header->group_open_since_ns, since);
}

// take finds a slot that is free and opens it; NULL when there is none.
static struct group_slot *take(void) {
  for (uint32_t i = 0; i < GROUP_SLOTS; i++) {
    struct group_slot *g = &shim.groups[i];
    uint32_t generation = GET(g->generation);
    if (is_open(generation) ||
        !__atomic_compare_exchange_n(&g->generation, &generation, generation + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      continue;
    }
    uint32_t high = GET(shim.groups_high);
    while (high <= i && !__atomic_compare_exchange_n(&shim.groups_high, &high, i + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return g;
  }
  return NULL;
}

handle group_api_open(uint64_t now) {
  BUMP(shim.file.header->group_count, 1);
  struct group_slot *g = take();
  if (g == NULL) return 0;
  PUT(g->first_op, 0);
  PUT(g->since_ns, now);
  publish_since();
  return handle_make(HANDLE_GROUP_API, shim.cookie, GET(g->generation), (uint32_t)(g - shim.groups), 0);
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
  handle op = g == NULL ? 0 : GET(g->first_op);
  if (g == NULL || (generation & HANDLE_GENERATION_MASK) != handle_generation(h) ||
      !__atomic_compare_exchange_n(&g->generation, &generation, generation + 1, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED)) {
    shim_stale();
    return;
  }
  publish_since();
  for (uint32_t i = 0; op != 0 && i < shim.file.op_count; i++) op = op_group_ended(op);
}
