// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Keeping writers of one flow apart at the price of a few plain stores.
//
// A flow's proxy events come from one thread: the communicator's progress thread. That thread owns the flow and writes
// it without any locked instruction. It sets `busy`, and goes on only while the flow is still its own. A thread that is
// not the owner turns the flow into a shared one, once and for all: it sets the mode, makes every thread of the process
// pass a barrier (membarrier), and waits until the owner is not busy. From then on everybody, the old owner included,
// takes the seqlock with a compare-and-swap. `busy` is written by the owner alone, so nothing can be overwritten.
//
// Where membarrier is missing all flows are shared from the start.

#ifndef CULPRIT_FLOW_LOCK_H
#define CULPRIT_FLOW_LOCK_H

#include "shim.h"

// What flow_take hands to flow_drop.
struct flow_hold {
  uint32_t even;  // Version to leave behind.
  bool owned;
};

// flow_take_shared is the way of threads that do not own the flow.
bool flow_take_shared(struct flow_ctl *f, uint32_t *version);

// flow_own and flow_disown bracket what the owner does; in between it must see that the flow is still its own.
static inline void flow_own(struct flow_ctl *f) {
  PUT(f->busy, 1);
  __asm__ volatile("" ::: "memory");
}
static inline void flow_disown(struct flow_ctl *f) { __atomic_store_n(&f->busy, 0, __ATOMIC_RELEASE); }

// flow_owned says, after flow_own, whether the flow is still the calling thread's: it may be shared by now, or another thread's after its
// communicator has ended.
static inline bool flow_owned(const struct flow_ctl *f) {
  return __atomic_load_n(&f->mode, __ATOMIC_ACQUIRE) == FLOW_OWNED && GET(f->owner) == thread_pointer();
}

// flow_take takes the flow for writing; false when another thread is at it, and the event is to be left out.
static inline bool flow_take(struct flow_ctl *f, uint32_t *version, struct flow_hold *hold) {
  if (__builtin_expect(GET(f->owner) == thread_pointer(), 1)) {
    flow_own(f);
    if (__builtin_expect(flow_owned(f), 1)) {
      hold->owned = true;
      hold->even = seqlock_enter(version);
      return true;
    }
    flow_disown(f);
  }
  if (!flow_take_shared(f, version)) return false;
  hold->owned = false;
  hold->even = GET(*version) + 1;
  return true;
}

static inline void flow_drop(struct flow_ctl *f, uint32_t *version, struct flow_hold hold) {
  seqlock_leave(version, hold.even);
  if (hold.owned) flow_disown(f);
}

#endif
