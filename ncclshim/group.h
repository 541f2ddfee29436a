// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Groups: GroupApi tells when a thread is inside a group of calls; Group names the plan that operations were launched
// with.

#ifndef CULPRIT_GROUP_H
#define CULPRIT_GROUP_H

#include "shim.h"

// group_plan gives the handle of a new plan of the communicator. It owns nothing and needs no stop.
handle group_plan(uint32_t comm);

// group_api_open notes that a thread has begun a group; 0 when too many have.
handle group_api_open(uint64_t now);

// group_api_ending notes that the thread has come to ncclGroupEnd.
void group_api_ending(handle h, uint64_t now);

// group_api_close notes that ncclGroupEnd has returned.
void group_api_close(handle h);

// group_api_find gives an open group's slot, NULL when there is none.
static inline struct group_slot *group_api_find(handle h) {
  const uint32_t i = handle_index(h);
  if (handle_kind_of(h) != HANDLE_GROUP_API || handle_cookie(h) != shim.cookie || i >= GROUP_SLOTS) return NULL;
  struct group_slot *g = &shim.groups[i];
  return (GET(g->generation) & HANDLE_GENERATION_MASK) == handle_generation(h) ? g : NULL;
}

// group_api_add puts an operation before the one that joined the group last (first_op), which it must know as its next
// (op_called).
static inline void group_api_add(struct group_slot *g, handle op) {
  if (handle_kind_of(op) == HANDLE_API) PUT(g->first_op, op);
}

#endif
