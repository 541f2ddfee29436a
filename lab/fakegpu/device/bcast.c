// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Several broadcasts of a group at once, on the ring (2.29 and later): they take turns, chunk by chunk.

#include <stdlib.h>

#include "lane.h"
#include "layout.h"

static bool left(const struct lane *lane) {
  for (size_t i = 0; i < lane->batch->count; i++) {
    if (lane->sent[i] < layout_get(work_at(lane->batch, i), LAYOUT_bcast_bytes)) return true;
  }
  return false;
}

static bool next_chunk(struct lane *lane, struct piece *p) {
  while (left(lane)) {
    size_t i = (size_t)lane->step;
    lane->step = (int)((i + 1) % lane->batch->count);
    const char *work = work_at(lane->batch, i);
    size_t bytes = layout_get(work, LAYOUT_bcast_bytes), chunk = layout_get(work, LAYOUT_bcast_chunkSize), done = lane->sent[i];
    if (done >= bytes) continue;
    int depth = layout_int(work, LAYOUT_bcast_ringDepth);  // places behind the root
    const char *in = layout_pointer(work, LAYOUT_bcast_sendbuff);
    char *out = layout_pointer(work, LAYOUT_bcast_recvbuff);
    *p = (struct piece){.out = out + done, .count = bytes - done < chunk ? bytes - done : chunk, .recv = depth > 0, .send = depth < lane->block->ranks - 1};
    if (depth == 0) {
      p->in = in + done;
      if (in == out) p->out = NULL;
    }
    lane->sent[i] += p->count;
    return true;
  }
  return false;
}

static void close_bcast(struct lane *lane) {
  exchange_close(&lane->exchange);
  free(lane->sent);
}

int bcast_lanes(struct lane *lanes, const struct block *b, const struct function *f, struct batch *batch) {
  size_t *sent = calloc(batch->count, sizeof *sent);
  if (!sent) return 0;
  const char *ring = layout_at(b->channel, LAYOUT_channel_ring);
  struct exchange_peers peers = {.recv = {layout_int(ring, LAYOUT_ring_prev), -1}, .send = {layout_int(ring, LAYOUT_ring_next), -1}};
  struct reduction copy = {OP_SUM, TYPE_U8, 0};
  lane_of_pieces(lanes, b, exchange_open(b, &peers, f->proto, copy, 1, 1, block_step_bytes(b, PROTO_SIMPLE)), next_chunk);
  lanes->close = close_bcast;
  lanes->batch = batch;
  lanes->sent = sent;
  return 1;
}
