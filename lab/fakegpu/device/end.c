// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "end.h"

#include <string.h>
#include <sys/types.h>

#include "layout.h"

enum { FIFO_MODE_OFFSET = 1 };  // the step lies where the proxy says, in a buffer that several connections share

size_t block_step_bytes(const struct block *b, enum protocol proto) {
  return (size_t)layout_int_at(b->comm, LAYOUT_comm_buffSizes, (int)proto) / NCCL_STEPS;
}

static char *connection(const struct block *b, int rank, enum layout_member direction, int index) {
  char *peer;
  memcpy(&peer, (char *)layout_pointer(b->channel, LAYOUT_channel_peers) + (size_t)rank * sizeof peer, sizeof peer);
  return layout_at(peer, direction) + (size_t)index * layout_size(LAYOUT_STRUCT_conn);
}

static struct end open_end(const struct block *b, char *conn, enum protocol proto, unsigned round) {
  struct end e = {.conn = conn, .fifo = layout_pointer(conn, LAYOUT_conn_connFifo)};
  e.head = layout_pointer(conn, LAYOUT_conn_head);
  e.tail = layout_pointer(conn, LAYOUT_conn_tail);
  e.step = (layout_get(conn, LAYOUT_conn_step) + round - 1) / round * round;
  e.step_bytes = proto == PROTO_SIMPLE ? (size_t)layout_int(conn, LAYOUT_conn_stepSize) : block_step_bytes(b, proto);
  memcpy(&e.buffer, layout_at(conn, LAYOUT_conn_buffs) + (size_t)proto * sizeof e.buffer, sizeof e.buffer);
  return e;
}

struct end end_recv(const struct block *b, int rank, int index, enum protocol proto, unsigned round) {
  struct end e = open_end(b, connection(b, rank, LAYOUT_peer_recv, index), proto, round);
  if (round > 1) __atomic_store_n(e.head, e.step, __ATOMIC_RELEASE);  // the credit of the steps that rounding skips
  return e;
}

struct end end_send(const struct block *b, int rank, int index, enum protocol proto, unsigned round) {
  return open_end(b, connection(b, rank, LAYOUT_peer_send, index), proto, round);
}

void end_close(const struct end *e) { layout_set64(e->conn, LAYOUT_conn_step, e->step); }

static char *fifo_entry(const struct end *e) { return e->fifo + e->step % NCCL_STEPS * layout_size(LAYOUT_STRUCT_fifo); }

char *end_slot(const struct end *e) {
  if (e->fifo && layout_int(fifo_entry(e), LAYOUT_fifo_mode) == FIFO_MODE_OFFSET) return e->buffer + layout_int(fifo_entry(e), LAYOUT_fifo_offset);
  return e->buffer + e->step % NCCL_STEPS * e->step_bytes;
}

bool end_filled(const struct end *e, unsigned steps) { return __atomic_load_n(e->tail, __ATOMIC_ACQUIRE) >= e->step + steps; }

// A head of shared buffers begins below zero.
bool end_credit(const struct end *e, unsigned steps) { return __atomic_load_n(e->head, __ATOMIC_ACQUIRE) + NCCL_STEPS >= e->step + steps; }

void end_announce(const struct end *e, size_t bytes) {
  if (!e->fifo) return;
  ssize_t *size = (ssize_t *)(void *)layout_at(fifo_entry(e), LAYOUT_fifo_size);
  __atomic_store_n(size, (ssize_t)bytes, __ATOMIC_RELAXED);
}

void end_consumed(struct end *e, unsigned steps) {
  e->step += steps;
  e->lines_seen = 0;
  __atomic_store_n(e->head, e->step, __ATOMIC_RELEASE);
}

void end_posted(struct end *e, unsigned steps, bool notify) {
  e->step += steps;
  if (notify) __atomic_store_n(e->tail, e->step, __ATOMIC_RELEASE);
}
