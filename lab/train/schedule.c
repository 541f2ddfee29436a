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

// The interleaved schedule of Megatron. A stage has several chunks of the model, and works through `micros * chunks` passes each way:
// those of a chunk for as many microbatches as there are stages, then those of the next chunk.

static int chunk_of(const struct schedule *s, int k, bool forward) {
  int chunk = k % (s->stages * s->chunks) / s->stages;
  return forward ? chunk : s->chunks - 1 - chunk;
}

static int micro_of(const struct schedule *s, int k) {
  int group = s->stages * s->chunks;
  return k / group * s->stages + k % s->stages;
}

// The edge from the last stage to the first leads into the next chunk.
static int edge(const struct schedule *s, int k, bool forward, bool into_next) {
  int chunk = chunk_of(s, k, forward) + (into_next ? 1 : 0);
  return chunk * s->micros + micro_of(s, k);
}

static int total(const struct schedule *s) { return s->micros * s->chunks; }
static bool is_first(const struct schedule *s, int k, bool forward) { return s->stage == 0 && chunk_of(s, k, forward) == 0; }
static bool is_last(const struct schedule *s, int k, bool forward) {
  return s->stage == s->stages - 1 && chunk_of(s, k, forward) == s->chunks - 1;
}

static int forward_in(const struct schedule *s, int k) { return k >= total(s) || is_first(s, k, true) ? -1 : edge(s, k, true, false); }
static int forward_out(const struct schedule *s, int k) {
  return is_last(s, k, true) ? -1 : edge(s, k, true, s->stage == s->stages - 1);
}
static int backward_in(const struct schedule *s, int k) {
  return k >= total(s) || is_last(s, k, false) ? -1 : edge(s, k, false, s->stage == s->stages - 1);
}
static int backward_out(const struct schedule *s, int k) { return is_first(s, k, false) ? -1 : edge(s, k, false, false); }

static void rotate(const struct schedule *s, struct rotation r) {
  if (r.forward_out >= 0 || r.forward_in >= 0 || r.backward_out >= 0 || r.backward_in >= 0) s->rotate(s->context, &r);
}

// Only the very last backward pass counts as that of the last microbatch.
static void backward_of(const struct schedule *s, int k) { s->pass(s->context, k == total(s) - 1 ? s->micros - 1 : 0, false); }

static void interleaved(const struct schedule *s) {
  int all = total(s), warmup = (s->stages - s->stage - 1) * 2 + (s->chunks - 1) * s->stages;
  // As many microbatches as stages: all forward passes come first.
  if (warmup > all || s->micros == s->stages) warmup = all;
  rotate(s, (struct rotation){-1, forward_in(s, 0), -1, -1});
  for (int k = 0; k < warmup; k++) {
    s->pass(s->context, micro_of(s, k), true);
    bool turns = k == warmup - 1 && warmup < all;
    rotate(s, (struct rotation){forward_out(s, k), forward_in(s, k + 1), -1, turns ? backward_in(s, 0) : -1});
  }
  for (int k = warmup; k < all; k++) {
    int b = k - warmup;
    s->pass(s->context, micro_of(s, k), true);
    backward_of(s, b);
    rotate(s, (struct rotation){forward_out(s, k), forward_in(s, k + 1), backward_out(s, b), backward_in(s, b + 1)});
  }
  if (warmup == all) rotate(s, (struct rotation){-1, -1, -1, backward_in(s, 0)});
  for (int b = all - warmup; b < all; b++) {
    backward_of(s, b);
    rotate(s, (struct rotation){-1, -1, backward_out(s, b), backward_in(s, b + 1)});
  }
}

void schedule_run(const struct schedule *s) {
  switch (s->kind) {
    case SCHEDULE_1F1B: one_forward_one_backward(s); break;
    case SCHEDULE_GPIPE: gpipe(s); break;
    case SCHEDULE_INTERLEAVED: interleaved(s); break;
  }
}
