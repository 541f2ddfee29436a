// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "../control.h"

struct gpu {
  char unused;  // A handle is an address; everything is in the host's files.
};

static struct gpu handles[NODE_GPUS_MAX];

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static int users;  // nvmlInit less nvmlShutdown.

int gpu_init(void) {
  pthread_mutex_lock(&init_lock);
  users++;
  pthread_mutex_unlock(&init_lock);
  return NVML_OK;
}

int gpu_shutdown(void) {
  pthread_mutex_lock(&init_lock);
  int result = users > 0 ? NVML_OK : NVML_UNINITIALIZED;
  if (users > 0) users--;
  pthread_mutex_unlock(&init_lock);
  return result;
}

int gpu_ready(void) {
  pthread_mutex_lock(&init_lock);
  int result = users > 0 ? NVML_OK : NVML_UNINITIALIZED;
  pthread_mutex_unlock(&init_lock);
  return result;
}

int gpu_count(void) { return node_gpus(); }

struct gpu *gpu_at(int index) {
  return index >= 0 && index < gpu_count() ? &handles[index] : NULL;
}

int gpu_index(const struct gpu *gpu) {
  return gpu >= handles && gpu < handles + gpu_count() ? (int)(gpu - handles) : -1;
}

int gpu_check(const struct gpu *gpu) {
  int result = gpu_ready();
  if (result != NVML_OK) return result;
  int index = gpu_index(gpu);
  if (index < 0) return NVML_INVALID_ARGUMENT;
  while (control_number(index, "nvml.hang", 0) != 0) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  return control_lost(index) ? NVML_GPU_IS_LOST : NVML_OK;
}

int gpu_read(const struct gpu *gpu, struct reading *r) {
  int result = gpu_check(gpu);
  if (result == NVML_OK) reading_take(gpu_index(gpu), r);
  return result;
}

int copy_text(char *out, unsigned size, const char *text) {
  if (!out) return NVML_INVALID_ARGUMENT;
  size_t length = strlen(text) + 1;
  if (length > size) return NVML_INSUFFICIENT_SIZE;
  memcpy(out, text, length);
  return NVML_OK;
}
