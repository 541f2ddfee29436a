// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control.h"
#include "cudart.h"
#include "node.h"
#include "runtime.h"
#include "state.h"
#include "stream.h"

enum { PAGE = 4096 };

static struct item {
  struct item *next;
  struct memory_range range;
} *items;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void memory_add(void *base, size_t size, enum memory kind) {
  struct item *item = malloc(sizeof *item);
  if (!item) abort();
  item->range = (struct memory_range){base, size, kind, runtime_device(), -1};
  pthread_mutex_lock(&lock);
  item->next = items;
  items = item;
  pthread_mutex_unlock(&lock);
}

struct memory_range memory_forget(void *base) {
  struct memory_range range = {0};
  pthread_mutex_lock(&lock);
  for (struct item **at = &items; *at; at = &(*at)->next) {
    if ((*at)->range.base != base) continue;
    struct item *gone = *at;
    range = gone->range;
    *at = gone->next;
    free(gone);
    break;
  }
  pthread_mutex_unlock(&lock);
  return range;
}

struct memory_range memory_of(const void *address) {
  struct memory_range range = {0};
  const char *p = address;
  pthread_mutex_lock(&lock);
  for (struct item *item = items; item; item = item->next) {
    if (p < item->range.base || p >= item->range.base + item->range.size) continue;
    range = item->range;
    break;
  }
  pthread_mutex_unlock(&lock);
  return range;
}

// Moves the content into a file in memory, mapped at the same addresses.
static int share(struct memory_range *range) {
  int fd = memfd_create("fakegpu", MFD_CLOEXEC);
  bool ok = fd >= 0;
  for (size_t done = 0; ok && done < range->size;) {
    ssize_t n = write(fd, range->base + done, range->size - done);
    ok = n > 0;
    done += ok ? (size_t)n : 0;
  }
  ok = ok && mmap(range->base, range->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
  if (ok) range->fd = fd;
  else if (fd >= 0) close(fd);
  return ok ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

int memory_share(void *address, struct memory_range *range) {
  int error = CUDA_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  for (struct item *item = items; item; item = item->next) {
    char *p = address;
    if (item->range.kind != MEMORY_DEVICE || p < item->range.base || p >= item->range.base + item->range.size) continue;
    error = item->range.fd < 0 ? share(&item->range) : CUDA_OK;
    *range = item->range;
    break;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

static int take(void **p, size_t size, enum memory kind) {
  *p = NULL;
  if (size == 0) return CUDA_OK;
  if (control_lost(node_gpu_of_device(runtime_device()))) return CUDA_DEVICES_UNAVAILABLE;
  size = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
  void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return CUDA_OUT_OF_MEMORY;
  memory_add(base, size, kind);
  if (kind == MEMORY_DEVICE) state_add_memory(node_gpu_of_device(runtime_device()), (int64_t)size);
  return *p = base, CUDA_OK;
}

static int give(void *p) {
  if (!p) return CUDA_OK;
  enum memory kind = memory_of(p).kind;
  if (kind != MEMORY_DEVICE && kind != MEMORY_PINNED) return CUDA_INVALID_VALUE;
  struct memory_range range = memory_forget(p);
  if (range.kind == MEMORY_NONE) return CUDA_INVALID_VALUE;
  if (range.kind == MEMORY_DEVICE) state_add_memory(node_gpu_of_device(range.device), -(int64_t)range.size);
  munmap(range.base, range.size);
  if (range.fd >= 0) close(range.fd);
  return CUDA_OK;
}

static int run_give(void *p) { return give(p); }

int cudaMalloc(void **p, size_t n) { return take(p, n, MEMORY_DEVICE); }
int cudaFree(void *p) {
  struct memory_range range = memory_of(p);
  if (range.kind == MEMORY_DEVICE) stream_synchronize_device(range.device);
  return give(p);
}
int cudaHostAlloc(void **p, size_t n, unsigned flags) { return (void)flags, take(p, n, MEMORY_PINNED); }
int cudaMallocHost(void **p, size_t n) { return take(p, n, MEMORY_PINNED); }
int cudaFreeHost(void *p) { return give(p); }
int cudaHostRegister(void *p, size_t n, unsigned flags) {
  (void)flags;
  if (memory_of(p).kind != MEMORY_NONE) return CUDA_HOST_MEMORY_ALREADY_REGISTERED;
  memory_add(p, n, MEMORY_REGISTERED);
  return CUDA_OK;
}
int cudaHostUnregister(void *p) { return memory_of(p).kind != MEMORY_REGISTERED || memory_forget(p).kind == MEMORY_NONE ? CUDA_HOST_MEMORY_NOT_REGISTERED : CUDA_OK; }
int cudaHostGetDevicePointer(void **device, void *host, unsigned flags) { return (void)flags, *device = host, CUDA_OK; }
int cudaMallocAsync(void **p, size_t n, struct stream *s) { return (void)s, take(p, n, MEMORY_DEVICE); }
int cudaMallocFromPoolAsync(void **p, size_t n, void *pool, struct stream *s) { return (void)pool, cudaMallocAsync(p, n, s); }
int cudaFreeAsync(void *p, struct stream *s) {
  if (stream_capture(stream_of(s))) return CUDA_CAPTURE_UNSUPPORTED;  // memory of graphs is not played
  return stream_submit(s, (struct op){run_give, NULL, p});
}
int cudaMemPoolCreate(void **pool, const void *properties) { return (void)properties, *pool = malloc(1), CUDA_OK; }
int cudaMemPoolDestroy(void *pool) { return free(pool), CUDA_OK; }
int cudaMemPoolSetAttribute(void *pool, int attribute, void *value) { return (void)pool, (void)attribute, (void)value, CUDA_OK; }

struct pointer_attributes {
  int type, device;
  void *device_pointer, *host_pointer;
};

int cudaPointerGetAttributes(struct pointer_attributes *a, const void *p) {
  struct memory_range range = memory_of(p);
  static const int types[] = {[MEMORY_NONE] = 0, [MEMORY_PINNED] = 1, [MEMORY_REGISTERED] = 1, [MEMORY_DEVICE] = 2, [MEMORY_IMPORTED] = 2};
  a->type = types[range.kind];
  a->device = range.device;
  a->device_pointer = a->host_pointer = (void *)(uintptr_t)p;
  return CUDA_OK;
}
