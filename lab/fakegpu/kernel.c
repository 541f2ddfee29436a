// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernel.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "busy.h"
#include "control.h"
#include "cudart.h"
#include "device/device.h"
#include "fakegpu.h"
#include "stream.h"

enum { LOOK_MS = 5 };

static void sleep_ms(double ms) {
  struct timespec t = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
  nanosleep(&t, NULL);
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Kernels do not start while the GPU is held.
static int wait_start(int gpu) {
  while (control_held(gpu) && !control_lost(gpu)) sleep_ms(LOOK_MS);
  return control_lost(gpu) ? CUDA_DEVICES_UNAVAILABLE : CUDA_OK;
}

struct launch {
  int gpu;
  const void *function;
  size_t size;
  char args[];
};

static int run_launch(void *arg) {
  struct launch *l = arg;
  int error = wait_start(l->gpu);
  if (error) return error;
  busy_begin(l->gpu);
  error = device_kernel(l->gpu, l->function, l->args, l->size);
  busy_end(l->gpu);
  return error;
}

int kernel_launch(struct stream *stream, const void *function, void **extra) {
  const void *args = NULL;
  size_t size = 0;
  for (; extra && *extra; extra += 2) {
    if ((uintptr_t)extra[0] == 1) args = extra[1];
    if ((uintptr_t)extra[0] == 2) memcpy(&size, extra[1], sizeof size);
  }
  if (!args) return CUDA_INVALID_VALUE;
  struct launch *l = malloc(sizeof *l + size);
  if (!l) return CUDA_OUT_OF_MEMORY;
  l->gpu = stream_gpu(stream_of(stream));
  l->function = function;
  l->size = size;
  memcpy(l->args, args, size);
  return stream_submit(stream, (struct op){run_launch, free, l});
}

struct compute {
  int gpu;
  double ms;
};

// The work left shrinks by the time that passed, as fast as the GPU is then.
static int run_compute(void *arg) {
  struct compute *c = arg;
  int error = wait_start(c->gpu);
  double left = c->ms;
  busy_begin(c->gpu);
  while (!error && left > 0) {
    double speed = control_speed(c->gpu), part = left / speed < LOOK_MS ? left / speed : LOOK_MS;
    uint64_t begin = now();
    sleep_ms(part);
    if (!control_frozen(c->gpu)) left -= (double)(now() - begin) / 1e6 * speed;
    if (control_lost(c->gpu)) error = CUDA_DEVICES_UNAVAILABLE;
  }
  busy_end(c->gpu);
  return error;
}

int fakegpu_compute(struct stream *stream, double ms) {
  struct compute *c = malloc(sizeof *c);
  if (!c) return CUDA_OUT_OF_MEMORY;
  *c = (struct compute){stream_gpu(stream_of(stream)), ms};
  return stream_submit(stream, (struct op){run_compute, free, c});
}
