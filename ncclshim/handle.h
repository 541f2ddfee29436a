// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Handles: what the shim gives NCCL in place of pointers. A handle is a number that names a slot and the generation of
// its owner, so a handle that comes late, twice, after its end, or out of another process is recognised and harmless.
//
//   bits 60-63  kind
//   bits 56-59  cookie of the process (a handle of another process rarely matches)
//   bits 36-55  generation
//   bits 18-35  slot
//   bits  0-17  channel (kernel) or step
//
// A HANDLE_GROUP carries a running number in place of generation and slot: it owns nothing.

#ifndef CULPRIT_HANDLE_H
#define CULPRIT_HANDLE_H

#include <stdint.h>

typedef uint64_t handle;

enum handle_kind {
  HANDLE_NONE = 0,
  HANDLE_COMM = 1,       // A communicator: NCCL's context.
  HANDLE_GROUP = 2,      // A kernel plan.
  HANDLE_GROUP_API = 3,  // A thread between its first call of a group and the end of ncclGroupEnd.
  HANDLE_API = 4,        // An operation, from its API event.
  HANDLE_CAPTURED = 5,   // A call recorded into a CUDA graph: names the communicator.
  HANDLE_OP = 6,         // An operation, from its Coll or P2p event.
  HANDLE_PROXY_OP = 7,
  HANDLE_STEP = 8,
  HANDLE_KERNEL = 9,     // One channel's kernel of an operation.
  HANDLE_QP = 11,        // A queue pair (hooks.h).
  HANDLE_LOST = 10,      // A call that was numbered and for which there was no room.
};

#define HANDLE_KIND_SHIFT 60u
#define HANDLE_INDEX_BITS 18u
#define HANDLE_AUX_BITS 18u
#define HANDLE_GENERATION_BITS 20u
#define HANDLE_INDEX_LIMIT (1u << HANDLE_INDEX_BITS)
#define HANDLE_AUX_LIMIT (1u << HANDLE_AUX_BITS)
#define HANDLE_GENERATION_MASK ((1u << HANDLE_GENERATION_BITS) - 1)

static inline handle handle_make(enum handle_kind kind, uint32_t cookie, uint32_t generation, uint32_t index, uint32_t aux) {
  return (uint64_t)kind << HANDLE_KIND_SHIFT | (uint64_t)(cookie & 0xf) << 56 | (uint64_t)(generation & HANDLE_GENERATION_MASK) << 36 |
         (uint64_t)(index & (HANDLE_INDEX_LIMIT - 1)) << HANDLE_AUX_BITS | (aux & (HANDLE_AUX_LIMIT - 1));
}

static inline enum handle_kind handle_kind_of(handle h) { return (enum handle_kind)(h >> HANDLE_KIND_SHIFT); }
static inline uint32_t handle_cookie(handle h) { return (uint32_t)(h >> 56) & 0xf; }
static inline uint32_t handle_generation(handle h) { return (uint32_t)(h >> 36) & HANDLE_GENERATION_MASK; }
static inline uint32_t handle_index(handle h) { return (uint32_t)(h >> HANDLE_AUX_BITS) & (HANDLE_INDEX_LIMIT - 1); }
static inline uint32_t handle_aux(handle h) { return (uint32_t)h & (HANDLE_AUX_LIMIT - 1); }

// handle_tag gives kind, cookie and generation: all but slot and aux.
static inline uint32_t handle_tag(handle h) { return (uint32_t)(h >> (HANDLE_INDEX_BITS + HANDLE_AUX_BITS)); }

// handle_as gives the handle of another kind and aux for the same slot and generation.
static inline handle handle_as(handle h, enum handle_kind kind, uint32_t aux) {
  const uint64_t keep = (UINT64_C(1) << HANDLE_KIND_SHIFT) - HANDLE_AUX_LIMIT;  // Cookie, generation and slot.
  return (h & keep) | (uint64_t)kind << HANDLE_KIND_SHIFT | aux;
}

static inline void *handle_to_pointer(handle h) { return (void *)(uintptr_t)h; }
static inline handle handle_from_pointer(const void *p) { return (uintptr_t)p; }

#endif
