// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Streams that are being captured: their work becomes nodes of a graph.
//
// A stream takes part in a capture when it began it or when it waited for an event that was recorded in it. It has a frontier:
// the nodes that its next one comes after.

#ifndef FAKEGPU_CAPTURE_H
#define FAKEGPU_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "stream.h"

struct event;
struct graph_node;

// Where a stream was in a capture when an event was recorded.
struct captured_place {
  uint64_t capture_id;  // 0: none
  struct graph_node **nodes;
  size_t count;
};

void captured_place_clear(struct captured_place *place);

// What follows is for streams with a capture. Each returns an enum cuda_error.
int capture_add(struct stream *stream, struct op op);
int capture_add_record(struct stream *stream, struct event *event);
int capture_add_wait(struct stream *stream, struct event *event);
int capture_record(struct stream *stream, struct captured_place *place);

// Lets a stream, captured or not, go on after the place.
int capture_join(struct stream *stream, const struct captured_place *place);

// Ends the stream's part.
void capture_leave(struct stream *stream);

// The capture becomes invalid by something that must not be done meanwhile: to wait for a stream, or for work outside.
int capture_forbid(struct stream *stream);
int capture_isolation(struct stream *stream);

#endif
