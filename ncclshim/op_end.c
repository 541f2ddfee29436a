// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// When has an operation ended? NCCL never says so. Three sources, best first:
//
//  1. KernelCh, while the communicator's can be trusted: every announced channel has stopped.
//  2. The proxies: every proxy operation has ended. How many there will be is not announced, so that alone may be too
//     early. It is believed when a later group's proxy operation has started (they start in order), or when as many
//     ended as operations of the same signature had before; until then the end is provisional: state LEFT, taken back
//     should another proxy operation start.
//  3. A later group that the GPU works on: the kernels of one communicator run one after the other, so earlier ones
//     have ended; what is left of their proxies decides.
//
// Where none of these can ever speak (one node without KernelCh, copy engine, symmetric memory, AllGatherV broadcast)
// the operation carries NO_COMPLETION, does not count as in flight, and goes when UNSEEN_TAIL later ones have come
// (UNSEEN_TAIL_CALLED when it was not even launched). Its end is written as its start: nothing about its duration is
// known. A proxy operation that started and did not end keeps its operation open for ever: that is what a hang looks like.

#include "op_state.h"

#include "comm.h"
#include "completion.h"
#include "group.h"
#include "names.h"

#include <sched.h>

// What is said of an operation that goes because later ones came.
#define LET_GO (CULPRIT_OP_LEFT_INFERRED | CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_END_UNSEEN)
#define LOCK_TRIES 1000
#define PATIENCE_NS UINT64_C(1000000000)
#define MAKE_ROOM 64u  // Slots looked at for room at a time.
#define RESCAN 64u  // Numbers below a watermark looked at again when an operation was busy the first time.

void op_finish(uint32_t i, uint32_t flags, uint64_t left_ns) {
  struct op_ctl *o = &shim.ops[i];
  struct culprit_op *s = trace_op(&shim.file, i);
  o->flags |= flags;
  o->state = CULPRIT_OP_LEFT;
  o->provisional_ns = left_ns;
  op_publish(i);
  op_count(o, false);
  PUT(s->in_use, 0);
  completion_write(o, left_ns);
  for (int k = 0; k < 2; k++) {
    if (o->directions[k].sums.flows != 0) put_zero(&o->directions[k], sizeof o->directions[k]);
  }

  uint64_t mine = op_handle(i, HANDLE_OP);
  __atomic_compare_exchange_n(comm_window(o->comm_index, o->number), &mine, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  o->used = false;
  seqlock_release(&s->version);
  pool_give(&shim.op_pool, i);
}

static uint64_t last_seen(const struct op_ctl *o) {
  return op_later(op_later(o->called_ns, o->enqueued_ns), op_later(op_later(o->entered_ns, o->kernel_left_ns), o->last_proxy_ns));
}

enum proxies { PROXIES_NONE, PROXIES_PERHAPS, PROXIES_SURE };

// proxies_of says whether an operation will have proxy operations.
static enum proxies proxies_of(const struct op_ctl *o) {
  const struct comm_ctl *c = &shim.comms[o->comm_index];
  const bool proxied = GET(c->has_proxy) != 0;
  const int64_t usual = comm_learned(o->comm_index, o->key);
  if ((c->nnodes == 1 && !proxied) || algo_hides_proxies(o->algo) || usual == 0) return PROXIES_NONE;
  if ((o->flags & CULPRIT_OP_P2P) == 0) {
    if (proxied || usual > 0) return PROXIES_SURE;
    return clock_since(o->enqueued_ns, GET(c->first_launch_ns)) < PATIENCE_NS ? PROXIES_PERHAPS : PROXIES_NONE;
  }
  switch (comm_p2p_path(o->comm_index, o->peer, o->func == CULPRIT_FUNC_SEND)) {
    case P2P_PROXIED: return PROXIES_SURE;
    case P2P_UNSEEN: return PROXIES_NONE;
    default: return PROXIES_PERHAPS;
  }
}

void op_expect(struct op_ctl *o) {
  const enum proxies proxies = o->kernel_expected ? PROXIES_SURE : proxies_of(o);
  o->unproven = proxies == PROXIES_PERHAPS;
  if (proxies != PROXIES_SURE) o->flags |= CULPRIT_OP_NO_COMPLETION;
}

static bool expects_proxies(const struct op_ctl *o) {
  return o->state > CULPRIT_OP_CALLED && (o->unproven || (o->flags & CULPRIT_OP_NO_COMPLETION) == 0);
}

// without_proxies notes that an operation has none, nor will others that move the same way: later ones' have started.
static void without_proxies(struct op_ctl *o) {
  o->unproven = false;
  o->flags |= CULPRIT_OP_NO_COMPLETION;
  if (o->key != 0) comm_learn(o->comm_index, o->key, 0);
  if ((o->flags & CULPRIT_OP_P2P) != 0) comm_p2p_learn(o->comm_index, o->peer, o->func == CULPRIT_FUNC_SEND, P2P_UNSEEN);
}

void op_settle(uint32_t i) {
  struct op_ctl *o = &shim.ops[i];
  struct comm_ctl *c = &shim.comms[o->comm_index];
  const uint32_t comm = o->comm_index;
  const uint64_t before = o->group_first;

  o->proxy_stopped += __atomic_exchange_n(&o->proxy_missed, 0, __ATOMIC_RELAXED);
  const bool kernel = o->kernel_expected && comm_kernel_trusted(comm, o->number);
  const bool hidden = o->proxies_unknown || (o->flags & CULPRIT_OP_PROXY_UNRELIABLE) != 0;
  const bool quiet = hidden || o->proxy_started == o->proxy_stopped;
  const bool passed = o->number < GET(c->passed_before);
  const bool final = passed || o->number < GET(c->final_before);

  bool end = false, exact = false;
  uint64_t left_ns = 0;
  if (kernel && o->channels > 0) {
    exact = end = (uint32_t)__builtin_popcountll(o->kernel_stopped) >= o->channels;
    left_ns = o->kernel_left_ns;
  } else if (kernel) {
    end = o->kernel_stopped != 0 && o->kernel_started == o->kernel_stopped && quiet;
    left_ns = op_later(o->kernel_left_ns, o->last_proxy_ns);
  } else if (!hidden) {
    end = o->proxy_started > 0 && quiet;
    left_ns = o->last_proxy_ns;
  }

  if (!end && passed && quiet) {
    const bool seen = o->kernel_started != 0 || o->proxy_started != 0;
    if (!seen && o->key != 0) comm_learn(comm, o->key, 0);  // Its kind has no proxies: symmetric memory.
    op_finish(i, CULPRIT_OP_LEFT_INFERRED | (seen ? 0 : CULPRIT_OP_NO_COMPLETION), last_seen(o));
    return;
  }
  if (end) {
    const int64_t usual = comm_learned(comm, o->key);
    const bool all = hidden || final || GET(c->has_proxy) == 0 || (usual > 0 && o->proxy_started >= (uint32_t)usual);
    if (quiet && all) {
      if (final && !hidden) comm_learn(comm, o->key, o->proxy_started);
      op_finish(i, exact ? 0 : CULPRIT_OP_LEFT_INFERRED, left_ns);
      if (exact) op_advance(comm, &c->passed_before, before);
      return;
    }
  }
  if (final && !kernel && !hidden && o->proxy_started == 0 && expects_proxies(o)) {
    without_proxies(o);
    if (op_is_late(comm, o->number)) {
      op_finish(i, LET_GO, op_later(o->called_ns, o->enqueued_ns));
      return;
    }
  }
  o->provisional_ns = end ? left_ns : 0;
  o->flags = end && !exact ? o->flags | CULPRIT_OP_LEFT_INFERRED : o->flags & ~CULPRIT_OP_LEFT_INFERRED;
  op_publish(i);
  op_unlock(i);
  if (exact) op_advance(comm, &c->passed_before, before);
}

void op_advance(uint32_t comm, uint64_t *watermark, uint64_t to) {
  uint64_t old = GET(*watermark);
  do {
    if (to <= old) return;
  } while (!__atomic_compare_exchange_n(watermark, &old, to, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  uint32_t *missed = &shim.comms[comm].missed;
  uint64_t n = old;
  if (__builtin_expect(GET(*missed) != 0, 0) && __atomic_exchange_n(missed, 0, __ATOMIC_RELAXED) != 0) {
    n = old > RESCAN ? old - RESCAN : 0;
  }
  if (to - n > OP_WINDOW) n = to - OP_WINDOW;
  for (; n < to; n++) {
    const handle h = GET(*comm_window(comm, n));
    if (h == 0) continue;
    const uint32_t i = op_lock(h);
    if (i != NONE) {
      op_settle(i);
    } else {
      PUT(*missed, 1);
    }
  }
}

// unseen says whether nothing can tell of an operation's end.
static bool unseen(const struct op_ctl *o) { return (o->flags & CULPRIT_OP_NO_COMPLETION) != 0 && !o->unproven; }

// let_go ends an operation that is held and seems over; false, and it is still held, when it does not.
static bool let_go(uint32_t i, bool unseen_too) {
  const struct op_ctl *o = &shim.ops[i];
  if (o->provisional_ns != 0) {
    op_finish(i, CULPRIT_OP_LEFT_INFERRED, o->provisional_ns);
    return true;
  }
  const bool nothing = (o->flags & CULPRIT_OP_NO_COMPLETION) != 0 && o->state > CULPRIT_OP_CALLED;
  if (unseen_too && nothing) {
    op_finish(i, LET_GO, op_later(o->called_ns, o->enqueued_ns));
    return true;
  }
  return false;
}

void op_make_place(handle op) {
  const uint32_t i = op_lock(op);
  if (i == NONE) return;
  const struct op_ctl *o = &shim.ops[i];
  if (o->comm_generation != GET(shim.comms[o->comm_index].generation)) {  // Called while its communicator ended.
    op_finish(i, CULPRIT_OP_ABANDONED, last_seen(o));
  } else if (!let_go(i, true)) {
    op_unlock(i);
  }
}

bool op_make_room(void) {
  uint32_t at = GET(shim.room_hand);
  for (uint32_t looked = 0; looked < MAKE_ROOM && looked < shim.file.op_count; looked++) {
    at = at + 1 < shim.file.op_count ? at + 1 : 0;
    struct culprit_op *s = trace_op(&shim.file, at);
    if (!seqlock_take(&s->version)) continue;
    if (shim.ops[at].used && let_go(at, false)) {
      PUT(shim.room_hand, at);
      return true;
    }
    op_unlock(at);
  }
  PUT(shim.room_hand, at);
  return false;
}

// forget_kernel takes back what KernelCh has told of an operation.
static void forget_kernel(struct op_ctl *o) {
  o->kernel_started = o->kernel_stopped = o->kernel_timed = 0;
  o->entered_ns = o->kernel_left_ns = o->gpu_ns = 0;
  if (o->state == CULPRIT_OP_ENTERED) o->state = CULPRIT_OP_ENQUEUED;
  if (o->state > CULPRIT_OP_CALLED) o->flags |= CULPRIT_OP_KERNEL_UNTRUSTED;
  if (!o->kernel_expected) return;
  o->kernel_expected = false;
  if (o->proxy_started == 0) op_expect(o);
}

void op_distrusted(uint32_t comm, uint64_t from) {
  const uint64_t to = GET(shim.comms[comm].next_number);
  for (uint64_t n = to - from > OP_WINDOW ? to - OP_WINDOW : from; n < to; n++) {
    const handle h = GET(*comm_window(comm, n));
    const uint32_t i = h == 0 ? NONE : op_lock(h);
    if (i == NONE) continue;
    if (shim.ops[i].number == n && shim.ops[i].comm_index == comm) forget_kernel(&shim.ops[i]);
    op_settle(i);
  }
}

void op_retire(uint32_t comm, uint64_t number, handle h, uint32_t state, bool patient) {
  if (patient && GET(shim.comms[comm].proxies_open) != 0) return;
  const uint32_t i = op_lock(h);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  const bool hidden = (o->flags & CULPRIT_OP_PROXY_UNRELIABLE) != 0 || o->proxies_unknown;
  const bool watched = (o->kernel_expected && comm_kernel_trusted(comm, number)) || (o->proxy_started > 0 && !hidden);
  // Between call and launch: its group is open, or it waits for its turn behind a CUDA graph.
  bool early = o->state < state || (o->state == CULPRIT_OP_CALLED && group_api_find(o->group) != NULL);
  // However many later ones came at once: its proxies may be about to start.
  if (patient && clock_since(shim_now(), op_later(o->called_ns, o->enqueued_ns)) < PATIENCE_NS) early = true;
  if (o->number == number && !watched && !early && (patient || unseen(o))) {
    if (patient && o->proxy_started == 0) without_proxies(o);
    op_finish(i, LET_GO, op_later(o->called_ns, o->enqueued_ns));
    return;
  }
  op_unlock(i);
}

void op_abandon_all(uint32_t comm, uint64_t now) {
  const uint32_t generation = GET(shim.comms[comm].generation);
  for (uint32_t place = 0; place < OP_WINDOW; place++) {
    const handle h = GET(*comm_window(comm, place));
    if (h == 0) continue;
    uint32_t i = op_lock(h);
    for (int tries = 0; i == NONE && GET(*comm_window(comm, place)) == h && tries < LOCK_TRIES; tries++) {
      sched_yield();  // A callback has it.
      i = op_lock(h);
    }
    if (i == NONE) continue;
    const struct op_ctl *o = &shim.ops[i];
    if (o->comm_index != comm || o->comm_generation != generation) {
      op_unlock(i);
    } else if (o->provisional_ns != 0 || (o->flags & CULPRIT_OP_NO_COMPLETION) != 0) {
      // The communicator has come to its end: what seemed over was over.
      op_finish(i, CULPRIT_OP_LEFT_INFERRED, o->provisional_ns != 0 ? o->provisional_ns : last_seen(o));
    } else {
      op_finish(i, CULPRIT_OP_ABANDONED, now);
    }
  }
}
