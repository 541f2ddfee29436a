// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The file of a recording: a line a callback, in the order in which the callbacks came.
//
//   NS THREAD VERB …          NS: nanoseconds since the file was opened; THREAD: number of the calling thread, from 1
//   0 1 open realtime=NS pid=PID     wall clock at NS 0
//   NS T thread NAME          the first callback of a thread follows
//   NS T init CTX key=value…
//   NS T start HANDLE EVENT key=value…
//   NS T state HANDLE STATE VALUE    VALUE: v4 on the 8 bytes of the arguments, before transSize/steps, "-" without arguments
//   NS T again HANDLE COUNT   the state recorded last came COUNT times more, the last time at NS
//   NS T stop HANDLE
//   NS T finalize CTX
//   NS T unload               the plugin was unloaded, or its process ended orderly
//
// Contexts and handles are running numbers. Every line is written out at once: a process that is killed leaves what it did.

#ifndef NCCLRECORD_WRITER_H
#define NCCLRECORD_WRITER_H

#include <stddef.h>
#include <stdint.h>

// One line: begin takes the lock of the file, end writes the line out and gives the lock back.
void line_begin(const char *verb);
void line_number(const char *key, int64_t value);
void line_unsigned(const char *key, uint64_t value);
void line_address(const char *key, const void *value);
void line_text(const char *key, const char *value);  // NULL is "-".
void line_end(void);

uint64_t writer_context(void);  // The number of a new communicator.
// The start of an event: gives it its handle, which is named in the line that begins here.
void line_begin_start(void **handle, const char *event);
void writer_state(void *handle, const char *state, const char *value);
void writer_stop(void *handle);
void writer_finalize(void *context);

#endif
