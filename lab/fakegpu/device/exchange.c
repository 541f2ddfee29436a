// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "exchange.h"

struct exchange exchange_open(const struct block *b, const struct exchange_peers *peers, enum protocol proto, struct reduction reduction,
                              unsigned steps, unsigned slices, size_t step_count) {
  struct exchange e = {.proto = proto, .reduction = reduction, .steps = 1, .slices = 1, .step_count = step_count};
  if (proto == PROTO_SIMPLE) e.steps = steps, e.slices = slices;
  unsigned round = e.steps * e.slices;
  while (e.recvs < EXCHANGE_ENDS && peers->recv[e.recvs] >= 0) {
    e.recv[e.recvs] = end_recv(b, peers->recv[e.recvs], peers->index, proto, round);
    e.recvs++;
  }
  while (e.sends < EXCHANGE_ENDS && peers->send[e.sends] >= 0) {
    e.send[e.sends] = end_send(b, peers->send[e.sends], peers->index, proto, round);
    e.sends++;
  }
  return e;
}

void exchange_close(const struct exchange *e) {
  for (int i = 0; i < e->recvs; i++) end_close(&e->recv[i]);
  for (int i = 0; i < e->sends; i++) end_close(&e->send[i]);
}

enum turn exchange_turn(struct exchange *e, const struct piece *p) {
  return e->proto == PROTO_SIMPLE ? exchange_simple(e, p) : exchange_lines(e, p);
}
