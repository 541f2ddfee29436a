// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// AllGather and ReduceScatter with NCCL's PAT (parallel aggregated trees): each rank talks to those at a distance of a power of
// two. The distances between two ranks are numbers of so many bits; a piece of data travels its distance bit by bit, and pieces
// that go the same way share a message.
//
// How many pieces a message holds, and which, follows NCCL, because its proxies count the messages of each connection. Their order
// is our own, by dimension: NCCL takes turns between dimensions to need less memory.

#include <stdlib.h>
#include <string.h>

#include "lane.h"
#include "layout.h"

enum { DIMENSIONS = 24, SEND_AHEAD = NCCL_STEPS };

struct pat_piece {
  int distance;  // AllGather: from the rank that gets the data to its owner; ReduceScatter: from the sender to the owner of the sum
  int place;     // in the message
};

struct pat_message {
  int dimension, first, pieces, places;
};

struct pat {
  struct end send[DIMENSIONS], recv[DIMENSIONS];
  int dimensions;
  struct pat_piece *pieces;      // one for each distance from 1 on, by message
  struct pat_message *messages;  // in the order in which they are sent and received
  int message_count, piece_count;
  int message;                   // the current one
  bool sent;                     // it has been sent, and is to be received
  char *sums;                    // ReduceScatter: a chunk for each distance
};

static int log2_up(int n) {
  int bits = 0;
  while (1 << bits < n) bits++;
  return bits;
}

// How many distances apart in one stride are handled together, and how many of them a message holds.
struct aggregation {
  int stride, together, message;
};

static struct aggregation aggregate(const struct share *share, int ranks) {
  struct aggregation a = {.stride = 1 << log2_up(ranks), .together = 1};
  while (share->chunk / (share->mine * (size_t)a.together) >= 2 && a.together < ranks / 2) a.together *= 2, a.stride /= 2;
  a.message = a.together;
  for (int ahead = SEND_AHEAD; ahead > 1 && a.together < ranks / 2; ahead /= 2) a.together *= 2, a.stride /= 2;
  return a;
}

// The bits of i, of so many numbers, in reverse order and inverted.
static int mirrored(int i, int count) {
  int reversed = 0;
  for (int bit = 1; bit < count; bit <<= 1) reversed = reversed << 1 | !(i & bit);
  return reversed;
}

// Appends the messages of the distances first, first + stride, ... of which there are count. Those that no rank is at are left out.
static void add_group(struct pat *pat, const struct function *f, int ranks, int dimension, int first, int stride, int count, int each) {
  bool up = f->coll == COLL_REDUCE_SCATTER, packed = up && nccl_version() < 22600;
  int place = 0;
  for (int i = 0; i < count; i++) {
    int distance = first + stride * (up ? mirrored(i, count) : i);
    bool valid = distance < ranks;
    if (valid) {
      struct pat_message *m = &pat->messages[pat->message_count];
      if (m->pieces == 0) *m = (struct pat_message){.dimension = dimension, .first = pat->piece_count};
      pat->pieces[pat->piece_count++] = (struct pat_piece){distance, place};
      m->pieces++;
      m->places = place + 1;
    }
    if (valid || !packed) place++;
    bool full = place == each || i == count - 1;
    if (full) place = 0;
    if (full && pat->messages[pat->message_count].pieces > 0) pat->message_count++;
  }
}

static void add_dimension(struct pat *pat, const struct function *f, const struct aggregation *a, int ranks, int dimension) {
  int bit = 1 << dimension, all = 1 << pat->dimensions;
  if (bit >= a->stride) {
    add_group(pat, f, ranks, dimension, bit, 2 * bit, all / (2 * bit), a->message);
    return;
  }
  for (int residue = bit; residue < a->stride; residue += 2 * bit) add_group(pat, f, ranks, dimension, residue, a->stride, a->together, a->message);
}

// Data comes down from the highest dimension, sums go up from the lowest.
static void plan(struct pat *pat, const struct function *f, const struct share *share, int ranks) {
  struct aggregation a = aggregate(share, ranks);
  for (int i = 0; i < pat->dimensions; i++) add_dimension(pat, f, &a, ranks, f->coll == COLL_ALL_GATHER ? pat->dimensions - 1 - i : i);
}

static void close_pat(struct lane *lane) {
  struct pat *pat = lane->pat;
  for (int d = 0; d < pat->dimensions; d++) {
    end_close(&pat->send[d]);
    end_close(&pat->recv[d]);
  }
  free(pat->pieces);
  free(pat->messages);
  free(pat->sums);
  free(pat);
}

struct chunk {
  size_t bytes, count;   // of one piece
  size_t offset, whole;  // bytes: in a rank's buffer; of a rank's buffer
};

static struct chunk chunk_of(const struct lane *lane) {
  size_t size = type_size(lane->function->type), left = lane->share.mine - lane->done;
  struct chunk c = {.count = left < lane->share.chunk ? left : lane->share.chunk};
  c.bytes = c.count * size;
  c.offset = (lane->share.offset + lane->done) * size;
  c.whole = lane->share.count * size;
  return c;
}

static char *sum_of(const struct lane *lane, const struct chunk *c, int distance) { return lane->pat->sums + (size_t)distance * c->bytes; }

static size_t buffer_of(const struct lane *lane, const struct chunk *c, int distance) {
  return (size_t)((lane->block->rank + distance) % lane->block->ranks) * c->whole + c->offset;
}

static struct reduction reduction_of(const struct lane *lane) {
  return (struct reduction){lane->function->op, lane->function->type, layout_get(lane->work, LAYOUT_coll_redOpArg)};
}

static void begin_chunk(const struct lane *lane, const struct chunk *c) {
  if (lane->function->coll == COLL_ALL_GATHER) {
    char *own = lane->out + buffer_of(lane, c, 0);
    if (own != lane->in + c->offset) memcpy(own, lane->in + c->offset, c->bytes);
    return;
  }
  struct reduction r = reduction_of(lane);
  for (int i = 0; i < lane->block->ranks; i++) reduction_input(&r, sum_of(lane, c, i), lane->in + buffer_of(lane, c, i), c->count);
}

static void end_chunk(const struct lane *lane, const struct chunk *c) {
  if (lane->function->coll == COLL_ALL_GATHER) return;
  struct reduction r = reduction_of(lane);
  reduction_result(&r, sum_of(lane, c, 0), c->count);
  memcpy(lane->out + c->offset, sum_of(lane, c, 0), c->bytes);
}

static void send_message(const struct lane *lane, const struct chunk *c, const struct pat_message *m, struct end *end) {
  end_announce(end, (size_t)m->places * c->bytes);
  for (int i = 0; i < m->pieces; i++) {
    const struct pat_piece *p = &lane->pat->pieces[m->first + i];
    bool down = lane->function->coll == COLL_ALL_GATHER;
    const char *from = down ? lane->out + buffer_of(lane, c, p->distance - (1 << m->dimension)) : sum_of(lane, c, p->distance);
    memcpy(end_slot(end) + (size_t)p->place * c->bytes, from, c->bytes);
  }
  end_posted(end, 1, true);
}

static void receive_message(const struct lane *lane, const struct chunk *c, const struct pat_message *m, struct end *end) {
  struct reduction r = reduction_of(lane);
  for (int i = 0; i < m->pieces; i++) {
    const struct pat_piece *p = &lane->pat->pieces[m->first + i];
    const char *from = end_slot(end) + (size_t)p->place * c->bytes;
    if (lane->function->coll == COLL_ALL_GATHER) {
      memcpy(lane->out + buffer_of(lane, c, p->distance), from, c->bytes);
    } else {
      char *sum = sum_of(lane, c, p->distance - (1 << m->dimension));
      reduction_combine(&r, sum, from, sum, c->count);
    }
  }
  end_consumed(end, 1);
}

static enum turn pat_turn(struct lane *lane) {
  struct pat *pat = lane->pat;
  if (lane->done >= lane->share.mine) return TURN_DONE;
  struct chunk c = chunk_of(lane);
  const struct pat_message *m = &pat->messages[pat->message];
  if (pat->message == 0 && !pat->sent && !lane->open) {
    begin_chunk(lane, &c);
    lane->open = true;
  }
  if (!pat->sent) {
    if (!end_credit(&pat->send[m->dimension], 1)) return TURN_WAIT;
    send_message(lane, &c, m, &pat->send[m->dimension]);
    pat->sent = true;
    return TURN_MOVED;
  }
  if (!end_filled(&pat->recv[m->dimension], 1)) return TURN_WAIT;
  receive_message(lane, &c, m, &pat->recv[m->dimension]);
  pat->sent = false;
  if (++pat->message < pat->message_count) return TURN_MOVED;
  end_chunk(lane, &c);
  pat->message = 0;
  lane->open = false;
  lane->done += c.count;
  return TURN_MOVED;
}

static bool allocate(struct pat *pat, const struct lane *lane) {
  size_t ranks = (size_t)lane->block->ranks;
  pat->pieces = calloc(ranks, sizeof *pat->pieces);
  pat->messages = calloc(ranks, sizeof *pat->messages);
  if (lane->function->coll == COLL_REDUCE_SCATTER) pat->sums = malloc(ranks * chunk_of(lane).bytes + 1);
  return pat->pieces && pat->messages && (pat->sums || lane->function->coll == COLL_ALL_GATHER);
}

int pat_lanes(struct lane *lanes, const struct block *b, const struct function *f, const char *work) {
  if ((f->coll != COLL_ALL_GATHER && f->coll != COLL_REDUCE_SCATTER) || f->proto != PROTO_SIMPLE || log2_up(b->ranks) > DIMENSIONS) return 0;
  *lanes = (struct lane){.block = b, .function = f, .work = work, .turn = pat_turn, .close = close_pat};
  lanes->share = work_share(b, work, f->proto, type_size(f->type));
  lanes->in = layout_pointer(work, LAYOUT_coll_sendbuff);
  lanes->out = layout_pointer(work, LAYOUT_coll_recvbuff);
  struct pat *pat = lanes->pat = calloc(1, sizeof *pat);
  if (!pat) return 0;
  if (!allocate(pat, lanes)) {
    lane_close(lanes);
    return 0;
  }
  pat->dimensions = log2_up(b->ranks);
  int down = f->coll == COLL_ALL_GATHER ? -1 : 1;
  for (int d = 0; d < pat->dimensions; d++) {
    int distance = 1 << d;
    pat->send[d] = end_send(b, (b->rank + down * distance + b->ranks) % b->ranks, 0, PROTO_SIMPLE, 1);
    pat->recv[d] = end_recv(b, (b->rank - down * distance + b->ranks) % b->ranks, 0, PROTO_SIMPLE, 1);
  }
  if (lanes->share.mine > 0) plan(pat, f, &lanes->share, b->ranks);
  return 1;
}
