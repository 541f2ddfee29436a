// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Checks the small floating-point formats by brute force, and reductions on data that is not aligned. Ends with 1 when one is wrong.

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../reduce.h"
#include "../../smallfloat.h"

static int wrong;

static void expect(bool holds, const char *what, double value) {
  if (holds) return;
  if (wrong++ < 20) printf("%s: %.9g\n", what, value);
}

static uint16_t narrow_e4m3(float f) { return e4m3_from_float(f); }
static uint16_t narrow_e5m2(float f) { return e5m2_from_float(f); }
static float widen_e4m3(uint16_t x) { return e4m3_to_float((uint8_t)x); }
static float widen_e5m2(uint16_t x) { return e5m2_to_float((uint8_t)x); }

static const struct format {
  const char *name;
  unsigned infinity;  // the first positive code that is not a finite number
  bool saturates;
  uint16_t (*narrow)(float);
  float (*widen)(uint16_t);
} formats[] = {{"f16", 0x7c00, false, f16_from_float, f16_to_float},
               {"bf16", 0x7f80, false, bf16_from_float, bf16_to_float},
               {"e4m3", 0x7f, true, narrow_e4m3, widen_e4m3},
               {"e5m2", 0x7c, true, narrow_e5m2, widen_e5m2}};

// Each finite code comes back, and a number between two neighbours becomes the nearer one, the even one in the middle.
static void check_format(const struct format *f) {
  for (unsigned code = 0; code < f->infinity; code++) {
    float low = f->widen((uint16_t)code);
    expect(f->narrow(low) == code, f->name, (double)low);
    if (code + 1 == f->infinity) break;
    float high = f->widen((uint16_t)(code + 1)), middle = low + (high - low) / 2;
    expect(high > low, f->name, (double)high);
    expect(f->narrow(nextafterf(middle, 0)) == code || middle == 0, f->name, (double)middle);
    expect(f->narrow(nextafterf(middle, INFINITY)) == code + 1, f->name, (double)middle);
    expect(f->narrow(middle) == (code % 2 ? code + 1 : code), f->name, (double)middle);
    expect(f->widen(f->narrow(-low)) == -low, f->name, (double)-low);
  }
  float most = f->widen((uint16_t)(f->infinity - 1));
  expect(f->narrow(most * 2) == (f->saturates ? f->infinity - 1 : f->infinity), f->name, (double)most * 2);
  expect(isnan(f->widen(f->narrow(NAN))), f->name, 0);
}

enum { COUNT = 77, SHIFT = 3 };

static void check_integers(enum operation op, uint64_t argument, int64_t want) {
  char a[COUNT * 4 + SHIFT], b[sizeof a], to[sizeof a];
  const struct reduction r = {op, TYPE_U32, argument};
  const int32_t x = -7, y = 5;
  for (size_t i = 0; i < COUNT; i++) {
    memcpy(a + SHIFT + i * 4, &x, 4);
    memcpy(b + SHIFT + i * 4, &y, 4);
  }
  reduction_input(&r, to + SHIFT, a + SHIFT, COUNT);
  reduction_combine(&r, to + SHIFT, b + SHIFT, to + SHIFT, COUNT);
  reduction_result(&r, to + SHIFT, COUNT);
  for (size_t i = 0; i < COUNT; i++) {
    int32_t got;
    memcpy(&got, to + SHIFT + i * 4, 4);
    expect(got == want, "integers", got);
  }
}

int main(void) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) check_format(&formats[i]);
  const uint32_t sign = 0x80000000;
  check_integers(OP_SUM, 0, -2);
  check_integers(OP_PROD, 0, -35);
  check_integers(OP_MIN_MAX, sign, -7);             // the smaller of signed integers
  check_integers(OP_MIN_MAX, (uint32_t)~sign, 5);   // the larger
  check_integers(OP_MIN_MAX, UINT32_MAX, -7);       // the larger of unsigned integers
  check_integers(OP_PRE_MUL_SUM, 3, -21 + 5);
  check_integers(OP_SUM_POST_DIV, 2 << 1 | 1, -1);  // signed, by 2
  check_integers(OP_SUM_POST_DIV, 2 << 1, 0x7fffffff);
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
