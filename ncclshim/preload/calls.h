// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the hooks keep about the calling thread, and what they tell the plugin. NCCL calls some of its own public functions:
// what is called from inside a hooked call is not noted a second time.

#ifndef CULPRIT_PRELOAD_CALLS_H
#define CULPRIT_PRELOAD_CALLS_H

#include "../hooks.h"
#include "nccl_api.h"

// calls_nested says whether the thread is inside a hooked call already.
bool calls_nested(void);

// calls_operation and calls_operation_done: an operation on a communicator, before and after.
void calls_operation(const struct culprit_api_call *call);
void calls_operation_done(int result);

// calls_group_start comes after ncclGroupStart, calls_group_end and calls_group_ended before and after ncclGroupEnd.
// launched: the call launches what was collected (ncclGroupSimulateEnd does not).
void calls_group_start(int result);
void calls_group_end(void);
void calls_group_ended(int result, bool launched);

// calls_blocking and calls_blocking_done: a call that can block, before and after; see call_begin of struct culprit_hooks.
// Inside a group it is ncclGroupEnd that blocks, and that is noted.
void calls_blocking(const char *what, uint64_t id, int nranks, const void *comm);
void calls_blocking_done(const char *what, uint64_t id, int result);

// calls_made: a call has made a communicator, or will have at the end of the group. nranks and rank: -1 when NCCL is to be
// asked.
void calls_made(void *const *comm, uint64_t id, int nranks, int rank, int result);

// calls_made_here: ncclCommInitAll has made all ranks of a communicator in this process.
void calls_made_here(void *const *comms, int count, int result);

// calls_split: like calls_made, for a child of parent. Where it is not ready when the call returns, calls_state completes it:
// NCCL's answer to ncclCommGetAsyncError of the parent.
void calls_split(const void *parent, void *const *child, uint64_t id, int result);
void calls_state(const void *parent, int state);

// calls_child is the id of a split or shrink: see apicomm_child. A shrink's is its child's, too; calls_color gives that of a
// split's child.
uint64_t calls_child(const void *parent, const int *excluded, int count, bool shrink);
uint64_t calls_color(uint64_t split, int color);

// calls_id gives the id of communicators made with these unique ids.
uint64_t calls_id(const struct nccl_unique_id *ids, int count);

// calls_datatype gives the name of an ncclDataType_t, NULL when it is not known.
const char *calls_datatype(int datatype);

#endif
