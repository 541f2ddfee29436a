// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Keeping the job alive when somebody truncates the trace file: a write behind the end of a mapped file raises SIGBUS.

#ifndef CULPRIT_GUARD_H
#define CULPRIT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

// guard_begin watches over a mapping. A fault in it maps private memory over it, and the thread goes on; every other SIGBUS goes to
// the handler that was there before. One mapping a process.
void guard_begin(void *base, size_t bytes);

// guard_lost says whether the mapping is no longer the file.
bool guard_lost(void);

// guard_end gives SIGBUS back to the handler before, unless another one has been put in front since.
void guard_end(void);

#endif
