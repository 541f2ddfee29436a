// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the plugin offers to the two libraries beside it: the preload hooks (preload/) and the verbs interposer (verbs/).
// They are linked against the plugin's file, so that one instance of it serves all three, whoever loads it first.
//
// Every function may be called from any thread at any time, and does nothing while tracing is off.

#ifndef CULPRIT_HOOKS_H
#define CULPRIT_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#define CULPRIT_HOOKS_VERSION 4

struct culprit_qp_change {
  int state;              // enum ibv_qp_state; -1 unchanged.
  uint32_t dest_qp_num;   // 0 unchanged, as are all of these.
  bool has_path;          // The next four hold.
  uint16_t port;
  uint16_t dest_lid;
  uint16_t gid_index;
  uint8_t remote_gid[16];
};

// An operation of NCCL's API. Texts as NCCL's profiler interface has them: "AllReduce", "ncclFloat32".
struct culprit_api_call {
  const void *comm;
  const char *func;
  const char *datatype;  // NULL unknown.
  uint64_t count;
  int root;
  int peer;  // Send/recv, else -1.
  bool p2p;
};

struct culprit_hooks {
  uint32_t version;  // CULPRIT_HOOKS_VERSION; newer ones append functions.
  uint32_t bytes;    // Of this struct.

  // An NCCL call that can block begins and ends. what: a string that stays. id: the same on all ranks that must call it, 0
  // that of comm. nranks: how many those are; negative: as many as comm has, less -1 - nranks. comm: what it is called on,
  // NULL none. begin opens the trace file when it is the first thing that happens in the process.
  void (*call_begin)(const char *what, uint64_t id, int nranks, const void *comm);
  void (*call_end)(const char *what, uint64_t id, int result);

  // A queue pair was made; returns its handle, 0 when it is not tracked.
  uint64_t (*qp_created)(uint32_t qp_num, const char *device);
  void (*qp_changed)(uint64_t qp, const struct culprit_qp_change *change);
  void (*qp_destroyed)(uint64_t qp);
  // One send request of `bytes` was posted; signaled: it will give a completion of its own.
  void (*qp_send_posted)(uint64_t qp, uint64_t bytes, bool signaled);
  void (*qp_receive_posted)(uint64_t qp);
  // A completion came. status: enum ibv_wc_status, 0 success.
  void (*qp_completed)(uint64_t qp, bool receive, int status);

  // Since version 2. The communicators of the API and the operations on them, for where nobody else reports them; see
  // apicomm.h for the first four.
  void (*comm_made)(const void *comm, uint64_t id, int nranks, int rank, int device, bool ready);
  uint64_t (*comm_child)(const void *parent, const int *excluded, int count);
  uint64_t (*comm_leaving)(const void *comm);
  void (*comm_gone)(const void *comm, uint64_t leaving);
  // A thread calls an operation. group: what the calls before it in its ncclGroupStart gave, else 0. Returns the group's handle
  // for the calls after it, 0 where the operation is not for the hooks to report. Then ending (it enters ncclGroupEnd) and
  // end (it has left it, or the one operation that was called without a group). accepted: NCCL has taken them.
  uint64_t (*group_call)(uint64_t group, const struct culprit_api_call *call);
  void (*group_ending)(uint64_t group);
  void (*group_end)(uint64_t group, bool accepted);
};

extern const struct culprit_hooks culprit_hooks;

#endif
