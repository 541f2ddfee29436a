// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A sequence of moves that a block makes; several lanes of a block advance side by side. A lane's turn does what can be done now.

#ifndef FAKEGPU_DEVICE_LANE_H
#define FAKEGPU_DEVICE_LANE_H

#include "exchange.h"
#include "work.h"

struct pat;

struct lane {
  const struct block *block;
  enum turn (*turn)(struct lane *lane);  // NULL: the lane has ended
  void (*close)(struct lane *lane);

  // A lane of pieces: next gives the next one, or false at the end.
  bool (*next)(struct lane *lane, struct piece *piece);
  struct exchange exchange;
  struct piece piece;
  bool open;  // the piece is not complete

  // Where the schedule stands.
  const struct function *function;
  const char *work;
  struct share share;
  const char *in;
  char *out;
  size_t done;       // of the share, or of a transfer
  int step;          // within a round of the ring
  size_t end, size;  // a transfer's bytes, and how many are handled at once
  struct batch *batch;
  size_t *sent;  // of each broadcast of the batch, bytes
  struct pat *pat;
};

// A lane that exchanges the pieces of next over e.
void lane_of_pieces(struct lane *lane, const struct block *b, struct exchange e, bool (*next)(struct lane *, struct piece *));

// One turn; TURN_DONE when the lane has ended.
enum turn lane_turn(struct lane *lane);
void lane_close(struct lane *lane);

// The lanes of the works that begin together, at most LANES_MAX; a collective is a work by itself. 0: what it needs is not played.
enum { LANES_MAX = 2 };
int ring_lanes(struct lane *lanes, const struct block *b, const struct function *f, const char *work);
int tree_lanes(struct lane *lanes, const struct block *b, const struct function *f, const char *work);
int pat_lanes(struct lane *lanes, const struct block *b, const struct function *f, const char *work);
int p2p_lanes(struct lane *lanes, const struct block *b, const char *work);
int bcast_lanes(struct lane *lanes, const struct block *b, const struct function *f, struct batch *batch);

#endif
