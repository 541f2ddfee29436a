// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "smallfloat.h"

#include <string.h>

static uint32_t bits_of(float f) {
  uint32_t x;
  memcpy(&x, &f, sizeof x);
  return x;
}

static float float_of(uint32_t x) {
  float f;
  memcpy(&f, &x, sizeof f);
  return f;
}

enum { FLOAT_MANTISSA = 23, FLOAT_BIAS = 127 };

// The magnitude of a format with the given number of mantissa bits and exponent bias, whose highest exponent is an ordinary one.
// Multiplying by a power of two moves the exponent, for subnormal numbers too.
static inline float widen(uint32_t magnitude, unsigned mantissa, int bias) {
  return float_of(magnitude << (FLOAT_MANTISSA - mantissa)) * float_of((uint32_t)(2 * FLOAT_BIAS - bias) << FLOAT_MANTISSA);
}

// The other way: f is not negative, the result may exceed the format.
static inline uint32_t narrow(float f, unsigned mantissa, int bias) {
  float smallest = float_of((uint32_t)(FLOAT_BIAS - bias + 1) << FLOAT_MANTISSA);
  if (f < smallest) {  // the addition leaves the rounded multiple of the format's least step in the lowest bits
    float magic = float_of((uint32_t)(FLOAT_BIAS - bias + 1 + FLOAT_MANTISSA - (int)mantissa) << FLOAT_MANTISSA);
    return bits_of(f + magic) - bits_of(magic);
  }
  uint32_t x = bits_of(f) - ((uint32_t)(FLOAT_BIAS - bias) << FLOAT_MANTISSA);
  uint32_t drop = FLOAT_MANTISSA - mantissa, odd = x >> drop & 1;
  return (x + (1u << (drop - 1)) - 1 + odd) >> drop;
}

static inline float signed_as(float magnitude, uint32_t negative) { return negative ? -magnitude : magnitude; }

float f16_to_float(uint16_t x) {
  uint32_t magnitude = x & 0x7fff;
  if (magnitude >= 0x7c00) return signed_as(float_of(0x7f800000 | (magnitude & 0x3ff) << 13), x & 0x8000);
  return signed_as(widen(magnitude, 10, 15), x & 0x8000);
}

uint16_t f16_from_float(float f) {
  uint32_t sign = bits_of(f) >> 16 & 0x8000, magnitude = bits_of(f) & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7fff);
  uint32_t x = magnitude >= 0x47800000 ? 0x7c00 : narrow(float_of(magnitude), 10, 15);
  return (uint16_t)(sign | (x > 0x7c00 ? 0x7c00 : x));
}

float bf16_to_float(uint16_t x) { return float_of((uint32_t)x << 16); }

uint16_t bf16_from_float(float f) {
  uint32_t x = bits_of(f);
  if ((x & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

enum { E4M3_NAN = 0x7f, E4M3_MAX = 0x7e, E5M2_NAN = 0x7f, E5M2_MAX = 0x7b };

float e4m3_to_float(uint8_t x) {
  uint32_t magnitude = x & 0x7f;
  if (magnitude == E4M3_NAN) return float_of(0x7fc00000);
  return signed_as(widen(magnitude, 3, 7), x & 0x80);
}

uint8_t e4m3_from_float(float f) {
  uint32_t sign = bits_of(f) >> 24 & 0x80, magnitude = bits_of(f) & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint8_t)(sign | E4M3_NAN);
  uint32_t x = float_of(magnitude) >= 512.0f ? E4M3_MAX : narrow(float_of(magnitude), 3, 7);
  return (uint8_t)(sign | (x > E4M3_MAX ? E4M3_MAX : x));
}

float e5m2_to_float(uint8_t x) { return f16_to_float((uint16_t)(x << 8)); }

uint8_t e5m2_from_float(float f) {
  uint32_t sign = bits_of(f) >> 24 & 0x80, magnitude = bits_of(f) & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint8_t)(sign | E5M2_NAN);
  uint32_t x = float_of(magnitude) >= 65536.0f ? E5M2_MAX : narrow(float_of(magnitude), 2, 15);
  return (uint8_t)(sign | (x > E5M2_MAX ? E5M2_MAX : x));
}
