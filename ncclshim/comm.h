// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Communicators: their slots, operation numbers, and what later operations prove about earlier ones.

#ifndef CULPRIT_COMM_H
#define CULPRIT_COMM_H

#include "shim.h"

struct comm_info {
  uint32_t abi;      // 0: seen by the preload hooks.
  uint64_t comm_id;  // 0 when unknown (ABI 2 and 3).
  const char *name;  // May be NULL.
  int32_t nnodes, nranks, rank;  // -1 unknown.
  int32_t device;                // As CUDA numbers them in this process; -1 unknown.
  bool kernel_on;
};

// comm_open gives the handle of a new communicator, 0 when the table is full.
handle comm_open(const struct comm_info *info, uint64_t now);

// comm_close ends a communicator: what is still open of it is abandoned, its flows are given back.
void comm_close(handle h, uint64_t now);

// comm_identify fills in what ABI 2 and 3 only tell with the first operation.
void comm_identify(uint32_t comm, uint64_t comm_id, const char *name, int32_t rank);

// comm_find gives the slot of a live communicator or NONE.
static inline uint32_t comm_find(handle h) {
  const uint32_t i = handle_index(h);
  if (handle_kind_of(h) != HANDLE_COMM && handle_kind_of(h) != HANDLE_CAPTURED) return NONE;
  if (handle_cookie(h) != shim.cookie || i >= shim.file.comm_count) return NONE;
  const struct comm_ctl *c = &shim.comms[i];
  if (__atomic_load_n(&c->in_use, __ATOMIC_ACQUIRE) == 0) return NONE;
  return (GET(c->generation) & HANDLE_GENERATION_MASK) == handle_generation(h) ? i : NONE;
}

// comm_kernel_trusted says whether KernelCh events tell the truth about an operation of this communicator.
static inline bool comm_kernel_trusted(uint32_t comm, uint64_t number) {
  const struct comm_ctl *c = &shim.comms[comm];
  return c->kernel_on != 0 && number < GET(c->untrusted_from);
}

// comm_distrust_kernel stops KernelCh from being believed from an operation on, for good. Returns whether it was believed until now:
// then op_distrusted is due.
bool comm_distrust_kernel(uint32_t comm, uint64_t from, uint64_t now, const char *why);

// comm_user_thread notes the calling thread's id in the slot.
void comm_user_thread(uint32_t comm);
// comm_proxied notes that the communicator has proxy operations, and the thread that they come from.
void comm_proxied(uint32_t comm);

// comm_window gives the place where operation `number` of the communicator is kept while open.
static inline uint64_t *comm_window(uint32_t comm, uint64_t number) {
  return &shim.windows[(size_t)comm * OP_WINDOW + number % OP_WINDOW];
}

// comm_p2p_seq draws the next sequence number of (communicator, peer, direction).
uint64_t comm_p2p_seq(uint32_t comm, int32_t peer, bool is_send);

// comm_p2p_path and comm_p2p_learn read and note how transfers with a peer move. One that was proxied once always is.
enum p2p_path comm_p2p_path(uint32_t comm, int32_t peer, bool is_send);
void comm_p2p_learn(uint32_t comm, int32_t peer, bool is_send, enum p2p_path path);

// comm_learn and comm_learned keep the number of proxy operations per operation signature. comm_learned gives -1 when
// it is not known.
void comm_learn(uint32_t comm, uint32_t key, uint32_t proxy_ops);
static inline int64_t comm_learned(uint32_t comm, uint32_t key) {
  const uint64_t both = GET(shim.comms[comm].learned[key % LEARNED].both);
  return (uint32_t)(both >> 32) == key && key != 0 ? (int64_t)(uint32_t)both : -1;
}

#endif
