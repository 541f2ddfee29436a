// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The protocols LL and LL128: a step consists of lines that carry the step's number beside the data, so that a line is known to be
// there by itself. LL: lines of 16 bytes, each half has four bytes of data and a flag. LL128: lines of 128 bytes, the last eight
// are the flag; NCCL sends them in slices of 16 lines.

#include <string.h>

#include "exchange.h"

enum {
  LL_DATA = 8,
  LL128_LINE = 128,
  LL128_DATA = 120,
  LL128_SLICE_LINES = 16,
  PORTION = LL128_SLICE_LINES * LL128_DATA,  // bytes of data that are handled at once, whole lines in both protocols
};

struct ll_line {
  uint64_t half[2];  // data in the lower, the flag in the upper 32 bits
};

struct ll128_line {
  char data[LL128_DATA];
  uint64_t flag;
};

static size_t line_count(enum protocol proto, size_t bytes) {
  if (proto == PROTO_LL) return (bytes + LL_DATA - 1) / LL_DATA;
  return (bytes + PORTION - 1) / PORTION * LL128_SLICE_LINES;
}

static size_t line_bytes(enum protocol proto) { return proto == PROTO_LL ? sizeof(struct ll_line) : LL128_LINE; }
static uint64_t flag_of(const struct end *e) { return e->step + 1; }

static bool line_is_there(enum protocol proto, const char *slot, size_t i, uint64_t flag) {
  if (proto == PROTO_LL) {
    const struct ll_line *line = (const struct ll_line *)(const void *)slot + i;
    return __atomic_load_n(&line->half[0], __ATOMIC_ACQUIRE) >> 32 == (uint32_t)flag &&
           __atomic_load_n(&line->half[1], __ATOMIC_ACQUIRE) >> 32 == (uint32_t)flag;
  }
  const struct ll128_line *line = (const struct ll128_line *)(const void *)slot + i;
  return __atomic_load_n(&line->flag, __ATOMIC_ACQUIRE) == flag;
}

// Looks on where the last look ended.
static bool lines_are_there(enum protocol proto, struct end *e, size_t lines) {
  const char *slot = end_slot(e);
  while (e->lines_seen < lines && line_is_there(proto, slot, e->lines_seen, flag_of(e))) e->lines_seen++;
  return e->lines_seen == lines;
}

static void read_ll(const struct ll_line *line, char *data, size_t bytes) {
  for (size_t i = 0; i * LL_DATA < bytes; i++) {
    uint64_t both = (uint32_t)line[i].half[0] | line[i].half[1] << 32;
    memcpy(data + i * LL_DATA, &both, sizeof both);
  }
}

static void write_ll(struct ll_line *line, const char *data, size_t bytes, uint64_t flag) {
  for (size_t i = 0; i * LL_DATA < bytes; i++) {
    uint64_t both, upper = flag << 32;
    memcpy(&both, data + i * LL_DATA, sizeof both);
    __atomic_store_n(&line[i].half[0], upper | (uint32_t)both, __ATOMIC_RELAXED);
    __atomic_store_n(&line[i].half[1], upper | both >> 32, __ATOMIC_RELAXED);
  }
}

static void read_ll128(const struct ll128_line *line, char *data) {
  for (size_t i = 0; i < LL128_SLICE_LINES; i++) memcpy(data + i * LL128_DATA, line[i].data, LL128_DATA);
}

static void write_ll128(struct ll128_line *line, const char *data, uint64_t flag) {
  for (size_t i = 0; i < LL128_SLICE_LINES; i++) {
    memcpy(line[i].data, data + i * LL128_DATA, LL128_DATA);
    __atomic_store_n(&line[i].flag, flag, __ATOMIC_RELEASE);
  }
}

// data has room for a whole portion; bytes of it count.
static void read_portion(enum protocol proto, const struct end *e, size_t portion, char *data, size_t bytes) {
  const char *slot = end_slot(e) + line_count(proto, portion * PORTION) * line_bytes(proto);
  if (proto == PROTO_LL) read_ll((const struct ll_line *)(const void *)slot, data, bytes);
  else read_ll128((const struct ll128_line *)(const void *)slot, data);
}

static void write_portion(enum protocol proto, const struct end *e, size_t portion, const char *data, size_t bytes) {
  char *slot = end_slot(e) + line_count(proto, portion * PORTION) * line_bytes(proto);
  if (proto == PROTO_LL) write_ll((struct ll_line *)(void *)slot, data, bytes, flag_of(e));
  else write_ll128((struct ll128_line *)(void *)slot, data, flag_of(e));
}

static void move_portion(const struct exchange *e, const struct piece *p, size_t portion, size_t bytes) {
  char data[PORTION] __attribute__((aligned(16))) = {0}, received[PORTION] __attribute__((aligned(16)));
  size_t n = bytes / type_size(e->reduction.type), skip = portion * PORTION;
  bool any = p->in != NULL;
  if (p->in) reduction_input(&e->reduction, data, p->in + skip, n);
  for (int i = 0; p->recv && i < e->recvs; i++) {
    read_portion(e->proto, &e->recv[i], portion, any ? received : data, bytes);
    if (any) reduction_combine(&e->reduction, data, received, data, n);
    any = true;
  }
  if (p->finish) reduction_result(&e->reduction, data, n);
  for (int i = 0; p->send && i < e->sends; i++) write_portion(e->proto, &e->send[i], portion, data, bytes);
  if (p->out) memcpy(p->out + skip, data, bytes);
}

enum turn exchange_lines(struct exchange *e, const struct piece *p) {
  size_t bytes = p->count * type_size(e->reduction.type), lines = line_count(e->proto, bytes);
  for (int i = 0; p->recv && i < e->recvs; i++) {
    if (!lines_are_there(e->proto, &e->recv[i], lines)) return TURN_WAIT;
  }
  for (int i = 0; p->send && i < e->sends; i++) {
    if (!end_credit(&e->send[i], 1)) return TURN_WAIT;
  }
  for (int i = 0; p->send && i < e->sends; i++) end_announce(&e->send[i], lines * line_bytes(e->proto));
  for (size_t portion = 0; portion * PORTION < bytes; portion++) {
    size_t left = bytes - portion * PORTION;
    move_portion(e, p, portion, left < PORTION ? left : PORTION);
  }
  for (int i = 0; p->recv && i < e->recvs; i++) end_consumed(&e->recv[i], 1);
  // The proxy looks for LL's flags itself; of LL128 it is told by the tail.
  for (int i = 0; p->send && i < e->sends; i++) end_posted(&e->send[i], 1, e->proto == PROTO_LL128 && e->send[i].fifo);
  return TURN_DONE;
}
