// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Moves pieces of data between the user's buffers and the ends of connections, in one of NCCL's protocols. It never waits: a turn
// does what can be done now.

#ifndef FAKEGPU_DEVICE_EXCHANGE_H
#define FAKEGPU_DEVICE_EXCHANGE_H

#include "end.h"
#include "reduce.h"

enum turn { TURN_WAIT, TURN_MOVED, TURN_DONE };

enum { EXCHANGE_ENDS = 3 };  // the children of a rank in a tree

// A piece is received from all receiving ends if recv, combined with in if there is one, written to out if there is one, and
// sent to all sending ends if send. finish: the result is complete, what the operation does to results is done to it.
struct piece {
  const char *in;
  char *out;
  size_t count;  // elements
  bool recv, send, finish;
};

struct exchange {
  struct end recv[EXCHANGE_ENDS], send[EXCHANGE_ENDS];
  int recvs, sends;
  enum protocol proto;
  struct reduction reduction;
  unsigned steps, slices;  // of a slice; of a piece. LL and LL128 have one of each
  size_t step_count;       // elements that a step holds
  unsigned slice;          // where the piece stands: the slice, and the elements before it
  size_t moved;
};

// The peers are ranks of the communicator; a negative one ends the list, and EXCHANGE_ENDS are enough.
struct exchange_peers {
  int recv[EXCHANGE_ENDS], send[EXCHANGE_ENDS];
  int index;  // of the connections
};

// Steps and slices are those of the Simple protocol.
struct exchange exchange_open(const struct block *b, const struct exchange_peers *peers, enum protocol proto, struct reduction reduction,
                              unsigned steps, unsigned slices, size_t step_count);
void exchange_close(const struct exchange *e);

// TURN_DONE: the piece is complete. TURN_MOVED: a part of it is; TURN_WAIT: a peer has to go on first.
enum turn exchange_turn(struct exchange *e, const struct piece *p);

// The protocols. Simple: data, and a counter that says it is there. Lines: data with flags in between.
enum turn exchange_simple(struct exchange *e, const struct piece *p);
enum turn exchange_lines(struct exchange *e, const struct piece *p);

#endif
