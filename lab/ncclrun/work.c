// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "work.h"

#include <string.h>

#include "clock.h"
#include "fault.h"

// Distance in salt between operations.
enum { SALT_OP = 3 };
// What one round of the ring takes of a rank on one channel at most, bytes; and the channels if NCCL chooses them.
enum { RING_CHUNK = 2 << 20, RING_CHANNELS = 16 };

uint64_t salt_of(struct buffers *b) { return b->comm->ops++ * SALT_OP; }

// Compute.

// splitmix64: any digest does.
static uint64_t digest(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

double pass_ms(const struct train *t, int micro, bool forward) {
  uint64_t x = digest(digest(t->step) ^ (uint64_t)(micro * 2 + forward) ^ (uint64_t)t->dp_index << 32);
  double uniform = (double)(x >> 11) / (double)(1ull << 53) * 2 - 1;
  return (double)t->options->compute_ns / NS_PER_MS * (1 + t->options->jitter * uniform);
}

bool compute(const struct train *t, double ms) {
  return ms <= 0 || cuda_ok(fakegpu_compute(t->groups->rank->compute, ms), "compute");
}

// Operations. The compute stream waits for all of them but the gradient's.

// More rounds of the ring than an operation of `count` elements takes. With as many, the ranks would take as many steps, and NCCL
// would go on with rubbish.
static size_t more_rounds(const struct comm *c, size_t count) {
  int channels = c->owner->options->channels;
  return count + 2 * (size_t)c->nranks * (size_t)(channels ? channels : RING_CHANNELS) * RING_CHUNK / sizeof(float);
}

// The call that does not fit; its result is rubbish and is not looked at.
static bool call_other(struct train *t, struct comm *c, size_t count) {
  struct buffers *b = &t->other;
  const char *what = fault_other_op();
  size_t share = count / (size_t)c->nranks + 1, more = more_rounds(c, count);
  if (!b->comm && !buffers_init(b, c, more)) return false;
  if (strcmp(what, "allgather") == 0) {
    return nccl_ok(nccl.AllGather(b->in, b->out, share, NCCL_FLOAT32, c->handle, c->stream), "ncclAllGather");
  }
  if (strcmp(what, "reducescatter") == 0) {
    return nccl_ok(nccl.ReduceScatter(b->in, b->out, share, NCCL_FLOAT32, NCCL_SUM, c->handle, c->stream), "ncclReduceScatter");
  }
  return nccl_ok(nccl.AllReduce(b->in, b->out, more, NCCL_FLOAT32, NCCL_SUM, c->handle, c->stream), "ncclAllReduce");
}

bool all_reduce(struct train *t, struct buffers *b, size_t count) {
  uint64_t salt = salt_of(b);
  bool other = fault_before_op(b->comm->name, true);
  if (!comm_enter(b->comm)) return false;
  return other ? call_other(t, b->comm, count) : verified_all_reduce(b, count, NCCL_SUM, salt);
}

bool all_reduce_joined(struct train *t, struct buffers *b, size_t count) {
  return all_reduce(t, b, count) && comm_join(b->comm);
}

// What a member sends to another one in an all-to-all: as many as all others, or anything up to its share more or less.
static size_t tokens(const struct train *t, uint64_t salt, int from, int to) {
  uint64_t x = digest(digest(salt) ^ (uint64_t)from << 32 ^ (uint64_t)to);
  double uniform = (double)(x >> 11) / (double)(1ull << 53) * 2 - 1;
  size_t count = (size_t)((double)t->ep_count * (1 + t->options->ep_skew * uniform));
  return count ? count : 1;
}

static bool all_to_all(struct train *t, uint64_t salt) {
  struct comm *c = t->ep.comm;
  size_t to[c->nranks], from[c->nranks];
  for (int r = 0; r < c->nranks; r++) {
    to[r] = tokens(t, salt, c->rank, r);
    from[r] = tokens(t, salt, r, c->rank);
  }
  return verified_all_to_some(&t->ep, t->ep.count / (size_t)c->nranks, to, from, salt);
}

bool experts(struct train *t) {
  for (int way = 0; way < 2; way++) {
    uint64_t salt = salt_of(&t->ep);
    fault_before_op(t->ep.comm->name, false);
    if (!comm_enter(t->ep.comm) || !all_to_all(t, salt) || !comm_join(t->ep.comm)) return false;
  }
  return true;
}

bool gradient(struct train *t) {
  struct buffers *b = &t->dp;
  if (t->options->dp_op == DP_ALLREDUCE) return all_reduce(t, b, t->dp_count);
  size_t share = t->dp_count / (size_t)b->comm->nranks + 1;
  uint64_t salt = salt_of(b);
  bool other = fault_before_op(b->comm->name, true);
  if (!comm_enter(b->comm)) return false;
  if (!(other ? call_other(t, b->comm, t->dp_count) : verified_reduce_scatter(b, share, salt))) return false;
  salt = salt_of(b);
  fault_before_op(b->comm->name, false);
  return verified_all_gather(b, share, salt);
}

bool layers(struct train *t, double ms) {
  struct comm *c = t->groups->cp;
  if (!c) return compute(t, ms);
  bool going = true;
  for (int round = 1; going && round < c->nranks; round++) {
    uint64_t salt = salt_of(&t->cp);
    fault_before_op(c->name, false);
    going = comm_enter(c) && verified_shift(&t->cp, t->cp_count, salt) && compute(t, ms / c->nranks) && comm_join(c);
  }
  return going && compute(t, ms / c->nranks);
}

// Parameters of the layer with an index.
static bool gather_layer(struct train *t, int layer) {
  struct buffers *b = &t->dp;
  uint64_t salt = salt_of(b);
  fault_before_op(b->comm->name, false);
  return comm_enter(b->comm) && verified_all_gather(b, t->dp_count / (size_t)b->comm->nranks + 1, salt) &&
         cuda_ok(cudaEventRecord(t->gathered[layer % 2], b->comm->stream), "cudaEventRecord");
}

static bool scatter_layer(struct train *t) {
  struct buffers *b = &t->dp;
  uint64_t salt = salt_of(b);
  bool other = fault_before_op(b->comm->name, true);
  if (!comm_enter(b->comm)) return false;
  if (other) return call_other(t, b->comm, t->dp_count);
  return verified_reduce_scatter(b, t->dp_count / (size_t)b->comm->nranks + 1, salt);
}

bool sharded_pass(struct train *t, double ms, bool forward) {
  int parts = t->options->dp_buckets;
  bool going = gather_layer(t, 0);
  for (int i = 0; going && i < parts; i++) {
    // The next layer's parameters come while this one computes.
    if (i + 1 < parts) going = gather_layer(t, i + 1);
    going = going && cuda_ok(cudaStreamWaitEvent(t->groups->rank->compute, t->gathered[i % 2], 0), "cudaStreamWaitEvent") &&
            layers(t, ms / parts);
    if (going && !forward) going = scatter_layer(t);
  }
  return going;
}
