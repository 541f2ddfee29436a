// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Writing slots that another process reads. A slot's version is odd while it is written; taking it from even to odd also
// keeps other writers out. Nobody waits for long: a writer that finds the slot taken tries again for under a
// microsecond and then leaves its event out.

#ifndef CULPRIT_SEQLOCK_H
#define CULPRIT_SEQLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEQLOCK_TRIES 200

// GET and PUT access one field that another thread or process may access at the same time: never torn, not ordered.
#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
// BUMP adds to a field that has one writer at a time.
#define BUMP(field, by) PUT(field, GET(field) + (by))
// COUNT adds to a field that several threads write.
#define COUNT(field, by) ((void)__atomic_fetch_add(&(field), (by), __ATOMIC_RELAXED))

#if defined(__SANITIZE_THREAD__)
#define SEQLOCK_STORE_FENCE() ((void)0)  // Not known to ThreadSanitizer; it orders stores for readers elsewhere.
#else
#define SEQLOCK_STORE_FENCE() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif

static inline void cpu_relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static inline bool seqlock_take(uint32_t *version) {
  for (int i = 0; i < SEQLOCK_TRIES; i++) {
    uint32_t v = GET(*version);
    if ((v & 1) == 0 &&
        __atomic_compare_exchange_n(version, &v, v + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      SEQLOCK_STORE_FENCE();
      return true;
    }
    cpu_relax();
  }
  return false;
}

// seqlock_release leaves the version even whatever it was: a slot must never look busy for ever.
static inline void seqlock_release(uint32_t *version) {
  __atomic_store_n(version, (GET(*version) | 1) + 1, __ATOMIC_RELEASE);
}

// seqlock_enter is seqlock_take for a writer that knows itself to be alone. Returns what seqlock_leave writes.
static inline uint32_t seqlock_enter(uint32_t *version) {
  const uint32_t odd = GET(*version) | 1;
  PUT(*version, odd);
  SEQLOCK_STORE_FENCE();
  return odd + 1;
}

static inline void seqlock_leave(uint32_t *version, uint32_t even) { __atomic_store_n(version, even, __ATOMIC_RELEASE); }

// put_zero clears words (bytes a multiple of 8, at a multiple of 8). For some hundred bytes of constant size it also beats
// memset, which gcc makes a string instruction that is slow to begin.
static inline void put_zero(void *to, size_t bytes) {
  uint64_t *words = to;
  for (size_t i = 0; i < bytes / 8; i++) PUT(words[i], 0);
}

// put_words copies words (bytes a multiple of 8, both at a multiple of 8).
static inline void put_words(void *to, const void *from, size_t bytes) {
  uint64_t *words = to;
  const uint64_t *source = from;
  for (size_t i = 0; i < bytes / 8; i++) PUT(words[i], source[i]);
}

// put_text copies a string, cut to what fits, and pads with NULs. bytes is a multiple of 8.
static inline void put_text(char *to, const char *from, size_t bytes) {
  uint64_t *words = (uint64_t *)(void *)to;
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    for (size_t k = 0; k < 8 && from != NULL; k++) {
      if (i + k == bytes - 1 || from[k] == 0) {
        from = NULL;
      } else {
        word |= (uint64_t)(unsigned char)from[k] << 8 * k;
      }
    }
    if (from != NULL) from += 8;
    PUT(words[i / 8], word);
  }
}

#endif
