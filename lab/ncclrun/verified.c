// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "verified.h"

#include <stdlib.h>

#include "event.h"
#include "fault.h"
#include "pattern.h"
#include "rendezvous.h"

// Data to be filled in or checked once the stream comes to it.
struct known {
  float *data;
  size_t count;
  uint64_t first;
  float weight;
  const char *func;
  const struct comm *comm;
};

static void fill_known(void *arg) {
  struct known *k = arg;
  pattern_fill(k->data, k->count, k->first, k->weight);
  free(k);
}

static void check_known(void *arg) {
  struct known *k = arg;
  float want = 0;
  size_t at = pattern_check(k->data, k->count, k->first, k->weight, &want);
  if (at < k->count && !control_tainted() && !abort_requested()) {
    event_emit_of(k->comm->owner->rank, "wrong_sum", ",\"comm\":\"%s\",\"func\":\"%s\",\"index\":%zu,\"count\":%zu,\"got\":%g,\"want\":%g",
                  k->comm->name, k->func, at, k->count, (double)k->data[at], (double)want);
    die(EXIT_WRONG_SUM, "wrong result of %s on %s at %zu of %zu: %g, not %g", k->func, k->comm->name, at, k->count,
        (double)k->data[at], (double)want);
  }
  free(k);
}

static struct known *known(const struct buffers *b, float *data, size_t count, uint64_t first, float weight, const char *func) {
  struct known *k = must_calloc(1, sizeof *k);
  *k = (struct known){.data = data, .count = count, .first = first, .weight = weight, .func = func, .comm = b->comm};
  return k;
}

static bool checks(const struct buffers *b) { return b->comm->owner->options->check; }

static bool allocate(float **device, float **host, size_t bytes) {
  return cuda_ok(cudaMalloc((void **)device, bytes), "cudaMalloc") && cuda_ok(cudaHostAlloc((void **)host, bytes, 0), "cudaHostAlloc");
}

bool buffers_init(struct buffers *b, struct comm *comm, size_t count) {
  *b = (struct buffers){.comm = comm, .count = count};
  size_t bytes = (count ? count : 1) * sizeof(float);
  return allocate(&b->in, &b->host_in, bytes) && allocate(&b->out, &b->host_out, bytes);
}

void buffers_free(struct buffers *b) {
  cudaFree(b->in);
  cudaFree(b->out);
  cudaFreeHost(b->host_in);
  cudaFreeHost(b->host_out);
  *b = (struct buffers){0};
}

static bool copy(const struct buffers *b, float *to, const float *from, size_t count) {
  return cuda_ok(cudaMemcpyAsync(to, from, count * sizeof *to, CUDA_MEMCPY_DEFAULT, b->comm->stream), "cudaMemcpyAsync");
}

bool buffers_fill(struct buffers *b, size_t offset, size_t count, uint64_t first, float weight) {
  if (!checks(b)) return true;
  struct known *k = known(b, b->host_in + offset, count, first, weight, "");
  return cuda_ok(cudaLaunchHostFunc(b->comm->stream, fill_known, k), "cudaLaunchHostFunc") &&
         copy(b, b->in + offset, b->host_in + offset, count);
}

bool buffers_check(struct buffers *b, const char *func, size_t offset, size_t count, uint64_t first, float weight) {
  if (!checks(b)) return true;
  struct known *k = known(b, b->host_out + offset, count, first, weight, func);
  return copy(b, b->host_out + offset, b->out + offset, count) &&
         cuda_ok(cudaLaunchHostFunc(b->comm->stream, check_known, k), "cudaLaunchHostFunc");
}

// A fault keeps the program inside the call: between the start of a group around it and its end.
static bool stalls(const struct comm *c) { return fault_find(GROUP_STALL, c->name) && nccl_ok(nccl.GroupStart(), "ncclGroupStart"); }

static bool called(const struct comm *c, bool stalled, int result, const char *what) {
  if (!nccl_ok(result, what)) return false;
  if (!stalled) return true;
  fault_hold(GROUP_STALL, c->name, false);
  return nccl_ok(nccl.GroupEnd(), "ncclGroupEnd");
}

// What AllReduce makes of the members' patterns, which are one pattern times their weights.
static float weight_of(const struct comm *c, enum nccl_redop op) {
  int most = c->nranks < 16 ? c->nranks : 16;
  switch (op) {
    case NCCL_MAX: return pattern_weight(most - 1);
    case NCCL_MIN: return pattern_weight(0);
    case NCCL_AVG: return pattern_weight_of_all(c->nranks) / (float)c->nranks;
    default: return pattern_weight_of_all(c->nranks);
  }
}

bool verified_all_reduce(struct buffers *b, size_t count, enum nccl_redop op, uint64_t salt) {
  struct comm *c = b->comm;
  if (!buffers_fill(b, 0, count, salt, pattern_weight(c->rank))) return false;
  bool stalled = stalls(c);
  int result = nccl.AllReduce(b->in, b->out, count, NCCL_FLOAT32, op, c->handle, c->stream);
  return called(c, stalled, result, "ncclAllReduce") && buffers_check(b, "AllReduce", 0, count, salt, weight_of(c, op));
}

bool verified_reduce(struct buffers *b, size_t count, int root, uint64_t salt) {
  struct comm *c = b->comm;
  if (!buffers_fill(b, 0, count, salt, pattern_weight(c->rank))) return false;
  bool stalled = stalls(c);
  int result = nccl.Reduce(b->in, b->out, count, NCCL_FLOAT32, NCCL_SUM, root, c->handle, c->stream);
  if (!called(c, stalled, result, "ncclReduce")) return false;
  return c->rank != root || buffers_check(b, "Reduce", 0, count, salt, weight_of(c, NCCL_SUM));
}

bool verified_all_gather(struct buffers *b, size_t count, uint64_t salt) {
  struct comm *c = b->comm;
  if (!buffers_fill(b, 0, count, salt, pattern_weight(c->rank))) return false;
  bool stalled = stalls(c);
  int result = nccl.AllGather(b->in, b->out, count, NCCL_FLOAT32, c->handle, c->stream);
  if (!called(c, stalled, result, "ncclAllGather")) return false;
  for (int r = 0; r < c->nranks; r++) {
    if (!buffers_check(b, "AllGather", (size_t)r * count, count, salt, pattern_weight(r))) return false;
  }
  return true;
}

bool verified_reduce_scatter(struct buffers *b, size_t count, uint64_t salt) {
  struct comm *c = b->comm;
  if (!buffers_fill(b, 0, count * (size_t)c->nranks, salt, pattern_weight(c->rank))) return false;
  bool stalled = stalls(c);
  int result = nccl.ReduceScatter(b->in, b->out, count, NCCL_FLOAT32, NCCL_SUM, c->handle, c->stream);
  return called(c, stalled, result, "ncclReduceScatter") &&
         buffers_check(b, "ReduceScatter", 0, count, salt + (uint64_t)c->rank * count, weight_of(c, NCCL_SUM));
}

bool verified_broadcast(struct buffers *b, size_t count, int root, uint64_t salt) {
  struct comm *c = b->comm;
  if (!buffers_fill(b, 0, count, salt, pattern_weight(c->rank))) return false;
  bool stalled = stalls(c);
  int result = nccl.Broadcast(b->in, b->out, count, NCCL_FLOAT32, root, c->handle, c->stream);
  return called(c, stalled, result, "ncclBroadcast") && buffers_check(b, "Broadcast", 0, count, salt, pattern_weight(root));
}

bool verified_all_to_some(struct buffers *b, size_t slot, const size_t *to, const size_t *from, uint64_t salt) {
  struct comm *c = b->comm;
  size_t n = (size_t)c->nranks;
  if (!buffers_fill(b, 0, slot * n, salt, pattern_weight(c->rank))) return false;
  bool ok = nccl_ok(nccl.GroupStart(), "ncclGroupStart");
  for (int r = 0; ok && r < c->nranks; r++) {
    size_t at = (size_t)r * slot;
    ok = nccl_ok(nccl.Send(b->in + at, to ? to[r] : slot, NCCL_FLOAT32, r, c->handle, c->stream), "ncclSend") &&
         nccl_ok(nccl.Recv(b->out + at, from ? from[r] : slot, NCCL_FLOAT32, r, c->handle, c->stream), "ncclRecv");
  }
  if (!ok) return false;
  fault_hold(GROUP_STALL, c->name, false);
  ok = nccl_ok(nccl.GroupEnd(), "ncclGroupEnd");
  for (int r = 0; ok && r < c->nranks; r++) {
    ok = buffers_check(b, "Recv", (size_t)r * slot, from ? from[r] : slot, salt + (uint64_t)c->rank * slot, pattern_weight(r));
  }
  return ok;
}

bool verified_all_to_all(struct buffers *b, size_t count, uint64_t salt) { return verified_all_to_some(b, count, NULL, NULL, salt); }

bool verified_shift(struct buffers *b, size_t count, uint64_t salt) {
  struct comm *c = b->comm;
  int next = (c->rank + 1) % c->nranks, previous = (c->rank + c->nranks - 1) % c->nranks;
  return buffers_fill(b, 0, count, salt, pattern_weight(c->rank)) && nccl_ok(nccl.GroupStart(), "ncclGroupStart") &&
         nccl_ok(nccl.Send(b->in, count, NCCL_FLOAT32, next, c->handle, c->stream), "ncclSend") &&
         nccl_ok(nccl.Recv(b->out, count, NCCL_FLOAT32, previous, c->handle, c->stream), "ncclRecv") &&
         nccl_ok(nccl.GroupEnd(), "ncclGroupEnd") && buffers_check(b, "Recv", 0, count, salt, pattern_weight(previous));
}
