// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Operations are numbered and described here, from the call to the end of their group.

#include "op_state.h"

#include "comm.h"
#include "control.h"
#include "lifecycle.h"
#include "names.h"

#define BARRIER_BYTES 4u

static void dropped(uint64_t now) {
  COUNT(shim.file.header->dropped_ops, 1);
  lifecycle_dropped(CULPRIT_SECTION_OPS, now);
}

// take_slot finds room for operation `number`; NONE when there is none.
static uint32_t take_slot(uint32_t comm, uint64_t number) {
  const handle before = GET(*comm_window(comm, number));
  if (before != 0) op_make_place(before);
  if (GET(*comm_window(comm, number)) != 0) return NONE;
  uint32_t i = pool_take(&shim.op_pool, &shim.file.header->ops_high);
  if (i == NONE && op_make_room()) i = pool_take(&shim.op_pool, &shim.file.header->ops_high);
  return i;
}

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
  if (number >= UNSEEN_TAIL) op_retire_unseen(comm, number - UNSEEN_TAIL, CULPRIT_OP_ENQUEUED, false);
  if (number >= UNSEEN_TAIL_CALLED) op_retire_unseen(comm, number - UNSEEN_TAIL_CALLED, CULPRIT_OP_CALLED, false);
  if (number >= UNSEEN_TAIL_PROXY) op_retire_unseen(comm, number - UNSEEN_TAIL_PROXY, CULPRIT_OP_CALLED, true);
  if (number >= UNSEEN_TAIL_OLD) op_retire_unseen(comm, number - UNSEEN_TAIL_OLD, CULPRIT_OP_CALLED, true);

  const uint32_t i = take_slot(comm, number);
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
  PUT(s->group_ordinal, (uint32_t)(number - o->group_first) + 1);
  PUT(shim.links[i].watched, 0);
  PUT(*comm_window(comm, number), op_handle(i, HANDLE_OP));
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
  op_publish_early(i);
  const handle h = op_handle(i, HANDLE_API);
  op_unlock(i);
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
  const uint32_t i = op_lock(api);
  if (i == NONE) {
    *gone = true;
    return NONE;
  }
  if (shim.ops[i].state == CULPRIT_OP_CALLED && shim.ops[i].comm_index == comm) return i;
  op_unlock(i);
  *replay = true;  // One call launched again: a graph.
  return NONE;
}

handle op_launched(uint32_t comm, handle api, const struct op_launch *launch, uint64_t now) {
  struct comm_ctl *c = &shim.comms[comm];
  struct culprit_comm *cs = trace_comm(&shim.file, comm);
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
  if (GET(c->first_launch_ns) == 0) PUT(c->first_launch_ns, now);
  if (launch->p2p) {
    o->peer = launch->peer;
    o->seq = comm_p2p_seq(comm, launch->peer, o->func == CULPRIT_FUNC_SEND);
    o->flags |= CULPRIT_OP_P2P;
  } else {
    o->seq = launch->seq;
    if (func_has_root(o->func)) o->root = launch->root;
  }
  o->flags &= ~(CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_HIDDEN);
  if (replay) o->flags |= CULPRIT_OP_GRAPH;
  const bool hides_proxies = algo_hides_proxies(o->algo);
  if (hides_proxies) o->flags |= CULPRIT_OP_PROXY_UNRELIABLE;
  describe(i, had_call && o->datatype_bytes != 0 ? NULL : launch->datatype);
  o->key = signature(o);

  const char *why = NULL;
  if (launch->p2p && launch->peer == c->rank && c->abi < 7) why = "send/recv with itself: KernelCh runs ahead";
  if (had_call && broadcast == o->group && broadcast != 0 && o->func != CULPRIT_FUNC_BROADCAST) {
    why = "Broadcast grouped with others: KernelCh runs ahead";
  }
  const uint64_t from = o->group_first;
  const bool drifts = why != NULL && comm_distrust_kernel(comm, from, now, why);
  const bool trusted = comm_kernel_trusted(comm, o->number);
  if (c->kernel_on != 0 && !trusted) o->flags |= CULPRIT_OP_KERNEL_UNTRUSTED;
  const int *mask = GET(shim.mask);
  o->kernel_expected = trusted && !launch->no_completion && mask != NULL && (GET(*mask) & CULPRIT_NCCL_KERNEL_CH) != 0;
  PUT(shim.links[i].watched, o->kernel_expected);
  if (launch->no_completion) {
    o->flags |= CULPRIT_OP_NO_COMPLETION;
  } else {
    op_expect(o);
  }

  COUNT(cs->ops_started, 1);
  PUT(cs->seq_started[o->func], o->seq + 1);
  const handle h = op_handle(i, HANDLE_OP);
  op_publish_early(i);
  if (!op_is_late(comm, o->number)) op_link(i, 0, true);
  op_unlock(i);
  if (drifts) op_distrusted(comm, from);
  return h;
}

// retire_late does for an operation of an ended group what was too early when later ones came.
static void retire_late(uint32_t comm, uint64_t number) {
  if (op_is_late(comm, number)) op_retire_unseen(comm, number, CULPRIT_OP_ENQUEUED, false);
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
  op_unlock(i);
  return NONE;
}

// broadcast_hidden notes that no launch followed a Broadcast call. After several in one group NCCL 2.29 and 2.30 never report a kernel
// of the communicator again, and destroying it waits for them: better not to ask for any.
static void broadcast_hidden(uint32_t comm, uint64_t group, uint64_t from) {
  struct comm_ctl *c = &shim.comms[comm];
  const uint64_t now = shim_now();
  if (comm_distrust_kernel(comm, from, now, "Broadcast without a Coll event: KernelCh runs ahead")) op_distrusted(comm, from);
  if (c->abi == 6 && c->kernel_on != 0 && group != 0 && GET(c->hidden_group) == group && GET(shim.kernel_off) == 0) {
    control_give_up_kernel(now, "KernelCh is lost after grouped Broadcasts");
  }
  PUT(c->hidden_group, group);
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
  const uint64_t from = o->group_first, group = o->group;
  if (unlaunched) {
    o->flags |= CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_HIDDEN;
    __atomic_fetch_or(&trace_comm(&shim.file, comm)->flags, CULPRIT_COMM_HIDES_OPS, __ATOMIC_RELAXED);
    op_settle(i);
    if (broadcast) broadcast_hidden(comm, group, from);
  } else {
    op_unlock(i);
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
    op_unlock(i);
    return next;
  }
  if (refused) {
    op_finish(i, CULPRIT_OP_ABANDONED, now);
    return next;
  }
  struct culprit_comm *cs = trace_comm(&shim.file, o->comm_index);
  o->state = CULPRIT_OP_ENQUEUED;
  o->enqueued_ns = now;
  o->flags |= CULPRIT_OP_NO_COMPLETION;
  PUT(trace_op(&shim.file, i)->enqueued_ns, now);
  COUNT(cs->ops_started, 1);
  if (GET(cs->seq_started[o->func]) <= o->seq) PUT(cs->seq_started[o->func], o->seq + 1);  // The chain begins with the last.
  op_publish(i);
  op_link(i, 0, true);
  const uint32_t comm = o->comm_index;
  const uint64_t number = o->number;
  op_unlock(i);
  retire_late(comm, number);
  return next;
}
