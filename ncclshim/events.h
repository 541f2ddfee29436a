// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the ABI adapters (adapter.c, profiler_v*.c) call: NCCL's events without their version's layout. Every function takes any
// handle at any time, and does nothing for one that it cannot use.

#ifndef CULPRIT_EVENTS_H
#define CULPRIT_EVENTS_H

#include "flow.h"
#include "handle.h"
#include "op.h"
#include "profiler_abi.h"

// event_identify: what ABI 2 and 3 tell about the communicator with each operation. comm_id 0: nothing.
void event_identify(handle comm, uint64_t comm_id, const char *name, int rank);
handle event_group(handle comm);
handle event_group_api(handle comm);
// event_call: CollApi or P2pApi. captured: recorded into a CUDA graph, to run later or never.
handle event_call(handle comm, handle group_api, const struct op_call *call, bool captured);
// event_launch: Coll, P2p or CeColl. api: handle of the call or 0.
handle event_launch(handle comm, handle api, const struct op_launch *launch);
handle event_proxy_op(handle comm, handle op, const struct culprit_nccl_proxy_op *proxy);
static inline handle event_proxy_step(handle proxy, int step) { return flow_step_started(proxy, step); }
// event_kernel: KernelCh. timer: 0 where the ABI has none.
handle event_kernel(handle op, uint32_t channel, uint64_t timer);
// event_state_other and event_stop_other are the next two for all but steps, which come so often that they go their own way.
void event_state_other(handle h, int state, uint64_t value);
void event_stop_other(handle h);

// event_state_proxy_op: a state with the arguments of versions 2 and 3.
void event_state_proxy_op(handle h, int state, const union culprit_nccl_state_args_v2 *args);

// event_state: recordEventState. value: transfer size or GPU timer, whichever the state has; 0 none.
static inline void event_state(handle h, int state, uint64_t value) {
  if (__builtin_expect(handle_kind_of(h) == HANDLE_STEP, 1)) {
    flow_step_state(h, state, value);
  } else {
    event_state_other(h, state, value);
  }
}

static inline void event_stop(handle h) {
  if (__builtin_expect(handle_kind_of(h) == HANDLE_STEP, 1)) {
    flow_step_stopped(h);
  } else {
    event_stop_other(h);
  }
}

#endif
