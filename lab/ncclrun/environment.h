// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What surrounds a rank: the played host's directory, and NCCL's settings on a host without a GPU fabric.

#ifndef NCCLRUN_ENVIRONMENT_H
#define NCCLRUN_ENVIRONMENT_H

#include "options.h"

// For the launcher, as struct program wants them.
void environment_of_host(const char *dir, const char *name, int host, int ranks);
void environment_of_rank(const char *dir, const char *name, int host, int local, int count);

// Unlinks NCCL's files in /dev/shm that a process still has a name for. NCCL does that itself once both sides have a segment
// mapped, but not in a process that is killed before.
void environment_clean(long pid);

// Sets NCCL's variables that are not set, before the library is loaded.
void environment_of_nccl(const struct options *options);

// The index on the played host of the process's GPU number `device`.
int environment_gpu(int device);

#endif
