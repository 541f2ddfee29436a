// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A communicator: its members, connections and numbers.

#ifndef RINGJOB_COMM_H
#define RINGJOB_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "conn.h"
#include "options.h"
#include "proxy.h"

#define MAX_CHANNELS 64
#define KERNEL_MARKS 64  // Starts and ends a channel remembers (MAX_PROFILER_EVENTS_PER_CHANNEL).

enum func { FUNC_ALLREDUCE, FUNC_ALLGATHER, FUNC_REDUCESCATTER, FUNC_BROADCAST, FUNC_SEND, FUNC_RECV, FUNC_COUNT };

struct gpu;

// Written by the GPU at the start and the end of each work of a channel, read by the proxy thread.
struct kernel_mark {
  _Atomic uint64_t counter;
  _Atomic uint64_t timestamp;  // globaltimer, ns.
};

struct comm {
  char name[32];
  uint64_t id;
  int nranks;
  int rank;
  int nnodes;
  int *members;  // World rank of each rank.
  const struct options *options;
  const uint16_t *ports;  // By world rank.
  struct proxy *proxy;
  bool own_proxy;
  struct gpu *gpu;
  void *prof_context;
  // User thread only.
  struct conn *conns;
  uint64_t seq[FUNC_COUNT];   // Next sequence number of each function, as comm->seqNumber.
  uint64_t coll_number;       // Collectives called.
  uint64_t *send_number;      // Sends called to each peer; receives from each peer.
  uint64_t *recv_number;
  bool connected[2];          // Collectives; sends and receives.
  uint64_t group_number;      // Groups of send/recv.
  uint64_t work_counter[MAX_CHANNELS];
  int splits;
  // Proxy thread only.
  struct fifo p2p_fifo[MAX_CHANNELS][2];    // By channel and direction (1 send): send/recv share buffers there.
  struct fifo kernel_fifo[MAX_CHANNELS][2];
  // GPU to proxy thread.
  struct kernel_mark started[MAX_CHANNELS][KERNEL_MARKS];
  struct kernel_mark completed[MAX_CHANNELS][KERNEL_MARKS];
};

// The communicator of all ranks.
struct comm *comm_world(const struct options *options, uint64_t unique_id, const uint16_t *ports, struct gpu *gpu);
// As ncclCommSplit: collective over the parent. NULL where `color` is negative.
struct comm *comm_split(struct comm *parent, int color, int key, const char *name);
// As ncclCommDestroy, or ncclCommAbort when the process is being torn down.
void comm_destroy(struct comm *comm);

// The connection, made on first use.
struct conn *comm_conn(struct comm *comm, int channel, int peer, bool is_send, bool p2p);

const char *func_name(enum func func);

#endif
