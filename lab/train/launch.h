// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The launcher: all ranks of a job on this machine, as if on several hosts.

#ifndef TRAIN_LAUNCH_H
#define TRAIN_LAUNCH_H

// Runs the job to its end. `argv0` is that of the process. Returns the exit code.
int launch_main(int argc, char **argv, const char *argv0);

#endif
