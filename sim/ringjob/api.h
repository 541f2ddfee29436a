// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The calls of a training program, with NCCL's meaning: they enqueue and return. Data is float32. A group must stay on
// one communicator. Only one thread calls.

#ifndef RINGJOB_API_H
#define RINGJOB_API_H

#include <stddef.h>

#include "comm.h"
#include "plan.h"

void api_group_start(void);
void api_group_end(void);

void api_all_reduce(struct comm *comm, const float *send, float *recv, size_t count, enum algo algo);
// `count` elements from each rank; recv has room for all.
void api_all_gather(struct comm *comm, const float *send, float *recv, size_t count);
// `count` elements to each rank; send has those of all.
void api_reduce_scatter(struct comm *comm, const float *send, float *recv, size_t count);
void api_broadcast(struct comm *comm, const float *send, float *recv, size_t count, int root);
void api_send(struct comm *comm, const float *send, size_t count, int peer);
void api_recv(struct comm *comm, float *recv, size_t count, int peer);

// Whether Broadcast is lowered to AllGatherV, which has API events only (NCCL 2.29 on, NCCL_ALLGATHERV_ENABLE=1).
bool api_broadcast_is_hidden(void);

#endif
