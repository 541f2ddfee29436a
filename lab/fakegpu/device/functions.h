// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the function numbers in NCCL's work mean, read backwards from the library's own table.

#ifndef FAKEGPU_DEVICE_FUNCTIONS_H
#define FAKEGPU_DEVICE_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum collective { COLL_SEND_RECV, COLL_ALL_GATHER, COLL_BROADCAST, COLL_ALL_GATHER_V, COLL_ALL_REDUCE, COLL_REDUCE, COLL_REDUCE_SCATTER };
enum operation { OP_SUM, OP_PROD, OP_MIN_MAX, OP_PRE_MUL_SUM, OP_SUM_POST_DIV, OP_COUNT };
enum type { TYPE_I8, TYPE_U8, TYPE_I32, TYPE_U32, TYPE_I64, TYPE_U64, TYPE_F16, TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_F8E4M3, TYPE_F8E5M2, TYPE_COUNT };
enum algorithm { ALGO_TREE, ALGO_RING, ALGO_COLLNET_DIRECT, ALGO_COLLNET_CHAIN, ALGO_NVLS, ALGO_NVLS_TREE, ALGO_PAT };
enum protocol { PROTO_LL, PROTO_LL128, PROTO_SIMPLE, PROTO_COUNT };

// Signed integers share the functions of unsigned ones. Collectives that only copy have the type u8.
struct function {
  bool known;
  enum collective coll;
  enum operation op;
  enum type type;
  enum algorithm algo;
  enum protocol proto;
};

// False: why says what the table lacks.
bool functions_open(char *why, size_t size);

// NULL: the library has no function of this number.
const struct function *function_of(int id);

// "AllReduce sum f32 ring simple", into text.
const char *function_text(const struct function *f, char *text, size_t size);

// The library's version as ncclGetVersion gives it, 22807 for 2.28.7.
int nccl_version(void);

#endif
