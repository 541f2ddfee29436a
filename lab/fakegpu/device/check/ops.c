// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cudart.h"

enum { ROOT = 1, GROUP = 4, FACTOR = 2, GUARD = 64 /* bytes behind the result that must not change */, GUARD_BYTE = 0xa5 };

#define TRY(call)                 \
  do {                            \
    if (call) return #call;       \
  } while (0)

static bool reduces(const char *name) {
  return !strcmp(name, "allreduce") || !strcmp(name, "reducescatter") || !strcmp(name, "reduce") || !strcmp(name, "group");
}

bool op_parse(const char *text, struct op *op) {
  char type[16], kind[16], place[8] = "";
  memset(op, 0, sizeof *op);
  int n = sscanf(text, "%31[a-z]:%15[a-z0-9]:%15[a-z]:%zu:%7s", op->name, type, kind, &op->bytes, place);
  if (n < 4 || value_type(type) < 0 || value_kind(kind) < 0) return false;
  op->type = (enum data_type)value_type(type);
  op->kind = (enum reduction_kind)value_kind(kind);
  op->in_place = !strcmp(place, "in");
  return true;
}

static int root_of(const struct op_run *r) { return ROOT % r->member.ranks; }

static char *element(char *buffer, const struct op_run *r, size_t i) { return buffer + i * value_size(r->op->type); }

// Where the input and the result begin when both are in one buffer.
static void place(struct op_run *r, char *buffer) {
  r->in = r->out = buffer;
  size_t mine = r->each * (size_t)r->member.rank;
  if (!strcmp(r->op->name, "allgather")) r->in = element(buffer, r, mine);
  if (!strcmp(r->op->name, "reducescatter")) r->out = element(buffer, r, mine);
}

const char *op_begin(struct op_run *r, const struct op *op, const struct member *m, int round) {
  *r = (struct op_run){.op = op, .member = *m, .round = round, .premul = -1};
  r->count = op->bytes / value_size(op->type);
  r->each = r->count / (size_t)m->ranks;
  void *in, *out;
  TRY(cudaMalloc(&in, op->bytes + GUARD));
  TRY(cudaMalloc(&out, op->bytes + GUARD));
  memset(out, GUARD_BYTE, op->bytes + GUARD);
  r->in = in;
  r->out = out;
  if (op->in_place) place(r, out);
  size_t given = !strcmp(op->name, "allgather") ? r->each : r->count;
  for (size_t i = 0; i < given; i++) value_put(r->in, i, op->type, op->kind, m->rank, i, round);
  if (op->in_place) TRY(cudaFree(in));
  if (op->kind != PRE_MUL || !reduces(op->name)) return NULL;
  char factor[8] = {0};
  value_number(factor, op->type, FACTOR);
  TRY(nccl.RedOpCreatePreMulSum(&r->premul, factor, (int)op->type, 1 /* read at once, from the host */, m->comm));
  return NULL;
}

static const char *send_recv(const struct op_run *r) {
  const struct member *m = &r->member;
  int type = (int)r->op->type;
  TRY(nccl.GroupStart());
  TRY(nccl.Send(r->in, r->count, type, (m->rank + 1) % m->ranks, m->comm, m->stream));
  TRY(nccl.Recv(r->out, r->count, type, (m->rank + m->ranks - 1) % m->ranks, m->comm, m->stream));
  TRY(nccl.GroupEnd());
  return NULL;
}

static const char *all_to_all(const struct op_run *r) {
  const struct member *m = &r->member;
  int type = (int)r->op->type;
  TRY(nccl.GroupStart());
  for (int peer = 0; peer < m->ranks; peer++) {
    size_t at = r->each * (size_t)peer;
    TRY(nccl.Send(element(r->in, r, at), r->each, type, peer, m->comm, m->stream));
    TRY(nccl.Recv(element(r->out, r, at), r->each, type, peer, m->comm, m->stream));
  }
  TRY(nccl.GroupEnd());
  return NULL;
}

// Every rank sends to the root alone; the root to itself, too.
static const char *gather(const struct op_run *r) {
  const struct member *m = &r->member;
  int type = (int)r->op->type;
  TRY(nccl.GroupStart());
  TRY(nccl.Send(r->in, r->each, type, root_of(r), m->comm, m->stream));
  for (int peer = 0; m->rank == root_of(r) && peer < m->ranks; peer++) {
    TRY(nccl.Recv(element(r->out, r, r->each * (size_t)peer), r->each, type, peer, m->comm, m->stream));
  }
  TRY(nccl.GroupEnd());
  return NULL;
}

static const char *broadcasts(const struct op_run *r) {
  const struct member *m = &r->member;
  TRY(nccl.GroupStart());
  for (int root = 0; root < m->ranks; root++) {
    size_t at = r->each * (size_t)root;
    TRY(nccl.Broadcast(element(r->in, r, at), element(r->out, r, at), r->each, (int)r->op->type, root, m->comm, m->stream));
  }
  TRY(nccl.GroupEnd());
  return NULL;
}

static const char *all_reduces(const struct op_run *r, int op) {
  const struct member *m = &r->member;
  size_t part = r->count / GROUP;
  TRY(nccl.GroupStart());
  for (size_t k = 0; k < GROUP; k++) {
    TRY(nccl.AllReduce(element(r->in, r, k * part), element(r->out, r, k * part), part, (int)r->op->type, op, m->comm, m->stream));
  }
  TRY(nccl.GroupEnd());
  return NULL;
}

const char *op_enqueue(struct op_run *r) {
  const struct member *m = &r->member;
  const char *name = r->op->name;
  int type = (int)r->op->type, op = r->premul >= 0 ? r->premul : (int)r->op->kind;
  if (!strcmp(name, "allreduce")) TRY(nccl.AllReduce(r->in, r->out, r->count, type, op, m->comm, m->stream));
  else if (!strcmp(name, "reducescatter")) TRY(nccl.ReduceScatter(r->in, r->out, r->each, type, op, m->comm, m->stream));
  else if (!strcmp(name, "reduce")) TRY(nccl.Reduce(r->in, r->out, r->count, type, op, root_of(r), m->comm, m->stream));
  else if (!strcmp(name, "allgather")) TRY(nccl.AllGather(r->in, r->out, r->each, type, m->comm, m->stream));
  else if (!strcmp(name, "broadcast")) TRY(nccl.Broadcast(r->in, r->out, r->count, type, root_of(r), m->comm, m->stream));
  else if (!strcmp(name, "group")) return all_reduces(r, op);
  else if (!strcmp(name, "broadcasts")) return broadcasts(r);
  else if (!strcmp(name, "sendrecv")) return send_recv(r);
  else if (!strcmp(name, "alltoall")) return all_to_all(r);
  else if (!strcmp(name, "gather")) return gather(r);
  else return "no such operation";
  return NULL;
}

// n elements of the result from `at` on are those of the ranks from..to-1 from `first` on.
static long differs(const struct op_run *r, size_t at, size_t n, int from, int to, size_t first) {
  enum reduction_kind kind = reduces(r->op->name) || r->op->kind == PROD ? r->op->kind : SUM;
  for (size_t i = 0; i < n; i++) {
    if (!value_is(r->out, at + i, r->op->type, kind, from, to, first + i, r->round)) return (long)(at + i);
  }
  return -1;
}

// A part of each rank; each rank's part lies in its own buffer from `first` on.
static long parts_differ(const struct op_run *r, size_t first, bool moves) {
  for (int rank = 0; rank < r->member.ranks; rank++) {
    size_t at = r->each * (size_t)rank;
    long wrong = differs(r, at, r->each, rank, rank + 1, moves ? at : first);
    if (wrong >= 0) return wrong;
  }
  return -1;
}

static size_t result_count(const struct op_run *r) {
  if (!strcmp(r->op->name, "reducescatter")) return r->each;
  if (!strcmp(r->op->name, "group")) return r->count / GROUP * GROUP;
  if (!strcmp(r->op->name, "allreduce") || !strcmp(r->op->name, "reduce") || !strcmp(r->op->name, "broadcast") || !strcmp(r->op->name, "sendrecv")) return r->count;
  return r->each * (size_t)r->member.ranks;
}

static bool guard_is_whole(const struct op_run *r) {
  const unsigned char *guard = (const unsigned char *)element(r->out, r, result_count(r));
  for (size_t i = 0; !r->op->in_place && i < GUARD; i++) {
    if (guard[i] != GUARD_BYTE) return false;
  }
  return true;
}

long op_wrong(const struct op_run *r) {
  const char *name = r->op->name;
  const struct member *m = &r->member;
  int prev = (m->rank + m->ranks - 1) % m->ranks;
  size_t mine = r->each * (size_t)m->rank;
  if (!guard_is_whole(r)) return (long)result_count(r);
  if (!strcmp(name, "allreduce")) return differs(r, 0, r->count, 0, m->ranks, 0);
  if (!strcmp(name, "group")) return differs(r, 0, r->count / GROUP * GROUP, 0, m->ranks, 0);
  if (!strcmp(name, "reducescatter")) return differs(r, 0, r->each, 0, m->ranks, mine);
  if (!strcmp(name, "reduce")) return m->rank == root_of(r) ? differs(r, 0, r->count, 0, m->ranks, 0) : -1;
  if (!strcmp(name, "allgather")) return parts_differ(r, 0, false);
  if (!strcmp(name, "broadcast")) return differs(r, 0, r->count, root_of(r), root_of(r) + 1, 0);
  if (!strcmp(name, "broadcasts")) return parts_differ(r, 0, true);
  if (!strcmp(name, "sendrecv")) return differs(r, 0, r->count, prev, prev + 1, 0);
  if (!strcmp(name, "alltoall")) return parts_differ(r, mine, false);
  return m->rank == root_of(r) ? parts_differ(r, 0, false) : -1;
}

void op_end(struct op_run *r) {
  if (r->premul >= 0) nccl.RedOpDestroy(r->premul, r->member.comm);
  if (r->op->in_place) {
    size_t mine = r->each * (size_t)r->member.rank;
    cudaFree(!strcmp(r->op->name, "reducescatter") ? r->out - mine * value_size(r->op->type) : r->out);
    return;
  }
  cudaFree(r->in);
  cudaFree(r->out);
}
