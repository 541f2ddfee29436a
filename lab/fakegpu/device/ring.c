// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Collectives on the ring, after NCCL's schedule: each rank receives from the one before it and sends to the one behind it.

#include "lane.h"
#include "layout.h"

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

struct ring {
  const char *ring;
  int ranks, index, step;
  size_t size, left, base, count;  // element bytes; elements of the share from here on, where here is, and of a chunk
};

static struct ring ring_of(const struct lane *lane) {
  struct ring r = {.ring = layout_at(lane->block->channel, LAYOUT_channel_ring), .ranks = lane->block->ranks, .step = lane->step};
  r.index = layout_int(r.ring, LAYOUT_ring_index);
  r.size = type_size(lane->exchange.reduction.type);
  r.left = lane->share.mine - lane->done;
  r.base = lane->share.offset + lane->done;
  r.count = least(lane->share.chunk, r.left);
  return r;
}

// The rank that is i places behind this one.
static int rank_at(const struct ring *r, int i) {
  const int *ranks = layout_pointer(r->ring, LAYOUT_ring_userRanks);
  return ranks[i % r->ranks];
}

// Moves lane on by one piece of a round of so many; false when the share is done.
static bool advance(struct lane *lane, int pieces, size_t round) {
  if (lane->done >= lane->share.mine) return false;
  if (++lane->step == pieces) {
    lane->step = 0;
    lane->done += round;
  }
  return true;
}

// Sums go around once, then the complete sums go around.
static bool all_reduce(struct lane *lane, struct piece *p) {
  struct ring r = ring_of(lane);
  size_t round = lane->share.chunk * (size_t)r.ranks;
  if (!advance(lane, 2 * r.ranks - 1, round)) return false;
  size_t each = lane->share.chunk, align = 16 / r.size, even = (r.left + (size_t)r.ranks - 1) / (size_t)r.ranks;
  if (r.left < round) each = (even + align - 1) / align * align;
  size_t offset = (size_t)((r.index + 2 * r.ranks - 1 - r.step) % r.ranks) * each, at = (r.base + offset) * r.size;
  bool gathers = r.step >= r.ranks, completes = r.step == r.ranks - 1, last = r.step == 2 * r.ranks - 2;
  *p = (struct piece){.recv = r.step > 0, .send = !last, .finish = completes};
  if (offset >= r.left) return true;  // nothing is left for this rank, but its steps are taken
  p->count = least(each, r.left - offset);
  if (!gathers) p->in = lane->in + at;
  if (gathers || completes) p->out = lane->out + at;
  return true;
}

static bool reduce_scatter(struct lane *lane, struct piece *p) {
  struct ring r = ring_of(lane);
  if (!advance(lane, r.ranks, lane->share.chunk)) return false;
  bool last = r.step == r.ranks - 1;
  size_t of_rank = (size_t)rank_at(&r, r.ranks - 1 - r.step) * lane->share.count;
  *p = (struct piece){.in = lane->in + (r.base + of_rank) * r.size, .count = r.count, .recv = r.step > 0, .send = !last, .finish = last};
  if (last) p->out = lane->out + r.base * r.size;
  return true;
}

static bool all_gather(struct lane *lane, struct piece *p) {
  struct ring r = ring_of(lane);
  if (!advance(lane, r.ranks, lane->share.chunk)) return false;
  size_t of_rank = (size_t)rank_at(&r, r.ranks - r.step) * lane->share.count;
  *p = (struct piece){.out = lane->out + (r.base + of_rank) * r.size, .count = r.count, .recv = r.step > 0, .send = r.step < r.ranks - 1};
  if (r.step > 0) return true;
  p->in = lane->in + r.base * r.size;
  if (p->in == p->out) p->out = NULL;
  return true;
}

static bool broadcast(struct lane *lane, struct piece *p) {
  struct ring r = ring_of(lane);
  if (!advance(lane, 1, lane->share.chunk)) return false;
  int root = layout_int(lane->work, LAYOUT_coll_root);
  bool first = rank_at(&r, 0) == root;
  *p = (struct piece){.out = lane->out + r.base * r.size, .count = r.count, .recv = !first, .send = rank_at(&r, 1) != root};
  if (!first) return true;
  p->in = lane->in + r.base * r.size;
  if (p->in == p->out) p->out = NULL;
  return true;
}

static bool reduce(struct lane *lane, struct piece *p) {
  struct ring r = ring_of(lane);
  if (!advance(lane, 1, lane->share.chunk)) return false;
  int root = layout_int(lane->work, LAYOUT_coll_root);
  bool last = rank_at(&r, 0) == root;
  *p = (struct piece){.in = lane->in + r.base * r.size, .count = r.count, .recv = rank_at(&r, r.ranks - 1) != root, .send = !last, .finish = last};
  if (last) p->out = lane->out + r.base * r.size;
  return true;
}

int ring_lanes(struct lane *lanes, const struct block *b, const struct function *f, const char *work) {
  static const struct {
    bool (*next)(struct lane *, struct piece *);
    unsigned slices, steps;  // of a chunk; of a slice
  } schedules[] = {[COLL_ALL_REDUCE] = {all_reduce, 2, 2}, [COLL_REDUCE_SCATTER] = {reduce_scatter, 2, 2}, [COLL_ALL_GATHER] = {all_gather, 2, 2},
                   [COLL_BROADCAST] = {broadcast, 1, 1},   [COLL_REDUCE] = {reduce, 1, 1}};
  if (f->coll >= sizeof schedules / sizeof *schedules || !schedules[f->coll].next) return 0;
  const char *ring = layout_at(b->channel, LAYOUT_channel_ring);
  struct exchange_peers peers = {.recv = {layout_int(ring, LAYOUT_ring_prev), -1}, .send = {layout_int(ring, LAYOUT_ring_next), -1}};
  struct reduction reduction = {f->op, f->type, layout_get(work, LAYOUT_coll_redOpArg)};
  size_t step_count = block_step_bytes(b, PROTO_SIMPLE) / type_size(f->type);
  struct exchange e = exchange_open(b, &peers, f->proto, reduction, schedules[f->coll].steps, schedules[f->coll].slices, step_count);
  lane_of_pieces(lanes, b, e, schedules[f->coll].next);
  lanes->work = work;
  lanes->share = work_share(b, work, f->proto, type_size(f->type));
  lanes->in = layout_pointer(work, LAYOUT_coll_sendbuff);
  lanes->out = layout_pointer(work, LAYOUT_coll_recvbuff);
  return 1;
}
