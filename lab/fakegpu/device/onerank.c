// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "onerank.h"

#include <stdint.h>
#include <string.h>

#include "../cudart.h"
#include "reduce.h"

struct parameters {
  char *to;
  const char *from;
  size_t count;
  uint64_t argument;
  bool argument_is_address;
};

bool onerank_is(const char *name) { return strstr(name, "oneRankReduce"); }

size_t onerank_pack(void *const *parameters, void *args, size_t size) {
  struct parameters p = {0};
  if (size < sizeof p) return 0;
  memcpy(&p.to, parameters[0], sizeof p.to);
  memcpy(&p.from, parameters[1], sizeof p.from);
  memcpy(&p.count, parameters[2], sizeof p.count);
  memcpy(&p.argument, parameters[3], sizeof p.argument);
  memcpy(&p.argument_is_address, parameters[4], sizeof p.argument_is_address);
  memcpy(args, &p, sizeof p);
  return sizeof p;
}

// The type is the template's argument in the mangled name.
static bool type_in(const char *name, enum type *type) {
  static const struct {
    const char *mangled;
    enum type type;
  } types[] = {{"aE", TYPE_I8},      {"hE", TYPE_U8},      {"iE", TYPE_I32},           {"jE", TYPE_U32},
               {"lE", TYPE_I64},     {"mE", TYPE_U64},     {"fE", TYPE_F32},           {"dE", TYPE_F64},
               {"6__half", TYPE_F16}, {"13__nv_bfloat16", TYPE_BF16}, {"13__nv_fp8_e4m3", TYPE_F8E4M3}, {"13__nv_fp8_e5m2", TYPE_F8E5M2}};
  static const char before[] = "FuncPreMulSumI";
  const char *at = strstr(name, before);
  for (size_t i = 0; at && i < sizeof types / sizeof *types; i++) {
    *type = types[i].type;
    if (!strncmp(at + sizeof before - 1, types[i].mangled, strlen(types[i].mangled))) return true;
  }
  return false;
}

int onerank_run(const char *name, const void *args, size_t size) {
  struct parameters p;
  struct reduction r = {.op = OP_PRE_MUL_SUM};
  if (size < sizeof p || !type_in(name, &r.type)) return CUDA_NOT_SUPPORTED;
  memcpy(&p, args, sizeof p);
  r.argument = p.argument;
  if (p.argument_is_address) {
    r.argument = 0;
    memcpy(&r.argument, (const void *)(uintptr_t)p.argument, type_size(r.type));
  }
  reduction_input(&r, p.to, p.from, p.count);
  return CUDA_OK;
}
