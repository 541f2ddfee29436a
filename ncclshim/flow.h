// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Flows and their proxy operations: the hot path.

#ifndef CULPRIT_FLOW_H
#define CULPRIT_FLOW_H

#include "shim.h"

// flow_proxy_started begins to follow a proxy operation. op: HANDLE_OP, or 0 when NCCL names none; comm: the context's
// communicator, for that case. Returns HANDLE_PROXY_OP or 0.
handle flow_proxy_started(uint32_t comm, handle op, const struct culprit_nccl_proxy_op *proxy, uint64_t now);

// flow_proxy_state takes a ProxyOp state of NCCL up to 2.26. It comes once a step. steps: how many have come to it. bytes: sum over
// the steps so far, on top of what an earlier proxy operation may have left there.
void flow_proxy_state(handle proxy, int state, uint64_t bytes, uint32_t steps);

// flow_proxy_stopped ends it. Late, repeated and foreign handles are counted.
void flow_proxy_stopped(handle proxy, uint64_t now);

// flow_step_started gives the handle of a step of a proxy operation, 0 when it is not followed.
handle flow_step_started(handle proxy, int step);

// flow_step_state takes a ProxyStep state (enum culprit_nccl_state). bytes: the transfer's size, where the state has one.
void flow_step_state(handle step, int state, uint64_t bytes);

// flow_step_stopped: the step is done.
void flow_step_stopped(handle step);

// flow_step_received: the receive step is done, which its own stop may have told or be about to tell.
void flow_step_received(handle step);

// flow_release_all gives back the flows of a communicator that ends.
void flow_release_all(uint32_t comm, uint64_t now);

#endif
