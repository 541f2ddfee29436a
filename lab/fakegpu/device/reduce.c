// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "reduce.h"

#include <string.h>

#include "smallfloat.h"

enum { SIGNED_DIVISION = 1 };  // in the argument of a sum with a division after

// Plain loops over whole arrays, which the compiler vectorises. Data need not be aligned to its type's size.
#define ARRAYS(type)                                     \
  typedef type __attribute__((aligned(1), may_alias)) T; \
  T *t = to;                                             \
  const T *x = a, *y = b;

#define LOOP(name, type, result)                                              \
  static void name(void *to, const void *a, const void *b, size_t n) {         \
    ARRAYS(type)                                                              \
    for (size_t i = 0; i < n; i++) t[i] = (type)(result);                     \
  }
#define SUM_AND_PROD(suffix, type)        \
  LOOP(sum_##suffix, type, x[i] + y[i])   \
  LOOP(prod_##suffix, type, x[i] * y[i])
#define MIN_AND_MAX(suffix, type)                       \
  LOOP(min_##suffix, type, x[i] < y[i] ? x[i] : y[i])   \
  LOOP(max_##suffix, type, x[i] > y[i] ? x[i] : y[i])
#define SMALL(suffix, type, narrow, widen)                                                          \
  LOOP(sum_##suffix, type, narrow(widen(x[i]) + widen(y[i])))                                       \
  LOOP(prod_##suffix, type, narrow(widen(x[i]) * widen(y[i])))                                      \
  LOOP(min_##suffix, type, widen(x[i]) < widen(y[i]) ? x[i] : y[i])                                 \
  LOOP(max_##suffix, type, widen(x[i]) > widen(y[i]) ? x[i] : y[i])                                 \
  static void scale_##suffix(void *to, const void *a, uint64_t factor, size_t n) {                  \
    const void *b = a;                                                                              \
    ARRAYS(type)                                                                                    \
    (void)y;                                                                                        \
    float f = widen((type)factor);                                                                  \
    for (size_t i = 0; i < n; i++) t[i] = narrow(widen(x[i]) * f);                                  \
  }

SUM_AND_PROD(u8, uint8_t)
SUM_AND_PROD(u32, uint32_t)
SUM_AND_PROD(u64, uint64_t)
SUM_AND_PROD(f32, float)
SUM_AND_PROD(f64, double)
MIN_AND_MAX(f32, float)
MIN_AND_MAX(f64, double)
SMALL(f16, uint16_t, f16_from_float, f16_to_float)
SMALL(bf16, uint16_t, bf16_from_float, bf16_to_float)

// fp8 is computed in f16 and rounded again.
static uint8_t e4m3_by_f16(float f) { return e4m3_from_float(f16_to_float(f16_from_float(f))); }
static uint8_t e5m2_by_f16(float f) { return e5m2_from_float(f16_to_float(f16_from_float(f))); }
SMALL(e4m3, uint8_t, e4m3_by_f16, e4m3_to_float)
SMALL(e5m2, uint8_t, e5m2_by_f16, e5m2_to_float)

// Minimum and maximum of integers, signed or not: the mask turns the order into that of the smallest unsigned number.
#define MASKED(suffix, type)                                                                              \
  static void masked_##suffix(void *to, const void *a, const void *b, uint64_t mask, size_t n) {           \
    ARRAYS(type)                                                                                          \
    const type m = (type)mask;                                                                            \
    for (size_t i = 0; i < n; i++) t[i] = (type)(x[i] ^ m) < (type)(y[i] ^ m) ? x[i] : y[i];              \
  }
MASKED(u8, uint8_t)
MASKED(u32, uint32_t)
MASKED(u64, uint64_t)

#define SCALE(suffix, type)                                                          \
  static void scale_##suffix(void *to, const void *a, uint64_t factor, size_t n) {   \
    const void *b = a;                                                               \
    ARRAYS(type)                                                                     \
    (void)y;                                                                         \
    type f;                                                                          \
    memcpy(&f, &factor, sizeof f);                                                   \
    for (size_t i = 0; i < n; i++) t[i] = (type)(x[i] * f);                          \
  }
SCALE(u8, uint8_t)
SCALE(u32, uint32_t)
SCALE(u64, uint64_t)
SCALE(f32, float)
SCALE(f64, double)

#define DIVIDE(suffix, type, signed_type)                                                                     \
  static void divide_##suffix(void *data, uint64_t argument, size_t n) {                                      \
    const void *a = data, *b = data;                                                                          \
    void *to = data;                                                                                          \
    ARRAYS(type)                                                                                              \
    (void)y;                                                                                                  \
    const type by = (type)(argument >> 1);                                                                    \
    if (!by) return;                                                                                          \
    if (argument & SIGNED_DIVISION) {                                                                         \
      for (size_t i = 0; i < n; i++) t[i] = (type)((signed_type)x[i] / (signed_type)by);                      \
    } else {                                                                                                  \
      for (size_t i = 0; i < n; i++) t[i] = (type)(x[i] / by);                                                \
    }                                                                                                         \
  }
DIVIDE(u8, uint8_t, int8_t)
DIVIDE(u32, uint32_t, int32_t)
DIVIDE(u64, uint64_t, int64_t)

typedef void combine(void *to, const void *a, const void *b, size_t n);

static const struct arithmetic {
  size_t size;
  combine *sum, *prod, *min, *max;
  void (*masked)(void *to, const void *a, const void *b, uint64_t mask, size_t n);
  void (*scale)(void *to, const void *a, uint64_t factor, size_t n);
  void (*divide)(void *data, uint64_t argument, size_t n);
} arithmetic[TYPE_COUNT] = {
#define INTEGER(suffix, bytes) {bytes, sum_##suffix, prod_##suffix, NULL, NULL, masked_##suffix, scale_##suffix, divide_##suffix}
#define FLOATING(suffix, bytes) {bytes, sum_##suffix, prod_##suffix, min_##suffix, max_##suffix, NULL, scale_##suffix, NULL}
    [TYPE_I8] = INTEGER(u8, 1),       [TYPE_U8] = INTEGER(u8, 1),       [TYPE_I32] = INTEGER(u32, 4),    [TYPE_U32] = INTEGER(u32, 4),
    [TYPE_I64] = INTEGER(u64, 8),     [TYPE_U64] = INTEGER(u64, 8),     [TYPE_F16] = FLOATING(f16, 2),   [TYPE_F32] = FLOATING(f32, 4),
    [TYPE_F64] = FLOATING(f64, 8),    [TYPE_BF16] = FLOATING(bf16, 2),  [TYPE_F8E4M3] = FLOATING(e4m3, 1), [TYPE_F8E5M2] = FLOATING(e5m2, 1),
};

size_t type_size(enum type type) { return arithmetic[type].size; }
bool reduction_changes_input(const struct reduction *r) { return r->op == OP_PRE_MUL_SUM; }
bool reduction_changes_result(const struct reduction *r) { return r->op == OP_SUM_POST_DIV && arithmetic[r->type].divide; }

void reduction_input(const struct reduction *r, void *to, const void *from, size_t n) {
  const struct arithmetic *a = &arithmetic[r->type];
  if (r->op == OP_PRE_MUL_SUM) a->scale(to, from, r->argument, n);
  else if (to != from) memcpy(to, from, n * a->size);
}

void reduction_combine(const struct reduction *r, void *to, const void *x, const void *y, size_t n) {
  const struct arithmetic *a = &arithmetic[r->type];
  switch (r->op) {
    case OP_PROD:
      a->prod(to, x, y, n);
      break;
    case OP_MIN_MAX:
      if (a->masked) a->masked(to, x, y, r->argument, n);
      else if (r->argument & 1) a->max(to, x, y, n);
      else a->min(to, x, y, n);
      break;
    default:
      a->sum(to, x, y, n);
  }
}

void reduction_result(const struct reduction *r, void *data, size_t n) {
  if (reduction_changes_result(r)) arithmetic[r->type].divide(data, r->argument, n);
}
