// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// load uses the first GPU it sees: it holds 64 MiB, copies 1 MiB to it and says "ready". Then it computes until it is killed.

#include <stdio.h>
#include <stdlib.h>

#include "../../../fakegpu.h"

enum { HELD = 64 << 20, COPIED = 1 << 20, COMPUTE_MS = 20, TO_HOST = 2, TO_DEVICE = 1 };

static void must(int result, const char *what) {
  if (result == 0) return;
  fprintf(stderr, "%s: error %d\n", what, result);
  exit(1);
}

int main(void) {
  void *memory;
  cudaStream stream;
  static char host[COPIED];
  must(cudaMalloc(&memory, HELD), "allocating");
  must(cudaMemcpy(memory, host, COPIED, TO_DEVICE), "copying to the GPU");
  must(cudaMemcpy(host, memory, COPIED, TO_HOST), "copying from the GPU");
  must(cudaStreamCreate(&stream), "making a stream");
  puts("ready");
  fflush(stdout);
  for (;;) {
    must(fakegpu_compute(stream, COMPUTE_MS), "computing");
    must(cudaStreamSynchronize(stream), "waiting");
  }
}
