// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Send and receive. A transfer is divided among channels, in parts of whole 4 KiB, and sent in chunks.

#include <string.h>

#include "lane.h"
#include "layout.h"

enum { PART_ALIGN = 4096, P2P_CONNECTION = 1 };

static bool next_chunk(struct lane *lane, struct piece *p) {
  if (lane->done > lane->end) return false;  // an empty transfer has one empty chunk
  size_t left = lane->end - lane->done, n = left < lane->size ? left : lane->size;
  *p = (struct piece){.count = n, .recv = lane->exchange.recvs > 0, .send = lane->exchange.sends > 0};
  if (lane->in) p->in = lane->in + lane->done;
  if (lane->out) p->out = lane->out + lane->done;
  lane->done += n;
  if (lane->done == lane->end) lane->done++;
  return true;
}

static enum turn copy_turn(struct lane *lane) {
  memmove(lane->out, lane->in, lane->end);
  return TURN_DONE;
}

// A small float: three bits of mantissa below five of exponent.
static size_t from_fp8(uint64_t x) {
  uint64_t exponent = x >> 3, mantissa = (x & 7) | (exponent ? 8 : 0);
  return (size_t)(mantissa << (exponent ? exponent - 1 : 0));
}

// Until 2.27 the parts are spread over the channels in the order of reversed bits.
static int part_of_channel(int channels, int base, int channel) {
  int delta = (channel - base) & (channels - 1);
  if (nccl_version() >= 22800) return delta;
  int reversed = 0;
  for (int bit = 1; bit < channels; bit <<= 1) reversed = reversed << 1 | ((delta & bit) != 0);
  return reversed;
}

struct direction {
  enum layout_member address, bytes, rank, channels, chunk, ll;
};
static const struct direction send_direction = {LAYOUT_p2p_sendAddr,      LAYOUT_p2p_sendBytes,           LAYOUT_p2p_sendRank,
                                                LAYOUT_p2p_nSendChannels, LAYOUT_p2p_sendChunkSize_u32fp8, LAYOUT_p2p_sendProtoLL};
static const struct direction recv_direction = {LAYOUT_p2p_recvAddr,      LAYOUT_p2p_recvBytes,           LAYOUT_p2p_recvRank,
                                                LAYOUT_p2p_nRecvChannels, LAYOUT_p2p_recvChunkSize_u32fp8, LAYOUT_p2p_recvProtoLL};

struct part {
  size_t begin, bytes;
};

// False: this channel has no part in it.
static bool part_of(const struct block *b, const char *work, const struct direction *d, struct part *p) {
  int parts = layout_int(work, d->channels);
  int part = part_of_channel(layout_int(work, LAYOUT_p2p_nP2pChannels), layout_int(work, LAYOUT_p2p_channelBase), b->channel_id);
  if (part >= parts) return false;
  size_t bytes = layout_get(work, d->bytes), each = (bytes + (size_t)parts - 1) / (size_t)parts;
  each = (each + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
  p->begin = each * (size_t)part < bytes ? each * (size_t)part : bytes;
  p->bytes = each < bytes - p->begin ? each : bytes - p->begin;
  return true;
}

static int open_lane(struct lane *lane, const struct block *b, const char *work, const struct direction *d) {
  struct part part;
  if (!part_of(b, work, d, &part)) return 0;
  int rank = layout_int(work, d->rank);
  struct exchange_peers peers = {.recv = {d == &recv_direction ? rank : -1, -1}, .send = {d == &send_direction ? rank : -1, -1}, .index = P2P_CONNECTION};
  struct reduction copy = {OP_SUM, TYPE_U8, 0};
  enum protocol proto = layout_get(work, d->ll) ? PROTO_LL : PROTO_SIMPLE;
  lane_of_pieces(lane, b, exchange_open(b, &peers, proto, copy, 1, 1, (size_t)layout_int(b->comm, LAYOUT_comm_p2pChunkSize)), next_chunk);
  char *user = (char *)layout_pointer(work, d->address) + part.begin;
  if (d == &send_direction) lane->in = user;
  else lane->out = user;
  lane->end = part.bytes;
  lane->size = from_fp8(layout_get(work, d->chunk));
  return 1;
}

int p2p_lanes(struct lane *lanes, const struct block *b, const char *work) {
  if (layout_int(work, LAYOUT_p2p_sendRank) == b->rank) {
    struct part part;
    if (!part_of(b, work, &send_direction, &part)) return 0;
    *lanes = (struct lane){.block = b, .turn = copy_turn, .end = part.bytes};
    lanes->in = (char *)layout_pointer(work, LAYOUT_p2p_sendAddr) + part.begin;
    lanes->out = (char *)layout_pointer(work, LAYOUT_p2p_recvAddr) + part.begin;
    return 1;
  }
  int count = open_lane(lanes, b, work, &send_direction);
  return count + open_lane(lanes + count, b, work, &recv_direction);
}
