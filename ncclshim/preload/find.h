// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// NCCL's own functions, behind the hooks of the same names.

#ifndef CULPRIT_PRELOAD_FIND_H
#define CULPRIT_PRELOAD_FIND_H

// find gives NCCL's function `name`, by its second name `profiled` (pncclX) where it has one; NULL when the NCCL at hand has
// no such function. *cache keeps what was found.
void *find(void **cache, const char *profiled, const char *name);

#endif
