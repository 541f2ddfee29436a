// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "verified.h"

#include <stdlib.h>

#include "event.h"
#include "gpu.h"
#include "pattern.h"
#include "rendezvous.h"

// Element i of rank r is weight(r) * (1 + (i + salt) % PERIOD): whole numbers, so that any order of adding gives the
// same float (1024 ranks stay far below 2^24).
#define PERIOD 61u

struct known {
  float *data;
  size_t count;
  uint64_t first;  // Index of data[0], salt included.
  float weight;
  bool check;      // Else fill.
  enum func func;
  const struct comm *comm;
};

static void wrong(const struct known *p, size_t index, float want) {
  if (control_tainted()) return;
  event_emit("wrong_sum", ",\"comm\":\"%s\",\"func\":\"%s\",\"index\":%zu,\"count\":%zu,\"got\":%g,\"want\":%g", p->comm->name,
             func_name(p->func), index, p->count, (double)p->data[index], (double)want);
  die(EXIT_WRONG_SUM, "wrong result of %s on %s at %zu of %zu: %g, not %g", func_name(p->func), p->comm->name, index, p->count,
      (double)p->data[index], (double)want);
}

static void run_known(void *argument) {
  struct known *p = argument;
  float want;
  if (!p->check) {
    pattern_fill(p->data, p->count, p->first, p->weight);
    return;
  }
  size_t at = pattern_check(p->data, p->count, p->first, p->weight, &want);
  if (at < p->count) wrong(p, at, want);
}

static void enqueue(const struct buffers *b, enum func func, bool check, float *data, size_t count, uint64_t first,
                    float weight) {
  if (check && !b->check) return;
  struct known *p = must_calloc(1, sizeof *p);
  *p = (struct known){.data = data, .count = count, .first = first, .weight = weight, .check = check, .func = func, .comm = b->comm};
  gpu_call(b->comm->gpu, run_known, p);
}

void buffers_init(struct buffers *b, struct comm *comm, size_t count) {
  *b = (struct buffers){.comm = comm, .count = count, .check = comm->options->check};
  size_t all = count * (size_t)comm->nranks;
  b->in = must_calloc(all, sizeof *b->in);
  b->out = must_calloc(all, sizeof *b->out);
}

void buffers_free(struct buffers *b) {
  free(b->in);
  free(b->out);
  *b = (struct buffers){0};
}

void verified_all_reduce(struct buffers *b, size_t count, enum algo algo, uint64_t salt) {
  enqueue(b, FUNC_ALLREDUCE, false, b->in, count, salt, pattern_weight(b->comm->rank));
  api_all_reduce(b->comm, b->in, b->out, count, algo);
  enqueue(b, FUNC_ALLREDUCE, true, b->out, count, salt, pattern_weight_of_all(b->comm->nranks));
}

void verified_all_gather(struct buffers *b, size_t count, uint64_t salt) {
  enqueue(b, FUNC_ALLGATHER, false, b->in, count, salt, pattern_weight(b->comm->rank));
  api_all_gather(b->comm, b->in, b->out, count);
  for (int r = 0; r < b->comm->nranks; r++) {
    enqueue(b, FUNC_ALLGATHER, true, b->out + (size_t)r * count, count, salt, pattern_weight(r));
  }
}

void verified_reduce_scatter(struct buffers *b, size_t count, uint64_t salt) {
  size_t n = (size_t)b->comm->nranks;
  enqueue(b, FUNC_REDUCESCATTER, false, b->in, count * n, salt, pattern_weight(b->comm->rank));
  api_reduce_scatter(b->comm, b->in, b->out, count);
  enqueue(b, FUNC_REDUCESCATTER, true, b->out, count, salt + (uint64_t)b->comm->rank * count, pattern_weight_of_all(b->comm->nranks));
}

void verified_broadcast(struct buffers *b, size_t count, int root, uint64_t salt) {
  enqueue(b, FUNC_BROADCAST, false, b->in, count, salt, pattern_weight(b->comm->rank));
  api_broadcast(b->comm, b->in, b->out, count, root);
  enqueue(b, FUNC_BROADCAST, true, b->out, count, salt, pattern_weight(root));
}

void verified_fill_send(struct buffers *b, size_t count, uint64_t salt) {
  enqueue(b, FUNC_SEND, false, b->in, count, salt, pattern_weight(b->comm->rank));
}

void verified_check_recv(struct buffers *b, size_t count, int peer, uint64_t salt) {
  enqueue(b, FUNC_RECV, true, b->out, count, salt, pattern_weight(peer));
}
