// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Floating-point numbers of 8 and 16 bits: f16 (IEEE 754 binary16), bf16, and the fp8 formats E4M3 and E5M2 of the Open Compute
// Project. Conversions to them round to the nearest, ties to even; to fp8 they saturate at the largest number.

#ifndef FAKEGPU_DEVICE_SMALLFLOAT_H
#define FAKEGPU_DEVICE_SMALLFLOAT_H

#include <stdint.h>

float f16_to_float(uint16_t x);
uint16_t f16_from_float(float f);
float bf16_to_float(uint16_t x);
uint16_t bf16_from_float(float f);
float e4m3_to_float(uint8_t x);
uint8_t e4m3_from_float(float f);
float e5m2_to_float(uint8_t x);
uint8_t e5m2_from_float(float f);

#endif
