// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Streams: each does what it is given in order, in a thread of its own that starts with the first work.

#ifndef FAKEGPU_STREAM_H
#define FAKEGPU_STREAM_H

#include <stdbool.h>
#include <stdint.h>

struct stream;
struct capture;

// One piece of work. run returns an enum cuda_error and may be called again when a graph holds the work; release, where there is
// one, frees arg after the last run.
struct op {
  int (*run)(void *arg);
  void (*release)(void *arg);
  void *arg;
};

// The stream behind a handle: 0, 1 and 2 name the current device's default stream.
struct stream *stream_of(struct stream *handle);

// The GPU whose work the stream does.
int stream_gpu(const struct stream *stream);

// Enqueues the work, or adds it to the graph that the stream is being captured into. The work is released even on an error.
int stream_submit(struct stream *handle, struct op op);

// Waits for all work of the stream; for all work of every stream of the device. Returns the first error of work in them.
int stream_synchronize(struct stream *handle);
int stream_synchronize_device(int device);

// The capture that the stream takes part in; NULL if none. See capture.h.
struct capture *stream_capture(struct stream *stream);
void stream_set_capture(struct stream *stream, struct capture *capture);

#endif
