// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Time for the hot path: the processor's counter, calibrated against CLOCK_MONOTONIC. Anchors (counter, nanoseconds,
// rate) are refreshed about once a second by whoever calls clock_refresh, which operation-level events do; a time step
// reads the newest anchor and the counter, nothing else. Where the counter cannot be trusted, clock_gettime serves.

#ifndef CULPRIT_CLOCK_H
#define CULPRIT_CLOCK_H

#include "seqlock.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define CLOCK_ANCHORS 8u  // A reader may hold one for seven refreshes before it changes under it.

__extension__ typedef unsigned __int128 clock_wide;

struct clock_anchor {
  uint64_t zero_ns;  // What CLOCK_MONOTONIC would have been when the counter was 0, modulo 2^64.
  uint64_t rate;     // ns a tick, times 2^32.
};

struct clock {
  struct clock_anchor *current;  // Newest anchor, NULL where the counter is not used.
  struct clock_anchor anchors[CLOCK_ANCHORS];
  uint64_t next_refresh_ns;
  uint32_t refreshing;  // 1 while a thread refreshes.
  uint32_t refreshes;
  // Samples that the rate is taken over: the older one is 60 to 120 s old in the long run.
  uint64_t base_ticks, base_ns;
  uint64_t middle_ticks, middle_ns;
};

static inline uint64_t clock_monotonic(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_ticks(void) {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t v;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
  return v;
#else
  return 0;
#endif
}

// clock_anchored gives the newest anchor, NULL where clock_gettime serves.
static inline const struct clock_anchor *clock_anchored(const struct clock *c) {
  return __atomic_load_n(&c->current, __ATOMIC_ACQUIRE);
}

// clock_at gives the time of a reading of the counter: what clock_now does where there is an anchor.
static inline uint64_t clock_at(const struct clock_anchor *a, uint64_t ticks) {
  return GET(a->zero_ns) + (uint64_t)(((clock_wide)ticks * GET(a->rate)) >> 32);
}

// clock_now gives CLOCK_MONOTONIC in nanoseconds, good to about a microsecond. Two readings around a refresh may run
// backwards by that much.
static inline uint64_t clock_now(const struct clock *c) {
  const struct clock_anchor *a = clock_anchored(c);
  return __builtin_expect(a == NULL, 0) ? clock_monotonic() : clock_at(a, clock_ticks());
}

// clock_since gives now - then, 0 when then lies ahead.
static inline uint64_t clock_since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }

// clock_init calibrates; takes about a millisecond. source: NULL or "" to choose, "counter" or "monotonic" to force.
void clock_init(struct clock *c, const char *source);

// clock_due says whether clock_refresh has something to do.
static inline bool clock_due(const struct clock *c, uint64_t now) { return now >= GET(c->next_refresh_ns); }

// clock_refresh takes a new anchor when one is due, and says so. Never blocks; one thread at a time does it.
bool clock_refresh(struct clock *c, uint64_t now);

#endif
