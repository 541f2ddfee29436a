// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Operations from the call to the end. See op_end.c for when one counts as ended.

#ifndef CULPRIT_OP_H
#define CULPRIT_OP_H

#include "shim.h"

// A call, as the API events (ABI 5 on) or the preload hooks tell it.
struct op_call {
  const char *func;
  const char *datatype;
  uint64_t count;
  int32_t root;
  int32_t peer;   // Send/recv: -1 where only the launch tells.
  bool p2p;
  bool numbered;  // No launch will tell its sequence number: it is drawn at the call.
};

// An operation at its launch, as the Coll and P2p events tell it.
struct op_launch {
  const char *func;
  const char *datatype;
  const char *algo;
  const char *proto;
  uint64_t seq;
  uint64_t count;
  uint64_t group;  // Plan or group that it belongs to, 0 unknown.
  int32_t root;    // Collectives.
  int32_t peer;    // Send/recv.
  uint32_t channels;
  bool p2p;
  bool no_completion;  // The path never tells of an end (copy engine collectives).
};

// op_called opens an operation at its API event, in state CALLED. group: handle of its GroupApi event or 0; next: the
// operation before it in that group. Returns HANDLE_API, or HANDLE_LOST when there is no room.
handle op_called(uint32_t comm, handle group, handle next, const struct op_call *call, uint64_t now);

// op_launched moves the operation of an API event to ENQUEUED, or opens one when there is none. Returns HANDLE_OP or 0.
handle op_launched(uint32_t comm, handle api, const struct op_launch *launch, uint64_t now);

// op_group_ended says that the call's group has ended: without a launch by now, none will be seen. Returns the operation
// before it in the group.
handle op_group_ended(handle op);

// op_returned says that an operation without launch events (preload hooks) was enqueued, or refused by NCCL. Returns the
// operation before it in the group.
handle op_returned(handle op, bool refused, uint64_t now);

// What a proxy operation needs to know of its operation.
struct op_proxy {
  uint64_t number, seq;
  uint16_t func;
  uint32_t comm;
  uint64_t *progress_ns;
};

enum op_proxy_verdict {
  OP_PROXY_FOLLOW,   // *out is filled in.
  OP_PROXY_IGNORE,   // Of a kind that never tells of its end.
  OP_PROXY_UNKNOWN,  // The handle is not of a live operation.
};

// op_proxy_started: a proxy operation of `op` towards rank `peer` starts.
enum op_proxy_verdict op_proxy_started(handle op, int32_t peer, uint64_t now, struct op_proxy *out);

// op_moving: the first step of one of its proxy operations.
void op_moving(handle op, uint64_t now);

// op_on_gpu: the GPU has made data of the operation to send (is_send), or taken data of it, so its kernel runs and those before it
// have ended.
void op_on_gpu(handle op, bool is_send, uint64_t now);

// op_proxy_closed: a proxy operation has ended, or (ended false) only its figures are handed in because the
// communicator goes. share: its figures as those of one flow, NULL when there are none.
void op_proxy_closed(handle op, bool is_send, const struct flow_share *share, bool ended, uint64_t now);

// op_proxy_lost: a proxy operation could not be followed; the others prove nothing about the operation's end.
void op_proxy_lost(handle op);

// op_kernel_started and op_kernel_stopped: one channel's kernel; op_kernel_timed before the latter. timer: the GPU's
// clock in ns, 0 unknown.
bool op_kernel_started(handle op, uint32_t channel, uint64_t timer, uint64_t now);
void op_kernel_timed(handle op, uint32_t channel, uint64_t timer, uint64_t now);
void op_kernel_stopped(handle op, uint32_t channel, uint64_t now);

// op_abandon_all ends every open operation of a communicator as abandoned.
void op_abandon_all(uint32_t comm, uint64_t now);

#endif
