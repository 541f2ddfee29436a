// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The rows of ncclDevFuncRowToId are in NCCL's order: one for send and receive, then each collective by operation, type, algorithm
// and protocol. A row holds the number of its function, or -1 where there is none. Several rows share a function; the last of
// them names it, so that integers are unsigned.

#include "functions.h"

#include <stdio.h>
#include <stdlib.h>

#include "../symbols.h"

static struct function *functions;
static int function_count, version;

static const struct rows {
  enum collective coll;
  int ops, types, since;  // since: the first version that has the rows
  int algorithms[6];      // -1 ends them
} order[] = {
    {COLL_ALL_GATHER, 1, 1, 0, {ALGO_RING, ALGO_COLLNET_DIRECT, ALGO_NVLS, ALGO_PAT, -1, -1}},
    {COLL_BROADCAST, 1, 1, 0, {ALGO_RING, -1, -1, -1, -1, -1}},
    {COLL_ALL_GATHER_V, 1, 1, 22900, {ALGO_RING, -1, -1, -1, -1, -1}},
    {COLL_ALL_REDUCE, OP_COUNT, TYPE_COUNT, 0, {ALGO_TREE, ALGO_RING, ALGO_COLLNET_DIRECT, ALGO_COLLNET_CHAIN, ALGO_NVLS, ALGO_NVLS_TREE}},
    {COLL_REDUCE, OP_COUNT, TYPE_COUNT, 0, {ALGO_RING, -1, -1, -1, -1, -1}},
    {COLL_REDUCE_SCATTER, OP_COUNT, TYPE_COUNT, 0, {ALGO_RING, ALGO_COLLNET_DIRECT, ALGO_NVLS, ALGO_PAT, -1, -1}},
};

static int algorithm_count(const struct rows *r) {
  int n = 0;
  while (n < 6 && r->algorithms[n] >= 0) n++;
  return n;
}

static size_t row_count(const struct rows *r) {
  return version < r->since ? 0 : (size_t)r->ops * (size_t)r->types * (size_t)algorithm_count(r) * PROTO_COUNT;
}

static void name(int id, struct function f) {
  if (id < 0) return;
  f.known = true;
  functions[id] = f;
}

static void name_rows(const struct rows *r, const int *ids) {
  if (version < r->since) return;
  int algorithms = algorithm_count(r);
  for (int op = 0; op < r->ops; op++) {
    for (int type = 0; type < r->types; type++) {
      for (int a = 0; a < algorithms; a++) {
        for (int proto = 0; proto < PROTO_COUNT; proto++) {
          struct function f = {.coll = r->coll, .op = (enum operation)op, .type = r->types == 1 ? TYPE_U8 : (enum type)type,
                               .algo = (enum algorithm)r->algorithms[a], .proto = (enum protocol)proto};
          name(*ids++, f);
        }
      }
    }
  }
}

static int library_version(void) {
  union {
    void *address;
    int (*call)(int *);
  } get = {.address = symbol_find("ncclGetVersion", NULL)};
  int v = 0;
  return get.call && get.call(&v) == 0 ? v : 0;
}

bool functions_open(char *why, size_t size) {
  version = library_version();
  if (!version) return snprintf(why, size, "the library has no ncclGetVersion"), false;
  size_t bytes = 0, rows = 2;  // send and receive, and the row that ends the table
  const int *ids = symbol_find("ncclDevFuncRowToId", &bytes);
  if (!ids) return snprintf(why, size, "NCCL %d has no symbol ncclDevFuncRowToId", version), false;
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) rows += row_count(&order[i]);
  if (bytes / sizeof *ids != rows) {
    return snprintf(why, size, "ncclDevFuncRowToId of NCCL %d has %zu rows, expected %zu", version, bytes / sizeof *ids, rows), false;
  }
  function_count = 0;
  for (size_t i = 0; i < rows; i++) {
    if (ids[i] >= function_count) function_count = ids[i] + 1;
  }
  free(functions);
  functions = calloc((size_t)function_count, sizeof *functions);
  if (!functions) return snprintf(why, size, "out of memory"), false;
  name(*ids++, (struct function){.coll = COLL_SEND_RECV, .type = TYPE_U8, .algo = ALGO_RING, .proto = PROTO_SIMPLE});
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    name_rows(&order[i], ids);
    ids += row_count(&order[i]);
  }
  return true;
}

const struct function *function_of(int id) {
  return id >= 0 && id < function_count && functions[id].known ? &functions[id] : NULL;
}

const char *function_text(const struct function *f, char *text, size_t size) {
  static const char *const colls[] = {"SendRecv", "AllGather", "Broadcast", "AllGatherV", "AllReduce", "Reduce", "ReduceScatter"};
  static const char *const ops[] = {"sum", "prod", "minmax", "premulsum", "sumpostdiv"};
  static const char *const types[] = {"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
  static const char *const algorithms[] = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
  static const char *const protocols[] = {"ll", "ll128", "simple"};
  snprintf(text, size, "%s %s %s %s %s", colls[f->coll], ops[f->op], types[f->type], algorithms[f->algo], protocols[f->proto]);
  return text;
}

int nccl_version(void) { return version; }
