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
// the operation carries NO_COMPLETION, does not count as in flight, and goes when UNSEEN_TAIL later ones
// have come (UNSEEN_TAIL_CALLED when it was not even launched). Its
// end is written as its start: nothing about its duration is known. A proxy operation that started and did not end
// keeps its operation open for ever: that is what a hang looks like.

#include "op.h"

#include "comm.h"
#include "completion.h"
#include "group.h"
#include "lifecycle.h"
#include "names.h"


#define RESCAN 64u  // Numbers below a watermark looked at again when an operation was busy the first time.
#define BARRIER_BYTES 4u

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

// lock_op takes the slot of a handle; NONE when it is not ours, of an earlier owner, or busy.
static uint32_t lock_op(handle h) {
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

static void unlock_op(uint32_t i) { seqlock_release(&trace_op(&shim.file, i)->version); }

static handle handle_of(uint32_t i, enum handle_kind kind) {
  return handle_make(kind, shim.cookie, shim.ops[i].generation, i, 0);
}

// count_in_flight keeps the communicator's number of operations in flight right.
static void count_in_flight(struct op_ctl *o, bool want) {
  if (o->counted == want) return;
  o->counted = want;
  COUNT(trace_comm(&shim.file, o->comm_index)->ops_in_flight, want ? 1u : UINT32_MAX);
}

// publish_early is publish for an operation of which nothing has been seen but its call or launch.
static void publish_early(uint32_t i) {
  struct op_ctl *o = &shim.ops[i];
  struct culprit_op *s = trace_op(&shim.file, i);
  count_in_flight(o, (o->flags & CULPRIT_OP_NO_COMPLETION) == 0);
  PUT(s->flags, o->flags);
  PUT(s->state, o->state);
}

static void publish(uint32_t i) {
  struct op_ctl *o = &shim.ops[i];
  struct culprit_op *s = trace_op(&shim.file, i);
  const bool left = o->provisional_ns != 0;
  count_in_flight(o, !left && (o->flags & CULPRIT_OP_NO_COMPLETION) == 0);
  PUT(s->flags, o->flags);
  PUT(s->state, left ? (uint32_t)CULPRIT_OP_LEFT : o->state);
  PUT(s->entered_ns, o->entered_ns);
  PUT(s->left_ns, o->provisional_ns);
  PUT(s->kernel_started, o->kernel_started);
  PUT(s->kernel_stopped, o->kernel_stopped);
  PUT(s->proxy_started, o->proxy_started);
  PUT(s->proxy_stopped, o->proxy_stopped);
}

// finish writes the operation off and frees the slot, which the caller holds.
static void finish(uint32_t i, uint32_t flags, uint64_t left_ns) {
  struct op_ctl *o = &shim.ops[i];
  struct culprit_op *s = trace_op(&shim.file, i);
  o->flags |= flags;
  o->state = CULPRIT_OP_LEFT;
  o->provisional_ns = left_ns;
  publish(i);
  count_in_flight(o, false);
  PUT(s->in_use, 0);
  completion_write(o, left_ns);
  for (int k = 0; k < 2; k++) {
    if (o->directions[k].flows != 0) put_zero(&o->directions[k], sizeof o->directions[k]);
  }

  uint64_t mine = handle_of(i, HANDLE_OP);
  __atomic_compare_exchange_n(comm_window(o->comm_index, o->number), &mine, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  o->used = false;
  seqlock_release(&s->version);
  pool_give(&shim.op_pool, i);
}

static uint64_t last_seen(const struct op_ctl *o) {
  return larger(larger(o->called_ns, o->enqueued_ns), larger(larger(o->entered_ns, o->kernel_left_ns), o->last_proxy_ns));
}

static void advance(uint32_t comm, uint64_t *watermark, uint64_t to);

// settle judges an operation after a change, and lets go of its slot. See the top of the file.
static void settle(uint32_t i) {
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
    left_ns = larger(o->kernel_left_ns, o->last_proxy_ns);
  } else if (!hidden) {
    end = o->proxy_started > 0 && quiet;
    left_ns = o->last_proxy_ns;
  }

  if (!end && passed && quiet) {
    const bool seen = o->kernel_started != 0 || o->proxy_started != 0;
    if (!seen && o->key != 0) comm_learn(comm, o->key, 0);  // Its kind has no proxies: symmetric memory.
    finish(i, CULPRIT_OP_LEFT_INFERRED | (seen ? 0 : CULPRIT_OP_NO_COMPLETION), last_seen(o));
    return;
  }
  if (end) {
    const int64_t usual = comm_learned(comm, o->key);
    const bool all = hidden || final || GET(c->has_proxy) == 0 || (usual > 0 && o->proxy_started >= (uint32_t)usual);
    if (quiet && all) {
      if (final && !hidden) comm_learn(comm, o->key, o->proxy_started);
      finish(i, exact ? 0 : CULPRIT_OP_LEFT_INFERRED, left_ns);
      if (exact) advance(comm, &c->passed_before, before);
      return;
    }
  }
  o->provisional_ns = end ? left_ns : 0;
  o->flags = end && !exact ? o->flags | CULPRIT_OP_LEFT_INFERRED : o->flags & ~CULPRIT_OP_LEFT_INFERRED;
  publish(i);
  unlock_op(i);
  if (exact) advance(comm, &c->passed_before, before);
}

// advance raises one of a communicator's watermarks and judges the operations that have come to lie below it.
static void advance(uint32_t comm, uint64_t *watermark, uint64_t to) {
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
    const uint32_t i = lock_op(h);
    if (i != NONE) {
      settle(i);
    } else {
      PUT(*missed, 1);
    }
  }
}

// retire lets an operation go that retire_unseen has taken for one whose end nothing can tell, if it is.
static __attribute__((noinline)) void retire(uint32_t comm, uint64_t number, handle h, uint32_t state, bool patient) {
  if (patient && GET(shim.comms[comm].proxies_open) != 0) return;
  const uint32_t i = lock_op(h);
  if (i == NONE) return;
  const struct op_ctl *o = &shim.ops[i];
  const bool hidden = (o->flags & CULPRIT_OP_PROXY_UNRELIABLE) != 0 || o->proxies_unknown;
  const bool watched = (o->kernel_expected && comm_kernel_trusted(comm)) || (o->proxy_started > 0 && !hidden);
  // Between call and launch: its group is open, or it waits for its turn behind a CUDA graph.
  const bool early = o->state < state || (o->state == CULPRIT_OP_CALLED && group_api_find(o->group) != NULL);
  if (o->number == number && !watched && !early && (patient || (o->flags & CULPRIT_OP_NO_COMPLETION) != 0)) {
    if (patient && o->key != 0 && o->proxy_started == 0) comm_learn(comm, o->key, 0);
    finish(i, CULPRIT_OP_LEFT_INFERRED | CULPRIT_OP_NO_COMPLETION, larger(o->called_ns, o->enqueued_ns));
    return;
  }
  unlock_op(i);
}

// retire_unseen lets an operation go whose end nothing can tell, when it has come at least to `state`. patient: not even that
// is certain, but it has waited long while later ones came, and no earlier one holds it up.
static inline void retire_unseen(uint32_t comm, uint64_t number, uint32_t state, bool patient) {
  const handle h = GET(*comm_window(comm, number));
  if (h == 0) return;
  // Nearly always its kernel will tell. Should the slot have another owner by now, then this one has ended.
  if (GET(shim.links[handle_index(h)].watched) != 0 && comm_kernel_trusted(comm)) return;
  retire(comm, number, h, state, patient);
}

static void dropped(uint64_t now) {
  COUNT(shim.file.header->dropped_ops, 1);
  lifecycle_dropped(CULPRIT_SECTION_OPS, now);
}

// late says whether the time to look at an operation in passing has gone by: its successors were called before its launch.
static bool late(uint32_t comm, uint64_t number) { return number + UNSEEN_TAIL < GET(shim.comms[comm].next_number); }

// open_op numbers an operation and gives it a slot, which is returned held; NONE when there is no room.
static uint32_t open_op(uint32_t comm, uint64_t group, uint64_t now) {
  struct comm_ctl *c = &shim.comms[comm];
  struct culprit_comm *cs = trace_comm(&shim.file, comm);
  const uint64_t number = __atomic_fetch_add(&c->next_number, 1, __ATOMIC_RELAXED);
  // One thread at a time calls operations on a communicator.
  if (GET(cs->ops_called) <= number) PUT(cs->ops_called, number + 1);
  PUT(cs->last_called_ns, now);
  comm_user_thread(comm);
  if (group == 0 || GET(c->group) != group) {
    PUT(c->group, group);
    PUT(c->group_first, number);
  }
  if (number >= UNSEEN_TAIL) retire_unseen(comm, number - UNSEEN_TAIL, CULPRIT_OP_ENQUEUED, false);
  if (number >= UNSEEN_TAIL_CALLED) retire_unseen(comm, number - UNSEEN_TAIL_CALLED, CULPRIT_OP_CALLED, false);
  if (number >= UNSEEN_TAIL_PROXY) retire_unseen(comm, number - UNSEEN_TAIL_PROXY, CULPRIT_OP_CALLED, true);

  uint64_t *place = comm_window(comm, number);
  if (GET(*place) != 0) retire_unseen(comm, number - OP_WINDOW, CULPRIT_OP_CALLED, false);  // Launched too late for the above.
  const uint32_t i = GET(*place) == 0 ? pool_take(&shim.op_pool, &shim.file.header->ops_high) : NONE;
  if (i == NONE) {
    dropped(now);
    return NONE;
  }
  struct culprit_op *s = trace_op(&shim.file, i);
  if (!seqlock_take(&s->version)) {
    pool_give(&shim.op_pool, i);
    shim_contended();
    return NONE;
  }
  struct op_ctl *o = &shim.ops[i];
  const uint32_t generation = o->generation + 1;
  put_zero(o, offsetof(struct op_ctl, directions));
  PUT(o->generation, generation);
  o->used = true;
  o->comm_index = comm;
  o->comm_generation = c->generation;
  o->number = number;
  o->group = group;
  o->group_first = GET(c->group_first);
  o->peer = o->root = -1;
  o->called_ns = now;
  o->state = CULPRIT_OP_CALLED;

  put_zero((unsigned char *)s + 8, sizeof *s - 8);
  PUT(s->generation, generation);
  PUT(s->in_use, 1);
  PUT(s->comm_index, comm);
  PUT(s->comm_generation, o->comm_generation);
  PUT(s->number, number);
  PUT(s->called_ns, now);
  PUT(s->user_tid, GET(cs->user_tid));
  PUT(shim.links[i].watched, 0);
  PUT(*place, handle_of(i, HANDLE_OP));
  return i;
}

// describe writes what does not change any more.
static void describe(uint32_t i, const char *datatype) {
  struct op_ctl *o = &shim.ops[i];
  struct culprit_op *s = trace_op(&shim.file, i);
  o->bytes = o->count * o->datatype_bytes;
  if (o->func == CULPRIT_FUNC_ALLREDUCE && o->bytes <= BARRIER_BYTES) o->flags |= CULPRIT_OP_BARRIER;
  PUT(s->func, o->func);
  PUT(s->algo, o->algo);
  PUT(s->proto, o->proto);
  PUT(s->datatype_bytes, o->datatype_bytes);
  if (datatype != NULL) put_text(s->datatype, datatype, sizeof s->datatype);
  PUT(s->count, o->count);
  PUT(s->bytes, o->bytes);
  PUT(s->peer, o->peer);
  PUT(s->root, o->root);
  PUT(s->channels, o->channels);
  PUT(s->seq, o->seq);
  PUT(s->enqueued_ns, o->enqueued_ns);
}

// Links tie the operations of a group together, from the last to the first, apart from the rest: the end of the group looks
// at them without taking their slots.
static uint64_t link_state(uint32_t generation, bool launched) {
  return (uint64_t)(generation & HANDLE_GENERATION_MASK) << 1 | launched;
}

static void op_link(uint32_t i, handle next, bool launched) {
  struct op_link *l = &shim.links[i];
  if (!launched) {
    PUT(l->state, 0);
    SEQLOCK_STORE_FENCE();
    PUT(l->next, next);
  }
  __atomic_store_n(&l->state, link_state(shim.ops[i].generation, launched), __ATOMIC_RELEASE);
}

handle op_called(uint32_t comm, handle group, handle next, const struct op_call *call, uint64_t now) {
  struct comm_ctl *c = &shim.comms[comm];
  const uint32_t i = open_op(comm, group, now);
  if (i == NONE) return handle_make(HANDLE_LOST, shim.cookie, c->generation, comm, 0);
  struct op_ctl *o = &shim.ops[i];
  op_link(i, next, false);
  o->func = name_func(call->func);
  o->datatype_bytes = name_datatype_bytes(call->datatype);
  o->count = call->count;
  if (call->p2p) o->flags |= CULPRIT_OP_P2P;
  if (func_has_root(o->func)) o->root = call->root;
  o->peer = call->peer;
  if (call->numbered) {
    o->seq = call->p2p ? comm_p2p_seq(comm, call->peer, o->func == CULPRIT_FUNC_SEND)
                       : __atomic_fetch_add(&c->func_seq[o->func], 1, __ATOMIC_RELAXED);
  }
  if (o->func == CULPRIT_FUNC_BROADCAST) PUT(c->broadcast_group, group);
  describe(i, call->datatype);
  publish_early(i);
  const handle h = handle_of(i, HANDLE_API);
  unlock_op(i);
  return h;
}

// signature hashes what decides how many proxy operations an operation gets.
static uint32_t signature(const struct op_ctl *o) {
  uint64_t h = 0xcbf29ce484222325u;
  const uint64_t parts[] = {(uint64_t)o->func << 32 | (uint64_t)o->algo << 16 | o->proto, o->channels,
                            (uint64_t)(uint32_t)o->peer << 32 | (uint32_t)o->root, o->bytes};
  for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
    h = (h ^ parts[k]) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  const uint32_t key = (uint32_t)(h >> 32);
  return key != 0 ? key : 1;
}

// find_called takes the slot of the operation that an API event opened, when it still awaits its launch. *gone: it was
// numbered and has been let go since.
static uint32_t find_called(handle api, uint32_t comm, bool *replay, bool *gone) {
  if (handle_kind_of(api) == HANDLE_CAPTURED) *replay = true;
  if (handle_kind_of(api) == HANDLE_LOST) *gone = true;
  if (handle_kind_of(api) != HANDLE_API) return NONE;
  const uint32_t i = lock_op(api);
  if (i == NONE) {
    *gone = true;
    return NONE;
  }
  if (shim.ops[i].state == CULPRIT_OP_CALLED && shim.ops[i].comm_index == comm) return i;
  unlock_op(i);
  *replay = true;  // One call launched again: a graph.
  return NONE;
}

handle op_launched(uint32_t comm, handle api, const struct op_launch *launch, uint64_t now) {
  struct comm_ctl *c = &shim.comms[comm];
  struct culprit_comm *cs = trace_comm(&shim.file, comm);
  if (launch->p2p && launch->peer == c->rank) {
    comm_distrust_kernel(comm, now, "send/recv with itself: KernelCh runs ahead");
  }
  const uint64_t broadcast = GET(c->broadcast_group);
  bool replay = false, gone = false;
  uint32_t i = find_called(api, comm, &replay, &gone);
  const bool had_call = i != NONE;
  if (!had_call && !gone) i = open_op(comm, launch->group, now);
  if (i == NONE) return 0;

  struct op_ctl *o = &shim.ops[i];
  o->func = name_func(launch->func);
  if (!had_call || o->datatype_bytes == 0) {  // A call knows better: NCCL turns some operations into bytes.
    o->datatype_bytes = name_datatype_bytes(launch->datatype);
    o->count = launch->count;
  }
  o->algo = name_algo(launch->algo);
  o->proto = name_proto(launch->proto);
  o->channels = launch->channels <= CULPRIT_MAX_CHANNELS ? launch->channels : 0;
  o->state = CULPRIT_OP_ENQUEUED;
  o->enqueued_ns = now;
  if (launch->p2p) {
    o->peer = launch->peer;
    o->seq = comm_p2p_seq(comm, launch->peer, o->func == CULPRIT_FUNC_SEND);
    o->flags |= CULPRIT_OP_P2P;
  } else {
    o->seq = launch->seq;
    if (func_has_root(o->func)) o->root = launch->root;
  }
  o->flags &= ~CULPRIT_OP_NO_COMPLETION;
  if (replay) o->flags |= CULPRIT_OP_GRAPH;
  const bool hides_proxies = algo_hides_proxies(o->algo);
  if (hides_proxies) o->flags |= CULPRIT_OP_PROXY_UNRELIABLE;
  describe(i, had_call && o->datatype_bytes != 0 ? NULL : launch->datatype);
  o->key = signature(o);

  if (had_call && broadcast == o->group && broadcast != 0 && o->func != CULPRIT_FUNC_BROADCAST) {
    comm_distrust_kernel(comm, now, "Broadcast grouped with others: KernelCh runs ahead");
  }
  const bool trusted = comm_kernel_trusted(comm);
  if (c->kernel_on != 0 && !trusted) o->flags |= CULPRIT_OP_KERNEL_UNTRUSTED;
  const int *mask = GET(shim.mask);
  o->kernel_expected = trusted && mask != NULL && (GET(*mask) & CULPRIT_NCCL_KERNEL_CH) != 0;
  const bool proxies_expected = (c->nnodes > 1 || GET(c->has_proxy) != 0) && !hides_proxies &&
                                comm_learned(comm, o->key) != 0;
  PUT(shim.links[i].watched, o->kernel_expected);
  if (launch->no_completion || (!o->kernel_expected && !proxies_expected)) o->flags |= CULPRIT_OP_NO_COMPLETION;

  COUNT(cs->ops_started, 1);
  PUT(cs->seq_started[o->func], o->seq + 1);
  const handle h = handle_of(i, HANDLE_OP);
  publish_early(i);
  if (!late(comm, o->number)) op_link(i, 0, true);
  unlock_op(i);
  return h;
}

// retire_late does for an operation of an ended group what was too early when later ones came.
static void retire_late(uint32_t comm, uint64_t number) {
  if (late(comm, number)) retire_unseen(comm, number, CULPRIT_OP_ENQUEUED, false);
}

// lock_chained takes the slot of an operation of a group. The chain stays good until the slot is given away; an operation
// may well have ended by now.
static uint32_t lock_chained(handle op) {
  const uint32_t i = handle_index(op);
  if (i >= shim.file.op_count) return NONE;
  if (!seqlock_take(&trace_op(&shim.file, i)->version)) {
    shim_contended();
    return NONE;
  }
  if ((shim.ops[i].generation & HANDLE_GENERATION_MASK) == handle_generation(op)) return i;
  unlock_op(i);
  return NONE;
}

// group_ended is op_group_ended for an operation that may be unlaunched, or too old to be kept.
static __attribute__((noinline)) handle group_ended(handle op) {
  const uint32_t i = lock_chained(op);
  if (i == NONE) return 0;
  struct op_ctl *o = &shim.ops[i];
  const handle next = GET(shim.links[i].next);
  const uint32_t comm = o->comm_index;
  const uint64_t number = o->number;
  const bool unlaunched = o->used && o->state == CULPRIT_OP_CALLED;
  const bool broadcast = unlaunched && o->func == CULPRIT_FUNC_BROADCAST;
  if (unlaunched) {
    o->flags |= CULPRIT_OP_NO_COMPLETION;
    settle(i);
    if (broadcast) comm_distrust_kernel(comm, shim_now(), "Broadcast without a Coll event: KernelCh runs ahead");
  } else {
    unlock_op(i);
  }
  retire_late(comm, number);
  return next;
}

handle op_group_ended(handle op) {
  // Almost always it was launched, and nothing is left to do.
  const uint32_t i = handle_index(op);
  if (i >= shim.file.op_count) return 0;
  const uint64_t state = link_state(handle_generation(op), true);
  if (__atomic_load_n(&shim.links[i].state, __ATOMIC_ACQUIRE) == state) {
    const handle next = GET(shim.links[i].next);
    if (__atomic_load_n(&shim.links[i].state, __ATOMIC_ACQUIRE) == state) return next;
  }
  return group_ended(op);
}

handle op_returned(handle op, bool refused, uint64_t now) {
  const uint32_t i = lock_chained(op);
  if (i == NONE) return 0;
  struct op_ctl *o = &shim.ops[i];
  const handle next = GET(shim.links[i].next);
  if (!o->used || o->state != CULPRIT_OP_CALLED) {
    unlock_op(i);
    return next;
  }
  if (refused) {
    finish(i, CULPRIT_OP_ABANDONED, now);
    return next;
  }
  struct culprit_comm *cs = trace_comm(&shim.file, o->comm_index);
  o->state = CULPRIT_OP_ENQUEUED;
  o->enqueued_ns = now;
  o->flags |= CULPRIT_OP_NO_COMPLETION;
  PUT(trace_op(&shim.file, i)->enqueued_ns, now);
  COUNT(cs->ops_started, 1);
  if (GET(cs->seq_started[o->func]) <= o->seq) PUT(cs->seq_started[o->func], o->seq + 1);  // The chain begins with the last.
  publish(i);
  op_link(i, 0, true);
  const uint32_t comm = o->comm_index;
  const uint64_t number = o->number;
  unlock_op(i);
  retire_late(comm, number);
  return next;
}

enum op_proxy_verdict op_proxy_started(handle op, int32_t peer, uint64_t now, struct op_proxy *out) {
  const uint32_t i = lock_op(op);
  if (i == NONE) return OP_PROXY_UNKNOWN;
  struct op_ctl *o = &shim.ops[i];
  struct comm_ctl *c = &shim.comms[o->comm_index];
  const uint32_t comm = o->comm_index;
  if (c->nranks > 0 && peer >= c->nranks) o->flags |= CULPRIT_OP_PROXY_UNRELIABLE;  // CollNet's peer is nobody.
  const bool follow = (o->flags & CULPRIT_OP_PROXY_UNRELIABLE) == 0;
  const bool first = follow && !o->announced;
  const uint64_t before = o->group_first;
  if (follow) {
    o->proxy_started++;
    COUNT(c->proxies_open, 1);
    o->announced = true;
    o->flags &= ~CULPRIT_OP_NO_COMPLETION;
    out->number = o->number;
    out->seq = o->seq;
    out->func = o->func;
    out->comm = comm;
    out->progress_ns = &trace_op(&shim.file, i)->last_progress_ns;
  }
  settle(i);
  if (follow && GET(c->has_proxy) == 0) {
    PUT(c->has_proxy, 1);
    __atomic_fetch_or(&trace_comm(&shim.file, comm)->flags, CULPRIT_COMM_HAS_PROXY, __ATOMIC_RELAXED);
  }
  PUT(trace_comm(&shim.file, comm)->last_progress_ns, now);
  if (first) advance(comm, &c->final_before, before);
  return follow ? OP_PROXY_FOLLOW : OP_PROXY_IGNORE;
}

void op_moving(handle op, uint64_t now) {
  const uint32_t i = lock_op(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  if (o->state < CULPRIT_OP_MOVING) {
    o->state = CULPRIT_OP_MOVING;
    PUT(trace_op(&shim.file, i)->first_step_ns, now);
  }
  publish(i);
  unlock_op(i);
}

void op_on_gpu(handle op, uint64_t now) {
  const uint32_t i = lock_op(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  struct comm_ctl *c = &shim.comms[o->comm_index];
  const uint32_t comm = o->comm_index;
  const bool first = !o->passed;
  const uint64_t before = o->group_first;
  o->passed = true;
  unlock_op(i);
  PUT(trace_comm(&shim.file, comm)->last_progress_ns, now);
  if (first) advance(comm, &c->passed_before, before);
}

// A proxy operation that has not ended keeps its operation's slot from being given away, so that a stop can be noted
// without holding the slot.
static void proxy_missed(handle op) {
  const uint32_t i = handle_index(op);
  if (i >= shim.file.op_count) return;
  struct op_ctl *o = &shim.ops[i];
  if ((GET(o->generation) & HANDLE_GENERATION_MASK) != handle_generation(op)) return;
  COUNT(o->proxy_missed, 1);
  COUNT(shim.comms[o->comm_index].proxies_open, UINT32_MAX);
}

void op_proxy_closed(handle op, bool is_send, const struct culprit_direction *sums, bool ended, uint64_t now) {
  const uint32_t i = lock_op(op);
  if (i == NONE) {
    if (ended) proxy_missed(op);
    return;
  }
  struct op_ctl *o = &shim.ops[i];
  if (sums != NULL) direction_add(&o->directions[is_send ? 1 : 0], sums);
  if (ended) {
    o->proxy_stopped++;
    COUNT(shim.comms[o->comm_index].proxies_open, UINT32_MAX);
    o->last_proxy_ns = larger(o->last_proxy_ns, sums != NULL && sums->last_step_ns != 0 ? sums->last_step_ns : now);
  }
  PUT(trace_comm(&shim.file, o->comm_index)->last_progress_ns, now);
  settle(i);
}

void op_proxy_lost(handle op) {
  const uint32_t i = lock_op(op);
  if (i == NONE) return;
  COUNT(shim.comms[shim.ops[i].comm_index].proxies_open, UINT32_MAX);
  shim.ops[i].proxies_unknown = true;
  shim.ops[i].flags |= CULPRIT_OP_PROXY_UNRELIABLE;
  settle(i);
}

bool op_kernel_started(handle op, uint32_t channel, uint64_t timer, uint64_t now) {
  if (channel >= CULPRIT_MAX_CHANNELS) return false;
  const uint32_t i = lock_op(op);
  if (i == NONE) return false;
  struct op_ctl *o = &shim.ops[i];
  o->kernel_started |= UINT64_C(1) << channel;
  o->gpu_start[channel] = timer;
  if (o->entered_ns == 0) o->entered_ns = now;
  if (o->state < CULPRIT_OP_ENTERED) o->state = CULPRIT_OP_ENTERED;
  PUT(trace_op(&shim.file, i)->last_progress_ns, now);
  PUT(trace_comm(&shim.file, o->comm_index)->last_progress_ns, now);
  publish(i);
  unlock_op(i);
  return true;
}

void op_kernel_timed(handle op, uint32_t channel, uint64_t timer) {
  if (channel >= CULPRIT_MAX_CHANNELS) return;
  const uint32_t i = lock_op(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  if ((o->kernel_started & UINT64_C(1) << channel) != 0 && o->gpu_start[channel] != 0) {
    o->gpu_ns = larger(o->gpu_ns, clock_since(timer, o->gpu_start[channel]));
  }
  unlock_op(i);
}

void op_kernel_stopped(handle op, uint32_t channel, uint64_t now) {
  if (channel >= CULPRIT_MAX_CHANNELS) return;
  const uint32_t i = lock_op(op);
  if (i == NONE) return;
  struct op_ctl *o = &shim.ops[i];
  const uint64_t bit = UINT64_C(1) << channel;
  if ((o->kernel_stopped & bit) != 0) {
    unlock_op(i);
    COUNT(shim.file.header->repeated_events, 1);
    return;
  }
  o->kernel_started |= bit;
  o->kernel_stopped |= bit;
  o->kernel_left_ns = now;
  PUT(trace_op(&shim.file, i)->last_progress_ns, now);
  PUT(trace_comm(&shim.file, o->comm_index)->last_progress_ns, now);
  settle(i);
}

void op_abandon_all(uint32_t comm, uint64_t now) {
  const uint32_t generation = GET(shim.comms[comm].generation);
  for (uint32_t place = 0; place < OP_WINDOW; place++) {
    const handle h = GET(*comm_window(comm, place));
    if (h == 0) continue;
    const uint32_t i = lock_op(h);
    if (i == NONE) continue;
    const struct op_ctl *o = &shim.ops[i];
    if (o->comm_index != comm || o->comm_generation != generation) {
      unlock_op(i);
    } else if (o->provisional_ns != 0 || (o->flags & CULPRIT_OP_NO_COMPLETION) != 0) {
      // The communicator has come to its end: what seemed over was over.
      finish(i, CULPRIT_OP_LEFT_INFERRED, o->provisional_ns != 0 ? o->provisional_ns : last_seen(o));
    } else {
      finish(i, CULPRIT_OP_ABANDONED, now);
    }
  }
}
