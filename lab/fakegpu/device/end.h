// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The device's end of a connection to another rank: a ring of steps in a buffer, a head that the receiver moves to give credit and
// a tail that the sender moves when a step is filled. The other end is a proxy thread or another GPU; neither sees a difference.

#ifndef FAKEGPU_DEVICE_END_H
#define FAKEGPU_DEVICE_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"

struct end {
  char *conn;             // NCCL's struct
  char *buffer;           // of the protocol
  char *fifo;             // what device and proxy tell each other about each step; NULL where there is no proxy
  uint64_t *head, *tail;  // in steps since the connection began
  uint64_t step;          // the next one
  size_t step_bytes;
  size_t lines_seen;      // of the next step, in the protocols that consist of lines
};

// Connection index 0 serves collectives, 1 send and receive. Steps begin at a multiple of round.
struct end end_recv(const struct block *b, int rank, int index, enum protocol proto, unsigned round);
struct end end_send(const struct block *b, int rank, int index, enum protocol proto, unsigned round);
void end_close(const struct end *e);  // leaves the step for the next operation

char *end_slot(const struct end *e);                          // where the next step's data lies
bool end_filled(const struct end *e, unsigned steps);         // receive: the sender has moved the tail over them
bool end_credit(const struct end *e, unsigned steps);         // send: the receiver has room for them
void end_announce(const struct end *e, size_t bytes);         // send: tells the proxy how much the next step holds
void end_consumed(struct end *e, unsigned steps);             // receive
void end_posted(struct end *e, unsigned steps, bool notify);  // send; notify: move the tail

#endif
