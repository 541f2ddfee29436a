// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The launcher: all ranks of a job on this machine, as if on several hosts.

#ifndef RINGJOB_LAUNCH_H
#define RINGJOB_LAUNCH_H

// Exit code of the launcher when a rank was lost to a signal that the launcher did not send.
enum { EXIT_RANK_LOST = 6 };

// Runs the job to its end. `program` is argv[0] of the process. Returns the exit code.
int launch_main(int argc, char **argv, const char *program);

#endif
