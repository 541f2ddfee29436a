// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The transport is NCCL's object ncclNetSocket, a table of functions. Its entries for connect, send and receive are replaced, and
// the library's imports of socket and send. A socket made while the transport connects is one that data leaves on, whichever thread
// sends on it later; bootstrap, control and RAS connections are made elsewhere and stay whole.

#include "link.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "divert.h"
#include "node.h"
#include "runtime.h"
#include "symbols.h"

enum { DESCRIPTORS = 65536, NO_DATA = -1 };

// Functions of the table take at most eight arguments, all of them integers or pointers.
typedef int net_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
#define PARAMETERS uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g, uintptr_t h
#define ARGUMENTS a, b, c, d, e, f, g, h

static net_function *real_connect, *real_isend, *real_irecv;

// The GPU whose data leaves on a descriptor, plus 1; 0: no data.
static int8_t gpu_of_descriptor[DESCRIPTORS];
static __thread bool connecting;

static struct {
  pthread_mutex_t lock;
  double allowed, at;  // bytes; monotonic seconds
} budgets[NODE_GPUS_MAX] = {[0 ... NODE_GPUS_MAX - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// How many of n bytes may leave now at this rate, in bytes a second.
static size_t allowed(int gpu, size_t n, double rate) {
  pthread_mutex_lock(&budgets[gpu].lock);
  double t = now(), passed = t - budgets[gpu].at;
  budgets[gpu].at = t;
  if (passed > 0.1) passed = 0.1;  // a pause saves up no more than this
  budgets[gpu].allowed += passed * rate;
  if (budgets[gpu].allowed > rate / 10 + 1) budgets[gpu].allowed = rate / 10 + 1;
  if ((double)n > budgets[gpu].allowed) n = (size_t)budgets[gpu].allowed;
  budgets[gpu].allowed -= (double)n;
  pthread_mutex_unlock(&budgets[gpu].lock);
  return n;
}

static int link_socket(int domain, int type, int protocol) {
  int fd = socket(domain, type, protocol);
  if (fd >= 0 && fd < DESCRIPTORS) {
    int8_t gpu = connecting ? (int8_t)(node_gpu_of_device(runtime_device()) + 1) : 0;
    __atomic_store_n(&gpu_of_descriptor[fd], gpu, __ATOMIC_RELAXED);
  }
  return fd;
}

static int link_accept(int listener, struct sockaddr *address, socklen_t *length) {
  int fd = accept(listener, address, length);
  if (fd >= 0 && fd < DESCRIPTORS) __atomic_store_n(&gpu_of_descriptor[fd], 0, __ATOMIC_RELAXED);
  return fd;
}

static ssize_t link_send(int fd, const void *data, size_t n, int flags) {
  int gpu = fd >= 0 && fd < DESCRIPTORS ? __atomic_load_n(&gpu_of_descriptor[fd], __ATOMIC_RELAXED) - 1 : NO_DATA;
  if (gpu == NO_DATA || !(flags & MSG_DONTWAIT)) return send(fd, data, n, flags);
  if (control_link_stalled(gpu)) return errno = EAGAIN, -1;
  double rate = control_link_rate(gpu);
  if (rate > 0 && n > 0 && (n = allowed(gpu, n, rate)) == 0) return errno = EAGAIN, -1;
  return send(fd, data, n, flags);
}

static int net_connect(PARAMETERS) {
  connecting = true;
  int result = real_connect(ARGUMENTS);
  connecting = false;
  return result;
}

// In NCCL's progress thread, before each transfer.
static void delay(void) {
  double ms = control_proxy_delay(node_gpu_of_device(runtime_device()));
  struct timespec t = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
  if (ms > 0) nanosleep(&t, NULL);
}

static int net_isend(PARAMETERS) { return delay(), real_isend(ARGUMENTS); }
static int net_irecv(PARAMETERS) { return delay(), real_irecv(ARGUMENTS); }

static bool replace(void **table, size_t count, const char *function, net_function **real, net_function *by) {
  void *address = symbol_find_function(function);
  for (size_t i = 0; address && i < count; i++) {
    if (table[i] != address) continue;
    *real = (net_function *)address;
    table[i] = (void *)by;
    return true;
  }
  return false;
}

bool link_divert(void *handle, char *why, size_t size) {
  size_t bytes = 0;
  void **table = symbol_find("ncclNetSocket", &bytes);
  if (!table) return snprintf(why, size, "the library has no symbol ncclNetSocket"), false;
  const struct {
    const char *name, *function;
    net_function **real, *by;
  } entries[] = {
      {"connect", "_Z20ncclNetSocketConnect", &real_connect, net_connect},
      {"isend", "_Z18ncclNetSocketIsend", &real_isend, net_isend},
      {"irecv", "_Z18ncclNetSocketIrecv", &real_irecv, net_irecv},
  };
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    if (replace(table, bytes / sizeof *table, entries[i].function, entries[i].real, entries[i].by)) continue;
    return snprintf(why, size, "ncclNetSocket has no %s (function %s…)", entries[i].name, entries[i].function), false;
  }
  if (!divert_import(handle, "socket", (void *)link_socket) || !divert_import(handle, "send", (void *)link_send)) {
    return snprintf(why, size, "the library does not import socket and send"), false;
  }
  divert_import(handle, "accept", (void *)link_accept);
  return true;
}
