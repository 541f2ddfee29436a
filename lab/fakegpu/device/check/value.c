// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "value.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../smallfloat.h"

static const char *const type_names[DATA_TYPES] = {"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
static const char *const kind_names[KINDS] = {"sum", "prod", "max", "min", "avg", "premul"};
static const size_t sizes[DATA_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

size_t value_size(enum data_type type) { return sizes[type]; }

static int find(const char *const *names, int count, const char *name) {
  for (int i = 0; i < count; i++) {
    if (!strcmp(names[i], name)) return i;
  }
  return -1;
}

int value_type(const char *name) { return find(type_names, DATA_TYPES, name); }
int value_kind(const char *name) { return find(kind_names, KINDS, name); }

static bool is_integer(enum data_type type) { return type <= U64; }

// Spreads over the range without a period that a chunk's size could hide.
static int64_t number(enum data_type type, enum reduction_kind kind, int rank, size_t i, int round) {
  static const int64_t factors[] = {1, 2, -1, 1};
  uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(rank + 1) * UINT64_C(0xc2b2ae3d27d4eb4f) ^ (uint64_t)(round + 1) * UINT64_C(0x165667b19e3779f9);
  x ^= x >> 32;
  x *= UINT64_C(0xd6e8feb86659fd93);
  x ^= x >> 32;
  if (kind == PROD) return factors[x % 4];
  if (sizes[type] == 1 && !is_integer(type)) return (int64_t)(x % 3) - 1;
  return (int64_t)(x % 9) - 4;
}

static double decode(const void *p, enum data_type type) {
  union {
    uint8_t u8;
    uint16_t u16;
    float f32;
    double f64;
  } v;
  memcpy(&v, p, sizes[type]);
  switch (type) {
    case F16:
      return (double)f16_to_float(v.u16);
    case BF16:
      return (double)bf16_to_float(v.u16);
    case F8E4M3:
      return (double)e4m3_to_float(v.u8);
    case F8E5M2:
      return (double)e5m2_to_float(v.u8);
    case F32:
      return (double)v.f32;
    default:
      return v.f64;
  }
}

void value_number(void *to, enum data_type type, double n) {
  union {
    int64_t i;
    uint16_t u16;
    uint8_t u8;
    float f32;
    double f64;
  } v = {0};
  switch (type) {
    case F16:
      v.u16 = f16_from_float((float)n);
      break;
    case BF16:
      v.u16 = bf16_from_float((float)n);
      break;
    case F8E4M3:
      v.u8 = e4m3_from_float((float)n);
      break;
    case F8E5M2:
      v.u8 = e5m2_from_float((float)n);
      break;
    case F32:
      v.f32 = (float)n;
      break;
    case F64:
      v.f64 = n;
      break;
    default:
      v.i = (int64_t)n;
  }
  memcpy(to, &v, sizes[type]);
}

void value_put(void *buffer, size_t at, enum data_type type, enum reduction_kind kind, int rank, size_t i, int round) {
  int64_t n = number(type, kind, rank, i, round);
  char *to = (char *)buffer + at * sizes[type];
  if (is_integer(type)) memcpy(to, &n, sizes[type]);
  else value_number(to, type, (double)n);
}

// An integer as its type keeps it.
static int64_t wrapped(enum data_type type, int64_t n) {
  switch (type) {
    case I8:
      return (int8_t)n;
    case U8:
      return (uint8_t)n;
    case I32:
      return (int32_t)n;
    case U32:
      return (uint32_t)n;
    default:
      return n;
  }
}

static bool less(enum data_type type, int64_t a, int64_t b) { return type == U64 ? (uint64_t)a < (uint64_t)b : a < b; }

static int64_t combine(enum data_type type, enum reduction_kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case PROD:
      return a * b;
    case MAX:
      return less(type, a, b) ? b : a;
    case MIN:
      return less(type, a, b) ? a : b;
    default:
      return a + b;
  }
}

static int64_t divide(enum data_type type, int64_t sum, int by) {
  return type == U64 ? (int64_t)((uint64_t)sum / (uint64_t)by) : sum / by;
}

static bool integer_is(const char *got, enum data_type type, enum reduction_kind kind, int from, int to, size_t i, int round) {
  int64_t want = 0;
  for (int r = from; r < to; r++) {
    int64_t n = wrapped(type, number(type, kind, r, i, round) * (kind == PRE_MUL ? 2 : 1));
    want = r == from ? n : wrapped(type, combine(type, kind, want, n));
  }
  if (kind == AVG) want = divide(type, want, to - from);
  return !memcmp(got, &want, sizes[type]);
}

bool value_is(const void *buffer, size_t at, enum data_type type, enum reduction_kind kind, int from, int to, size_t i, int round) {
  const char *got = (const char *)buffer + at * sizes[type];
  if (is_integer(type)) return integer_is(got, type, kind, from, to, i, round);
  static const double steps[DATA_TYPES] = {[F16] = 1.0 / 1024, [F32] = 1.0 / (1 << 23), [F64] = 1.0 / (1 << 30), [BF16] = 1.0 / 128, [F8E4M3] = 1.0 / 8, [F8E5M2] = 1.0 / 4};
  double want = 0, reach = 0, g = decode(got, type);
  for (int r = from; r < to; r++) {
    int64_t n = number(type, kind, r, i, round) * (kind == PRE_MUL ? 2 : 1);
    want = r == from ? (double)n : (double)combine(type, kind, (int64_t)want, n);
    reach += fabs((double)n);
  }
  if (kind != AVG) return g == want;
  // The factor 1/n and each sum are rounded.
  return fabs(g - want / (to - from)) <= steps[type] * 2 * (reach / (to - from));
}
