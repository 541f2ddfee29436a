// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What code that is compiled by nvcc calls when it is loaded: it registers its kernels. Kernels are known by their symbols here.

int __cudaRegisterFunction(void) { return 0; }
void __cudaRegisterVar(void) {}
void __cudaRegisterFatBinaryEnd(void) {}
void __cudaUnregisterFatBinary(void) {}
char __cudaInitModule(void) { return 1; }

void **__cudaRegisterFatBinary(const void *binary) {
  static void *handle;
  (void)binary;
  return &handle;
}
