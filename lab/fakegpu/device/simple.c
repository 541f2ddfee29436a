// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The Simple protocol: a step holds plain data, the tail says that it is there.

#include <string.h>

#include "exchange.h"

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

// Small pieces leave the later slices empty: a slice has at least a 32nd of what it can hold.
static size_t slice_count(const struct exchange *e, size_t count) {
  size_t even = (count + 16 * e->slices - 1) / (16 * e->slices) * 16, floor = e->step_count * e->steps / 32;
  return even > floor ? even : floor;
}

static bool ready(const struct exchange *e, const struct piece *p) {
  for (int i = 0; p->recv && i < e->recvs; i++) {
    if (!end_filled(&e->recv[i], e->steps)) return false;
  }
  for (int i = 0; p->send && i < e->sends; i++) {
    if (!end_credit(&e->send[i], e->steps)) return false;
  }
  return true;
}

// in plus everything received, to where the result goes first.
static void combine(const struct exchange *e, char *to, const char *in, bool recv, size_t n) {
  int next = 0;
  const char *sum = NULL;
  if (in && recv && e->recvs > 0 && !reduction_changes_input(&e->reduction)) {
    reduction_combine(&e->reduction, to, end_slot(&e->recv[next++]), in, n);
    sum = to;
  } else if (in) {
    reduction_input(&e->reduction, to, in, n);
    sum = to;
  }
  for (; recv && next < e->recvs; next++) {
    const char *from = end_slot(&e->recv[next]);
    if (sum) reduction_combine(&e->reduction, to, from, sum, n);
    else memcpy(to, from, n * type_size(e->reduction.type));
    sum = to;
  }
}

static void move(const struct exchange *e, const struct piece *p, size_t n) {
  size_t size = type_size(e->reduction.type), skip = e->moved * size, bytes = n * size;
  int sends = p->send ? e->sends : 0, next = 0;
  for (int i = 0; i < sends; i++) end_announce(&e->send[i], bytes);
  if (n == 0) return;
  char *first = p->out ? p->out + skip : sends > 0 ? end_slot(&e->send[next++]) : NULL;
  if (!first) return;
  combine(e, first, p->in ? p->in + skip : NULL, p->recv, n);
  if (p->finish) reduction_result(&e->reduction, first, n);
  for (; next < sends; next++) memcpy(end_slot(&e->send[next]), first, bytes);
}

enum turn exchange_simple(struct exchange *e, const struct piece *p) {
  if (!ready(e, p)) return TURN_WAIT;
  size_t n = least(slice_count(e, p->count), p->count - e->moved);
  move(e, p, n);
  for (int i = 0; p->recv && i < e->recvs; i++) end_consumed(&e->recv[i], e->steps);
  for (int i = 0; p->send && i < e->sends; i++) end_posted(&e->send[i], e->steps, true);
  e->moved += n;
  if (++e->slice < e->slices) return TURN_MOVED;
  e->slice = 0;
  e->moved = 0;
  return TURN_DONE;
}
