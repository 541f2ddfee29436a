// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A fault as it is asked for, and its state.

#ifndef TRAIN_FAULT_SPEC_H
#define TRAIN_FAULT_SPEC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RANK_ALL (-1)
#define RANK_UNSET (-2)
#define NO_STEP UINT64_MAX

enum fault_kind {
  LINK_STALL,
  LINK_SLOW,
  FLUSH_STALL,
  FLUSH_SLOW,
  GPU_FREEZE,
  GPU_SLOW,
  KERNEL_STALL,
  PROXY_DELAY,
  OP_NOT_ENTERED,
  GROUP_STALL,
  OTHER_OP,
  SWAP_ORDER,
  STOP,
  KILL,
  EXIT,
  CHECKPOINT,
  FIRST_STEP,
  EVAL,
  DATA_LATE,
  INIT_HANG,
  SPLIT_HANG,
  BROADCAST_NOT_ENTERED,
  GPU_LOST,
  XID,
  CONTROL,
  KINDS,
};

// DUE: asked for; it waits for its moment within a step.
enum fault_state { ARMED, DUE, ON, OVER };

struct fault {
  enum fault_kind kind;
  char text[64];
  double value;
  int rank;        // As asked for: RANK_ALL, too.
  int peer;        // World rank at the other end of the link; -1: any.
  int channel;     // -1: any.
  char comm[32];   // "": the default, "any".
  uint64_t at_step, every;
  double moment;   // Share of a step's operations that are called before it begins, 0 to 1; -1: at once.
  uint64_t after_ns, for_ns;
  _Atomic int state;
  _Atomic bool felt;  // Its effect has been announced.
  _Atomic uint64_t started_ns;
};

// Parses KIND[=VALUE][:key=value…]; dies on nonsense.
void fault_parse(struct fault *fault, const char *spec);
void fault_set_key(struct fault *fault, const char *key, const char *value);
const char *fault_kind_name(enum fault_kind kind);

#endif
