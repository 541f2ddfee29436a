// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "events.h"

#include "comm.h"
#include "flow.h"
#include "group.h"
#include "shim.h"

#define CALLBACKS_A_CALL 2u    // Start and stop.
#define CALLBACKS_A_LAUNCH 2u
#define CALLBACKS_A_STEP 5u    // Start, three states, stop.

void event_identify(handle comm, uint64_t comm_id, const char *name, int rank) {
  if (!shim_active()) return;
  const uint32_t i = comm_find(comm);
  if (i != NONE) comm_identify(i, comm_id, name, rank);
}

handle event_group(handle comm) {
  if (!shim_active()) return 0;
  const uint32_t i = comm_find(comm);
  return i == NONE ? 0 : group_plan(i);
}

handle event_group_api(handle comm) {
  if (!shim_active() || comm_find(comm) == NONE) return 0;
  return group_api_open(shim_now());
}

handle event_call(handle comm, handle group_api, const struct op_call *call, bool captured) {
  if (!shim_active()) return 0;
  const uint32_t i = comm_find(comm);
  if (i == NONE) return 0;
  if (captured) return handle_as(comm, HANDLE_CAPTURED, 0);
  struct group_slot *group = group_api_find(group_api);
  const handle before = group == NULL ? 0 : GET(group->first_op);
  // The first call of a group is what opens it.
  const uint64_t now = group != NULL && before == 0 ? GET(group->since_ns) : shim_now();
  const handle h = op_called(i, group == NULL ? 0 : group_api, before, call, now);
  if (group != NULL) group_api_add(group, h);
  shim_tick(now, CALLBACKS_A_CALL);
  return h;
}

handle event_launch(handle comm, handle api, const struct op_launch *launch) {
  if (!shim_active()) return 0;
  const uint32_t i = comm_find(comm);
  if (i == NONE) return 0;
  const uint64_t now = shim_now();
  const handle h = op_launched(i, api, launch, now);
  shim_tick(now, CALLBACKS_A_LAUNCH);
  return h;
}

// An operation proxied for another process (PXN) comes with that process' words for context and parent: neither may be
// looked at.
handle event_proxy_op(handle comm, handle op, const struct culprit_nccl_proxy_op *proxy) {
  if (!shim_active()) return 0;
  if (proxy->pid != shim.pid) {
    COUNT(shim.file.header->foreign_events, 1);
    return 0;
  }
  const uint64_t now = shim_now();
  const uint32_t callbacks = 2 + (proxy->nSteps > 0 ? (uint32_t)proxy->nSteps * CALLBACKS_A_STEP : 0);
  shim_tick(now, callbacks);
  if (op != 0 && handle_kind_of(op) != HANDLE_OP) {
    shim_stale();
    op = 0;
  }
  return flow_proxy_started(comm_find(comm), op, proxy, now);
}

handle event_kernel(handle op, uint32_t channel, uint64_t timer) {
  if (!shim_active()) return 0;
  if (handle_kind_of(op) != HANDLE_OP) {
    if (op != 0) shim_stale();
    return 0;
  }
  const uint64_t now = shim_now();
  shim_tick(now, 3);
  return op_kernel_started(op, channel, timer, now) ? handle_as(op, HANDLE_KERNEL, channel) : 0;
}

void event_state_proxy_op(handle h, int state, const union culprit_nccl_state_args_v2 *args) {
  if (handle_kind_of(h) != HANDLE_PROXY_OP) {
    event_state(h, state, 0);
    return;
  }
  if (shim_active() && args->proxyOp.steps > 0) flow_proxy_state(h, state, args->proxyOp.transSize, (unsigned)args->proxyOp.steps);
}

void event_state_other(handle h, int state, uint64_t value) {
  switch (handle_kind_of(h)) {
    case HANDLE_KERNEL:
      if (state == CULPRIT_NCCL_KERNEL_CH_STOP && shim_active()) op_kernel_timed(h, handle_aux(h), value, shim_now());
      return;
    case HANDLE_GROUP_API:
      if (state == CULPRIT_NCCL_GROUP_END_API_START && shim_active()) group_api_ending(h, shim_now());
      return;
    default: return;
  }
}

void event_stop_other(handle h) {
  switch (handle_kind_of(h)) {
    case HANDLE_PROXY_OP:
      if (shim_active()) flow_proxy_stopped(h, shim_now());
      return;
    case HANDLE_KERNEL:
      if (shim_active()) op_kernel_stopped(h, handle_aux(h), shim_now());
      return;
    case HANDLE_GROUP_API:
      if (shim_active()) group_api_close(h);
      return;
    case HANDLE_NONE:
    case HANDLE_COMM:
    case HANDLE_STEP:
    case HANDLE_GROUP:
    case HANDLE_API:       // The call has returned.
    case HANDLE_CAPTURED:
    case HANDLE_LOST:
    case HANDLE_QP:
    case HANDLE_OP:        // Enqueued, which its start has told already.
      return;
  }
}
