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
    if (o->directions[k].flows != 0) put_zero(&o->directions[k], sizeof o->directions[k]);
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

void op_settle(uint32_t i) {
  struct op_ctl *o = &shim.ops[i];
  struct comm_ctl *c = &shim.comms[o->comm_index];
  const uint32_t comm = o->comm_index;
  const uint64_t before = o->group_first;

  o->proxy_stopped += __atomic_exchange_n(&o->proxy_missed, 0, __ATOMIC_RELAXED);
  const bool kernel = o->kernel_expected && comm_kernel_trusted(comm);
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

void op_retire(uint32_t comm, uint64_t number, handle h, uint32_t state, bool patient) {
  if (patient && GET(shim.comms[comm].proxies_open) != 0) return;
  const uint32_t i = op_lock(h);
  if (i == NONE) return;
  const struct op_ctl *o = &shim.ops[i];
  const bool hidden = (o->flags & CULPRIT_OP_PROXY_UNRELIABLE) != 0 || o->proxies_unknown;
  const bool watched = (o->kernel_expected && comm_kernel_trusted(comm)) || (o->proxy_started > 0 && !hidden);
  // Between call and launch: its group is open, or it waits for its turn behind a CUDA graph.
  const bool early = o->state < state || (o->state == CULPRIT_OP_CALLED && group_api_find(o->group) != NULL);
  if (o->number == number && !watched && !early && (patient || (o->flags & CULPRIT_OP_NO_COMPLETION) != 0)) {
    if (patient && o->key != 0 && o->proxy_started == 0) comm_learn(comm, o->key, 0);
    op_finish(i, CULPRIT_OP_LEFT_INFERRED | CULPRIT_OP_NO_COMPLETION, op_later(o->called_ns, o->enqueued_ns));
    return;
  }
  op_unlock(i);
}

void op_abandon_all(uint32_t comm, uint64_t now) {
  const uint32_t generation = GET(shim.comms[comm].generation);
  for (uint32_t place = 0; place < OP_WINDOW; place++) {
    const handle h = GET(*comm_window(comm, place));
    if (h == 0) continue;
    const uint32_t i = op_lock(h);
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
