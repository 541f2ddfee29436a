// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "event.h"
#include "fault_model.h"
#include "kernel.h"

// How long a held or waiting GPU sleeps before it looks at the abort flag.
#define LOOK_NS (20 * NS_PER_MS)

enum item_kind { ITEM_COMPUTE, ITEM_KERNEL, ITEM_CALL };

struct item {
  enum item_kind kind;
  uint64_t compute_ns;
  struct plan *plan;
  void (*function)(void *);
  void *argument;
  struct item *next;
};

struct gpu {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct item *first, **end;
  uint64_t enqueued, executed;
  bool stopping;
};

static struct {
  int wake_fd;
  atomic_bool sleeping;
} self = {.wake_fd = -1};

void gpu_wake(void) {
  if (!atomic_exchange(&self.sleeping, false)) return;
  uint64_t one = 1;
  ssize_t n = write(self.wake_fd, &one, sizeof one);
  (void)n;
}

static void compute(uint64_t ns) {
  uint64_t end = now_ns() + (uint64_t)((double)ns * fault_compute_factor());
  for (uint64_t now = now_ns(); now < end && !abort_requested(); now = now_ns()) {
    sleep_ns(end - now < LOOK_NS ? end - now : LOOK_NS);
  }
}

// Runs a kernel to its end, or to the abort of the communicator.
static void run_kernel(struct plan *plan) {
  kernel_begin(plan);
  for (;;) {
    // Before looking, so that a change after the look wakes.
    atomic_store(&self.sleeping, true);
    enum kernel_state state = kernel_step(plan);
    if (state == KERNEL_DONE || abort_requested()) break;
    if (state == KERNEL_MOVED) continue;
    if (state == KERNEL_FROZEN) {
      sleep_ns(LOOK_NS);
      continue;
    }
    struct pollfd p = {.fd = self.wake_fd, .events = POLLIN};
    poll(&p, 1, (int)(LOOK_NS / NS_PER_MS));
    uint64_t drained;
    ssize_t n = read(self.wake_fd, &drained, sizeof drained);
    (void)n;
  }
  kernel_end(plan);
}

static void execute(const struct item *item) {
  switch (item->kind) {
    case ITEM_COMPUTE: compute(item->compute_ns); break;
    case ITEM_KERNEL: run_kernel(item->plan); break;
    case ITEM_CALL: item->function(item->argument); break;
  }
}

static void *gpu_main(void *arg) {
  struct gpu *gpu = arg;
  pthread_mutex_lock(&gpu->mutex);
  for (;;) {
    while (!gpu->first && !gpu->stopping) pthread_cond_wait(&gpu->changed, &gpu->mutex);
    // What comes behind a kernel that was torn down would see half a result.
    if (gpu->stopping || abort_requested()) break;
    struct item *item = gpu->first;
    gpu->first = item->next;
    if (!gpu->first) gpu->end = &gpu->first;
    pthread_mutex_unlock(&gpu->mutex);
    execute(item);
    free(item->argument);
    free(item);
    pthread_mutex_lock(&gpu->mutex);
    gpu->executed++;
    if (!gpu->first) pthread_cond_broadcast(&gpu->changed);
  }
  pthread_mutex_unlock(&gpu->mutex);
  return NULL;
}

struct gpu *gpu_new(void) {
  struct gpu *gpu = must_calloc(1, sizeof *gpu);
  gpu->end = &gpu->first;
  pthread_mutex_init(&gpu->mutex, NULL);
  pthread_cond_init(&gpu->changed, NULL);
  self.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (self.wake_fd < 0) die(EXIT_SYSTEM, "eventfd: %s", strerror(errno));
  if (pthread_create(&gpu->thread, NULL, gpu_main, gpu) != 0) die(EXIT_SYSTEM, "starting the GPU thread");
  pthread_setname_np(gpu->thread, "gpu");
  return gpu;
}

void gpu_free(struct gpu *gpu) {
  pthread_mutex_lock(&gpu->mutex);
  gpu->stopping = true;
  pthread_cond_broadcast(&gpu->changed);
  pthread_mutex_unlock(&gpu->mutex);
  pthread_join(gpu->thread, NULL);
  while (gpu->first) {
    struct item *item = gpu->first;
    gpu->first = item->next;
    if (item->plan) plan_release(item->plan);
    free(item->argument);
    free(item);
  }
  close(self.wake_fd);
  pthread_mutex_destroy(&gpu->mutex);
  pthread_cond_destroy(&gpu->changed);
  free(gpu);
}

static void enqueue(struct gpu *gpu, struct item from) {
  struct item *item = must_calloc(1, sizeof *item);
  *item = from;
  pthread_mutex_lock(&gpu->mutex);
  *gpu->end = item;
  gpu->end = &item->next;
  gpu->enqueued++;
  pthread_cond_broadcast(&gpu->changed);
  pthread_mutex_unlock(&gpu->mutex);
}

void gpu_compute(struct gpu *gpu, uint64_t ns) { enqueue(gpu, (struct item){.kind = ITEM_COMPUTE, .compute_ns = ns}); }

void gpu_kernel(struct gpu *gpu, struct plan *plan) { enqueue(gpu, (struct item){.kind = ITEM_KERNEL, .plan = plan}); }

void gpu_call(struct gpu *gpu, void (*function)(void *), void *argument) {
  enqueue(gpu, (struct item){.kind = ITEM_CALL, .function = function, .argument = argument});
}

bool gpu_sync(struct gpu *gpu) {
  pthread_mutex_lock(&gpu->mutex);
  while (gpu->executed < gpu->enqueued && !abort_requested()) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100 * (long)NS_PER_MS;  // An abort does not signal.
    if (until.tv_nsec >= (long)NS_PER_S) {
      until.tv_sec++;
      until.tv_nsec -= (long)NS_PER_S;
    }
    pthread_cond_timedwait(&gpu->changed, &gpu->mutex, &until);
  }
  pthread_mutex_unlock(&gpu->mutex);
  return !abort_requested();
}
