// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the parts in this room have to know of the program that they are built into. Each program defines one.

#ifndef TRAIN_PROGRAM_H
#define TRAIN_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

struct fault;

struct program {
  const char *name;     // In messages, and the job's name unless one is given.
  uint64_t kinds;       // Faults that it can inject: one bit for each enum fault_kind.
  void (*usage)(void);  // Prints all flags.
  // A fault begins: does what the program has to do for it. True: its effect is there at once; false: where it is felt,
  // fault_feel says so later.
  bool (*fault_begins)(struct fault *fault);
  // It has ended.
  void (*fault_ends)(struct fault *fault);
  // The job is being torn down after its grace, by the control thread: makes waiting threads look up.
  void (*aborting)(void);
  // Launcher: makes what a simulated host with so many ranks needs in `dir`. NULL: nothing.
  void (*prepare_host)(const char *dir, const char *name, int host, int ranks);
  // Launcher, in the new process of local ranks [local, local + count) of a host: sets more of its environment. NULL: nothing.
  void (*prepare_rank)(const char *dir, const char *name, int host, int local, int count);
  // Launcher: a process will be killed: removes what it cannot remove itself. NULL: nothing.
  void (*before_kill)(long pid);
};

extern const struct program program;

#endif
