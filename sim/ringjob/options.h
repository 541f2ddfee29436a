// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What a rank is told: flags for the job, environment for who it is.

#ifndef RINGJOB_OPTIONS_H
#define RINGJOB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schedule.h"

enum net_kind {
  NET_IB,      // A send is accepted once the receiver has posted, and done once delivered.
  NET_SOCKET,  // A send is always accepted, and done once in the kernel's socket.
};

enum intra_kind {
  INTRA_NET,  // Edges inside a host go over the network, as with a distinct NCCL_HOSTID for each rank.
  INTRA_SHM,  // Edges inside a host have no proxy events.
};

enum dp_op { DP_ALLREDUCE, DP_RS_AG };

struct options {
  // Who: from the environment.
  int rank;            // RANK.
  int world_size;      // WORLD_SIZE.
  int ranks_per_host;  // LOCAL_WORLD_SIZE.
  // Shape: world_size = tp x dp x pp; rank = tp_i + tp x (dp_i + dp x pp_i), Megatron's order.
  int tp, dp, pp;
  // Training loop.
  uint64_t steps;         // 0: until SIGTERM.
  uint64_t compute_ns;    // Of one forward or backward pass of one microbatch on the "GPU".
  size_t bytes;           // Gradient of one step.
  size_t tp_bytes;        // 0: bytes / 4.
  size_t pp_bytes;        // 0: bytes / 4.
  int microbatches;
  int dp_buckets;
  enum dp_op dp_op;
  enum schedule_kind schedule;
  int barrier_every;      // Steps; 0 never.
  int report_every;       // Steps; 0 never.
  bool tree;              // Tree instead of ring AllReduce.
  bool check;             // Verify every result.
  // NCCL.
  int abi;                // Profiler ABI: 0 the newest that the plugin has, else 3 to 7.
  int channels;
  int p2p_channels;
  size_t step_bytes;      // Of one of the NCCL_STEPS buffers of a connection.
  bool shared_proxy;      // One progress thread for the process, not one for each communicator.
  enum net_kind net;
  enum intra_kind intra;
  uint64_t link_bytes_per_s;  // Of one connection; 0 unlimited.
  uint64_t link_latency_ns;
  uint64_t connect_ns;    // First operation of a kind on a communicator: to connect, inside ncclGroupEnd.
  bool comm_names;        // Communicators are named (ncclConfig_t.commName), as by recent PyTorch; by default NCCL has none.
  uint64_t poll_ns;       // Longest sleep of a progress thread with work.
  // Running.
  const char *rendezvous;     // Directory.
  uint64_t rendezvous_ns;     // Longest wait for the others.
  uint64_t grace_ns;          // From SIGTERM to abort.
  const char *selftest;       // Runs this test of operations instead of training; NULL none.
};

// Parses the flags of a rank; faults go to fault.h. Dies with a message on nonsense.
void options_parse(struct options *options, int argc, char **argv);

// Prints the flags.
void options_usage(void);

#endif
