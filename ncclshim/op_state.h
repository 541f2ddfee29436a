// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// How an operation's slot is held, shown and given up: for op.c, op_progress.c and op_end.c alone.

#ifndef CULPRIT_OP_STATE_H
#define CULPRIT_OP_STATE_H

#include "comm.h"
#include "op.h"

static inline uint64_t op_later(uint64_t a, uint64_t b) { return a > b ? a : b; }

// op_lock takes the slot of a handle; NONE when it is not ours, of an earlier owner, or busy.
static inline uint32_t op_lock(handle h) {
  const uint32_t i = handle_index(h);
  if (h == 0 || handle_cookie(h) != shim.cookie || i >= shim.file.op_count) {
    shim_stale();
    return NONE;
  }
  struct culprit_op *s = trace_op(&shim.file, i);
  if (!seqlock_take(&s->version)) {
    shim_contended();
    return NONE;
  }
  const struct op_ctl *o = &shim.ops[i];
  if (!o->used || (o->generation & HANDLE_GENERATION_MASK) != handle_generation(h)) {
    seqlock_release(&s->version);
    shim_stale();
    return NONE;
  }
  return i;
}

static inline void op_unlock(uint32_t i) { seqlock_release(&trace_op(&shim.file, i)->version); }

static inline handle op_handle(uint32_t i, enum handle_kind kind) {
  return handle_make(kind, shim.cookie, shim.ops[i].generation, i, 0);
}

// op_count keeps the communicator's number of operations in flight right.
static inline void op_count(struct op_ctl *o, bool want) {
  if (o->counted == want) return;
  o->counted = want;
  COUNT(trace_comm(&shim.file, o->comm_index)->ops_in_flight, want ? 1u : UINT32_MAX);
}

// op_publish_early is op_publish for an operation of which nothing has been seen but its call or launch.
static inline void op_publish_early(uint32_t i) {
  struct op_ctl *o = &shim.ops[i];
  struct culprit_op *s = trace_op(&shim.file, i);
  op_count(o, (o->flags & CULPRIT_OP_NO_COMPLETION) == 0);
  PUT(s->flags, o->flags);
  PUT(s->state, o->state);
}

static inline void op_publish(uint32_t i) {
  struct op_ctl *o = &shim.ops[i];
  struct culprit_op *s = trace_op(&shim.file, i);
  const bool left = o->provisional_ns != 0;
  op_count(o, !left && (o->flags & CULPRIT_OP_NO_COMPLETION) == 0);
  PUT(s->flags, o->flags);
  PUT(s->state, left ? (uint32_t)CULPRIT_OP_LEFT : o->state);
  PUT(s->entered_ns, o->entered_ns);
  PUT(s->left_ns, o->provisional_ns);
  PUT(s->kernel_started, o->kernel_started);
  PUT(s->kernel_stopped, o->kernel_stopped);
  PUT(s->proxy_started, o->proxy_started);
  PUT(s->proxy_stopped, o->proxy_stopped);
}

// op_settle judges an operation after a change, and lets go of its slot. See op_end.c.
void op_settle(uint32_t i);
// op_advance raises one of a communicator's watermarks and judges the operations that have come to lie below it.
void op_advance(uint32_t comm, uint64_t *watermark, uint64_t to);
// op_finish writes the operation off and frees the slot, which the caller holds.
void op_finish(uint32_t i, uint32_t flags, uint64_t left_ns);
// op_retire lets an operation go that op_retire_unseen has taken for one whose end nothing can tell, if it is.
void op_retire(uint32_t comm, uint64_t number, handle h, uint32_t state, bool patient);

// op_retire_unseen lets an operation go whose end nothing can tell, when it has come at least to `state`. patient: not even that
// is certain, but it has waited long while later ones came, and no earlier one holds it up.
static inline void op_retire_unseen(uint32_t comm, uint64_t number, uint32_t state, bool patient) {
  const handle h = GET(*comm_window(comm, number));
  if (h == 0) return;
  // Nearly always its kernel will tell. Should the slot have another owner by now, then this one has ended.
  if (GET(shim.links[handle_index(h)].watched) != 0 && comm_kernel_trusted(comm, number)) return;
  op_retire(comm, number, h, state, patient);
}

// op_expect says of an operation at its launch, or when its kernel's events have proved wrong, whether anything will tell of its end.
void op_expect(struct op_ctl *o);
// op_make_room lets go of an operation that seems over and is only kept to be certain of it. False when it finds none.
bool op_make_room(void);
// op_make_place does that with one operation, and with one whose end nothing can tell.
void op_make_place(handle op);
// op_distrusted takes back what KernelCh has told of a communicator's operations from a number on.
void op_distrusted(uint32_t comm, uint64_t from);

// op_is_late says whether the time to look at an operation in passing has gone by: its successors were called before its launch.
static inline bool op_is_late(uint32_t comm, uint64_t number) { return number + UNSEEN_TAIL < GET(shim.comms[comm].next_number); }

#endif
