// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Time. All times in ringjob are nanoseconds; the name says which clock where it is not CLOCK_MONOTONIC.

#ifndef TRAIN_CLOCK_H
#define TRAIN_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

static inline uint64_t clock_read_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

// CLOCK_MONOTONIC.
static inline uint64_t now_ns(void) { return clock_read_ns(CLOCK_MONOTONIC); }

// CLOCK_REALTIME; also stands for the GPU's globaltimer.
static inline uint64_t now_real_ns(void) { return clock_read_ns(CLOCK_REALTIME); }

static inline void sleep_ns(uint64_t ns) {
  struct timespec t = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
  nanosleep(&t, NULL);
}

#endif
