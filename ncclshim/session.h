// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// From the first communicator to the last.

#ifndef CULPRIT_SESSION_H
#define CULPRIT_SESSION_H

#include "comm.h"
#include "profiler_abi.h"

// session_open_comm opens the trace file at the first communicator, and a slot for this one. It writes NCCL's context
// and event mask, and always succeeds: where tracing is impossible or switched off, the mask is 0 and one line says why,
// so that NCCL takes the same course through its code in every case.
void session_open_comm(struct comm_info *info, void **context, int *mask, culprit_nccl_logger logger);

// session_open_file opens the trace file if nobody has yet, for events that do not come from NCCL's profiler interface. It
// says whether events are taken.
bool session_open_file(void);

// session_open_called opens a slot for a communicator that the preload hooks saw being made. Gives 0 where NCCL's profiler
// interface reports communicators (*reported is set then), or tracing is off.
handle session_open_called(struct comm_info *info, bool *reported);

// session_close_called ends a communicator; with the last one the file is marked as closed.
void session_close_called(handle h);

// session_close_comm is session_close_called for NCCL's context of it.
void session_close_comm(void *context);

#endif
