// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Communicators as NCCL's API shows them to the preload hooks: pointers, and what was known when each was made. Where
// NCCL's profiler interface reports them, none of them gets a slot here.

#ifndef CULPRIT_APICOMM_H
#define CULPRIT_APICOMM_H

#include "handle.h"

#include <stdbool.h>

// apicomm_made notes a communicator. id: equal on all its ranks, 0 unknown. nranks, rank, device: -1 unknown. ready: it can be
// used, so that whoever reports it has been told of it.
void apicomm_made(const void *comm, uint64_t id, int nranks, int rank, int device, bool ready);

// apicomm_child gives the id of a split or shrink of parent: the same on all that must call it, whichever others they have
// taken part in. excluded: ranks left out of a shrink, NULL with a split. 0 when the parent's id is not known.
uint64_t apicomm_child(const void *parent, const int *excluded, int count);

// apicomm_known tells what is known of a communicator: id and slot 0, nranks -1 where they are not.
struct apicomm_known {
  uint64_t id;
  handle slot;
  int nranks;
};
struct apicomm_known apicomm_known(const void *comm);

// apicomm_leaving names a communicator that a call is about to end, apicomm_gone forgets that one and ends its slot: by
// then another one may have its address.
uint64_t apicomm_leaving(const void *comm);
void apicomm_gone(const void *comm, uint64_t leaving);

// apicomm_find gives the communicator's handle, 0 when it has no slot here.
handle apicomm_find(const void *comm);

#endif
