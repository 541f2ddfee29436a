// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// AllReduce on the tree, after NCCL's schedule: sums go up to the root, and the complete sums come down. A rank does both side by
// side, the root in one.

#include "lane.h"
#include "layout.h"

static bool next_chunk(struct lane *lane, struct piece *p) {
  if (lane->done >= lane->share.mine) return false;
  size_t size = type_size(lane->exchange.reduction.type), left = lane->share.mine - lane->done, skip = (lane->share.offset + lane->done) * size;
  *p = (struct piece){.count = left < lane->share.chunk ? left : lane->share.chunk, .recv = lane->exchange.recvs > 0, .send = lane->exchange.sends > 0};
  if (lane->in) p->in = lane->in + skip;
  if (lane->out) p->out = lane->out + skip;
  p->finish = lane->in && lane->out;
  lane->done += p->count;
  return true;
}

static void open_lane(struct lane *lane, const struct block *b, const struct function *f, const char *work, const struct exchange_peers *peers) {
  struct reduction reduction = {f->op, f->type, layout_get(work, LAYOUT_coll_redOpArg)};
  size_t step_count = block_step_bytes(b, PROTO_SIMPLE) / type_size(f->type);
  lane_of_pieces(lane, b, exchange_open(b, peers, f->proto, reduction, 1, 1, step_count), next_chunk);
  lane->share = work_share(b, work, f->proto, type_size(f->type));
}

int tree_lanes(struct lane *lanes, const struct block *b, const struct function *f, const char *work) {
  if (f->coll != COLL_ALL_REDUCE) return 0;
  const char *tree = layout_at(b->channel, LAYOUT_channel_tree), *in = layout_pointer(work, LAYOUT_coll_sendbuff);
  char *out = layout_pointer(work, LAYOUT_coll_recvbuff);
  int parent = layout_int(tree, LAYOUT_tree_up);
  struct exchange_peers up = {.send = {parent, -1}}, down = {.recv = {parent, -1}};
  for (int i = 0; i < EXCHANGE_ENDS; i++) up.recv[i] = down.send[i] = layout_int_at(tree, LAYOUT_tree_down, i);
  if (parent < 0) {
    for (int i = 0; i < EXCHANGE_ENDS; i++) up.send[i] = up.recv[i];
    open_lane(&lanes[0], b, f, work, &up);
    lanes[0].in = in;
    lanes[0].out = out;
    return 1;
  }
  open_lane(&lanes[0], b, f, work, &up);
  lanes[0].in = in;
  open_lane(&lanes[1], b, f, work, &down);
  lanes[1].out = out;
  return 2;
}
