// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What a process is told: flags for the job, environment for who it is.

#ifndef NCCLRUN_OPTIONS_H
#define NCCLRUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schedule.h"

enum dp_op { DP_ALLREDUCE, DP_RS_AG, DP_FSDP };
enum intra { INTRA_NET, INTRA_SHM };

struct options {
  // Who.
  int per_process;  // Ranks of this process, each with a GPU of its own.
  int first_rank;   // The first of them.
  int world_size;   // Ranks of the job.
  int ranks_per_host;
  // Shape: world_size = tp x dp x pp; rank = tp_i + tp x (dp_i + dp x pp_i), Megatron's order. ep and cp divide dp.
  int tp, dp, pp, ep, cp;
  const char *cliques;  // Communicators made each by itself, by name and in order; NULL: world and its splits.
  bool shrink;  // A communicator of all but the last rank, too.
  // Training loop.
  uint64_t steps;       // 0: until SIGTERM.
  uint64_t compute_ns;  // Of one forward or backward pass of one microbatch at the GPU's full speed.
  double jitter;        // Its largest share that a pass takes less or more.
  uint64_t bytes;       // Gradient of one step.
  uint64_t tp_bytes, pp_bytes, ep_bytes, cp_bytes;  // 0: bytes / 4.
  double ep_skew;       // Largest share that an all-to-all sends to a member more or less.
  int microbatches;
  int chunks;           // Of a stage, interleaved.
  int dp_buckets;
  enum dp_op dp_op;
  enum schedule_kind schedule;
  int norm_every;       // Steps; 0 never.
  int barrier_every;
  int broadcast_every;
  int report_every, report_rank;
  bool graphs;          // Passes and their operations are captured once and replayed. Nothing is verified.
  int ahead;            // Steps that the CPU may be ahead of the GPU.
  bool check;           // Verify every result.
  // NCCL.
  const char *library, *layout;
  enum intra intra;
  const char *algo, *proto;  // NULL: NCCL chooses.
  int channels;
  double link_bytes_per_s;   // What link-slow takes a fraction of.
  bool ras;                  // RAS on a free port.
  int poll_us;               // Sleep of a thread of NCCL's that waits; 0: it polls, as published.
  // Running.
  const char *rendezvous;    // Directory.
  uint64_t rendezvous_ns;    // Longest wait for the others.
  uint64_t grace_ns;         // From SIGTERM to abort.
  const char *selftest;      // Runs these operations instead of training; NULL none.
};

// Parses the flags of a process; faults go to fault.h. Dies with a message on nonsense.
void options_parse(struct options *options, int argc, char **argv);

// Prints the flags.
void options_usage(void);

#endif
