// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A rank's control thread, for signals and times: SIGTERM ends the job, and aborts it after a grace, as a watchdog does;
// SIGUSR1 and SIGUSR2 begin and end faults.

#ifndef TRAIN_WATCH_H
#define TRAIN_WATCH_H

#include <stdint.h>

// Blocks the signals in the calling thread, and so in all that it starts, and begins to watch.
void watch_start(uint64_t grace_ns);
// The others are known: times of faults count from here.
void watch_met(void);
void watch_stop(void);

#endif
