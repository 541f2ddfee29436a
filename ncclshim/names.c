// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "names.h"

#include "culprit_trace.h"

#include <string.h>

static const char *const funcs[] = {
    [CULPRIT_FUNC_UNKNOWN] = "Unknown",     [CULPRIT_FUNC_ALLGATHER] = "AllGather",
    [CULPRIT_FUNC_ALLREDUCE] = "AllReduce", [CULPRIT_FUNC_ALLTOALL] = "AlltoAll",
    [CULPRIT_FUNC_BROADCAST] = "Broadcast", [CULPRIT_FUNC_GATHER] = "Gather",
    [CULPRIT_FUNC_REDUCE] = "Reduce",       [CULPRIT_FUNC_REDUCESCATTER] = "ReduceScatter",
    [CULPRIT_FUNC_SCATTER] = "Scatter",     [CULPRIT_FUNC_SEND] = "Send",
    [CULPRIT_FUNC_RECV] = "Recv",
};

static const char *const algos[] = {
    [CULPRIT_ALGO_TREE] = "TREE",
    [CULPRIT_ALGO_RING] = "RING",
    [CULPRIT_ALGO_COLLNET_DIRECT] = "COLLNET_DIRECT",
    [CULPRIT_ALGO_COLLNET_CHAIN] = "COLLNET_CHAIN",
    [CULPRIT_ALGO_NVLS] = "NVLS",
    [CULPRIT_ALGO_NVLS_TREE] = "NVLS_TREE",
    [CULPRIT_ALGO_PAT] = "PAT",
};

static const char *const protos[] = {
    [CULPRIT_PROTO_LL] = "LL",
    [CULPRIT_PROTO_LL128] = "LL128",
    [CULPRIT_PROTO_SIMPLE] = "SIMPLE",
};

static uint16_t lookup(const char *const *words, size_t count, const char *word) {
  if (word == NULL) return 0;
  for (size_t i = 1; i < count; i++) {
    // No name is shorter than two letters; most that begin alike part by the fourth.
    const char *w = words[i];
    if (w[0] != word[0] || w[1] != word[1] || w[2] != word[2]) continue;
    if ((w[2] == 0 || w[3] == word[3]) && strcmp(w, word) == 0) return (uint16_t)i;
  }
  return 0;
}

#define LOOKUP(words, word) lookup(words, sizeof(words) / sizeof((words)[0]), word)

uint16_t name_func(const char *func) {
  const uint16_t known = LOOKUP(funcs, func);
  if (known == 0 && func != NULL && strcmp(func, "AllToAll") == 0) return CULPRIT_FUNC_ALLTOALL;  // RCCL's spelling.
  return known;
}
uint16_t name_algo(const char *algo) { return LOOKUP(algos, algo); }
uint16_t name_proto(const char *proto) {
  const uint16_t known = LOOKUP(protos, proto);
  if (known == 0 && proto != NULL && strcmp(proto, "Simple") == 0) return CULPRIT_PROTO_SIMPLE;
  return known;
}

// The width in bits is the first number in the name: ncclInt8, ncclBfloat16, ncclFloat8e4m3.
uint16_t name_datatype_bytes(const char *datatype) {
  if (datatype == NULL) return 0;
  const char *digits = strpbrk(datatype, "0123456789");
  if (digits == NULL) return 0;
  switch (*digits) {
    case '8': return 1;
    case '1': return digits[1] == '6' ? 2 : 0;
    case '3': return digits[1] == '2' ? 4 : 0;
    case '6': return digits[1] == '4' ? 8 : 0;
    default: return 0;
  }
}

bool func_has_root(uint16_t func) {
  return func == CULPRIT_FUNC_BROADCAST || func == CULPRIT_FUNC_REDUCE || func == CULPRIT_FUNC_GATHER ||
         func == CULPRIT_FUNC_SCATTER;
}

const char *func_text(uint16_t func) {
  return func < sizeof funcs / sizeof funcs[0] && funcs[func] != NULL ? funcs[func] : funcs[CULPRIT_FUNC_UNKNOWN];
}

bool algo_hides_proxies(uint16_t algo) {
  return algo == CULPRIT_ALGO_COLLNET_DIRECT || algo == CULPRIT_ALGO_COLLNET_CHAIN || algo == CULPRIT_ALGO_NVLS;
}
