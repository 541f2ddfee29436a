// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "lane.h"

static enum turn turn_of_pieces(struct lane *lane) {
  if (!lane->open) {
    lane->open = lane->next(lane, &lane->piece);
    if (!lane->open) return TURN_DONE;
  }
  enum turn turn = exchange_turn(&lane->exchange, &lane->piece);
  if (turn == TURN_DONE) lane->open = false;
  return turn == TURN_WAIT ? TURN_WAIT : TURN_MOVED;
}

static void close_exchange(struct lane *lane) { exchange_close(&lane->exchange); }

void lane_of_pieces(struct lane *lane, const struct block *b, struct exchange e, bool (*next)(struct lane *, struct piece *)) {
  lane->block = b;
  lane->turn = turn_of_pieces;
  lane->close = close_exchange;
  lane->next = next;
  lane->exchange = e;
}

enum turn lane_turn(struct lane *lane) {
  if (!lane->turn) return TURN_DONE;
  enum turn turn = lane->turn(lane);
  if (turn == TURN_DONE) lane_close(lane);
  return turn;
}

void lane_close(struct lane *lane) {
  if (lane->close) lane->close(lane);
  lane->turn = NULL;
  lane->close = NULL;
}
