// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Copies and sets of memory, in streams.

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cudart.h"
#include "memory.h"
#include "state.h"
#include "stream.h"

struct copy {
  void *to, *staged;
  const void *from;
  size_t size;
  int value;
};

static int run_copy(void *arg) {
  struct copy *c = arg;
  if (c->from) memmove(c->to, c->from, c->size);
  else memset(c->to, c->value, c->size);
  return CUDA_OK;
}

static void release_copy(void *arg) {
  struct copy *c = arg;
  free(c->staged);
  free(c);
}

static bool on_gpu(enum memory kind) { return kind == MEMORY_DEVICE || kind == MEMORY_IMPORTED; }

static void count_pcie(struct stream *handle, enum memory to, enum memory from, size_t size) {
  struct fakegpu_state *state = state_of(stream_gpu(stream_of(handle)));
  if (on_gpu(to) && !on_gpu(from)) __atomic_fetch_add(&state->pcie_in_bytes, size, __ATOMIC_RELAXED);
  if (!on_gpu(to) && on_gpu(from)) __atomic_fetch_add(&state->pcie_out_bytes, size, __ATOMIC_RELAXED);
}

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, struct stream *s) {
  (void)kind;
  struct copy *c = calloc(1, sizeof *c);
  if (!c) return CUDA_OUT_OF_MEMORY;
  enum memory source = memory_of(from).kind;
  if (source == MEMORY_NONE && !stream_capture(stream_of(s))) {  // pageable memory is read before the call returns
    c->staged = malloc(size + 1);
    if (!c->staged) return free(c), CUDA_OUT_OF_MEMORY;
    from = memcpy(c->staged, from, size);
  }
  count_pcie(s, memory_of(to).kind, source, size);
  c->to = to, c->from = from, c->size = size;
  return stream_submit(s, (struct op){run_copy, release_copy, c});
}

int cudaMemsetAsync(void *to, int value, size_t size, struct stream *s) {
  struct copy *c = calloc(1, sizeof *c);
  if (!c) return CUDA_OUT_OF_MEMORY;
  c->to = to, c->value = value, c->size = size;
  return stream_submit(s, (struct op){run_copy, release_copy, c});
}

int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
  int error = cudaMemcpyAsync(to, from, size, kind, NULL);
  return error ? error : stream_synchronize(NULL);
}

int cudaMemset(void *to, int value, size_t size) {
  int error = cudaMemsetAsync(to, value, size, NULL);
  return error ? error : stream_synchronize(NULL);
}
