// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule.h"

static void exchange(const struct schedule *s, bool with_next, int send_micro, int recv_micro) {
  bool neighbour = with_next ? s->stage < s->stages - 1 : s->stage > 0;
  if (neighbour && (send_micro >= 0 || recv_micro >= 0)) s->exchange(s->context, with_next, send_micro, recv_micro);
}

static void forward(const struct schedule *s, int micro) {
  exchange(s, false, -1, micro);
  s->pass(s->context, micro, true);
  exchange(s, true, micro, -1);
}

static void backward(const struct schedule *s, int micro) {
  exchange(s, true, -1, micro);
  s->pass(s->context, micro, false);
  exchange(s, false, micro, -1);
}

static void gpipe(const struct schedule *s) {
  for (int m = 0; m < s->micros; m++) forward(s, m);
  for (int m = 0; m < s->micros; m++) backward(s, m);
}

// One forward, one backward, after enough forwards to fill the stages behind.
static void one_forward_one_backward(const struct schedule *s) {
  int warmup = s->stages - 1 - s->stage;
  if (warmup > s->micros) warmup = s->micros;
  for (int m = 0; m < warmup; m++) forward(s, m);
  int next = warmup, done = 0;
  if (next < s->micros) exchange(s, false, -1, next);
  while (next < s->micros) {
    s->pass(s->context, next, true);
    exchange(s, true, next, done);
    s->pass(s->context, done, false);
    next++;
    exchange(s, false, done, next < s->micros ? next : -1);
    done++;
  }
  while (done < s->micros) backward(s, done++);
}

void schedule_run(const struct schedule *s) {
  if (s->kind == SCHEDULE_GPIPE) gpipe(s);
  else one_forward_one_backward(s);
}
