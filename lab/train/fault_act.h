// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Faults that are deeds.

#ifndef TRAIN_FAULT_ACT_H
#define TRAIN_FAULT_ACT_H

#include <stdint.h>

// Stops the process; continues it after `for_ns` unless 0.
void act_stop(uint64_t for_ns);
// Writes real data with fsync to a file in `dir`, at a steady rate, for so long.
void act_checkpoint(const char *dir, int rank, uint64_t ns);
// Keeps a core busy for so long.
void act_compute(uint64_t ns);

#endif
