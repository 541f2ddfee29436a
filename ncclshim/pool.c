// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "shim.h"

// The change counter in the upper half makes a stale compare-and-swap fail after the head went away and came back.
static uint64_t pack(uint64_t old, uint32_t first) { return ((old >> 32) + 1) << 32 | first; }

static void raise_high(uint32_t *high, uint32_t to) {
  uint32_t seen = GET(*high);
  while (seen < to && !__atomic_compare_exchange_n(high, &seen, to, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

uint32_t pool_take(struct pool *p, uint32_t *high) {
  uint64_t head = __atomic_load_n(&p->head, __ATOMIC_ACQUIRE);
  while ((uint32_t)head != 0) {
    const uint32_t index = (uint32_t)head - 1;
    const uint64_t after = pack(head, GET(p->next[index]));
    if (__atomic_compare_exchange_n(&p->head, &head, after, true, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) return index;
  }
  uint32_t fresh = GET(p->high);
  do {
    if (fresh >= p->capacity) return NONE;
  } while (!__atomic_compare_exchange_n(&p->high, &fresh, fresh + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  if (high != NULL) raise_high(high, fresh + 1);
  return fresh;
}

void pool_give(struct pool *p, uint32_t index) {
  uint64_t head = GET(p->head);
  do {
    PUT(p->next[index], (uint32_t)head);
  } while (!__atomic_compare_exchange_n(&p->head, &head, pack(head, index + 1), true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}
