// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "proxy.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "comm.h"
#include "conn.h"
#include "event.h"
#include "fault_model.h"
#include "gpu.h"
#include "proxy_progress.h"

struct proxy {
  pthread_t thread;
  uint64_t poll_ns;
  int wake_fd;
  atomic_bool sleeping;  // Whether a wake needs the file descriptor.
  pthread_mutex_t mutex;
  pthread_cond_t idle;   // Signalled when all work is done.
  struct proxy_op *inbox, **inbox_end;
  uint64_t uploaded, finished;  // Operations, to tell when all are done.
  bool stopping;
  // Thread only.
  struct fifo *active;
  struct pollfd *polls;
  size_t poll_room;
  struct proxy *next;  // Among all of the process.
};

static struct {
  pthread_mutex_t mutex;
  struct proxy *all;
  struct proxy *shared;
} self = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void proxy_wake(struct proxy *proxy) {
  if (!atomic_exchange(&proxy->sleeping, false)) return;
  uint64_t one = 1;
  // A full counter wakes as well as one that was raised.
  ssize_t n = write(proxy->wake_fd, &one, sizeof one);
  (void)n;
}

void proxy_wake_all(void) {
  pthread_mutex_lock(&self.mutex);
  for (struct proxy *p = self.all; p; p = p->next) proxy_wake(p);
  pthread_mutex_unlock(&self.mutex);
}

void proxy_upload(struct proxy *proxy, struct proxy_op *first) {
  if (!first) return;
  pthread_mutex_lock(&proxy->mutex);
  *proxy->inbox_end = first;
  for (struct proxy_op *op = first; op; op = op->next) {
    proxy->uploaded++;
    proxy->inbox_end = &op->next;
  }
  pthread_mutex_unlock(&proxy->mutex);
  proxy_wake(proxy);
}

static struct fifo *fifo_of(const struct proxy_op *op) {
  if (!op->conn) return &op->comm->kernel_fifo[op->channel][op->is_send];
  if (op->conn->p2p) return &op->comm->p2p_fifo[op->channel][op->is_send];
  return &op->conn->fifo;
}

static void take_inbox(struct proxy *proxy) {
  pthread_mutex_lock(&proxy->mutex);
  struct proxy_op *op = proxy->inbox;
  proxy->inbox = NULL;
  proxy->inbox_end = &proxy->inbox;
  pthread_mutex_unlock(&proxy->mutex);
  while (op) {
    struct fifo *fifo = fifo_of(op);
    bool was_empty = fifo->head == NULL;
    progress_accept(fifo, op);
    if (was_empty) {
      struct fifo **end = &proxy->active;
      while (*end) end = &(*end)->next;
      *end = fifo;
      fifo->next = NULL;
    }
    struct proxy_op *done = op;
    op = op->next;
    free(done);
  }
}

static void finished(struct proxy *proxy, int operations) {
  pthread_mutex_lock(&proxy->mutex);
  proxy->finished += (uint64_t)operations;
  if (proxy->finished == proxy->uploaded) pthread_cond_broadcast(&proxy->idle);
  pthread_mutex_unlock(&proxy->mutex);
}

// One pass over all heads; true if anything moved.
static bool pass(struct proxy *proxy, uint64_t now, bool *consumed) {
  bool any = false;
  for (struct fifo **at = &proxy->active; *at;) {
    struct fifo *fifo = *at;
    struct proxy_args *args = fifo->head;
    if (progress_args(args, now)) {
      any = true;
      if (args->subs[0].op.conn) *consumed = true;
    }
    int done = 0;
    if (progress_finished(args)) {
      any = true;
      done = args->nsubs;
      fifo->head = args->next;
      if (!fifo->head) fifo->tail = NULL;
      free(args->subs);
      free(args);
    }
    if (fifo->head) at = &fifo->next;
    else *at = fifo->next;
    // Last: who waited for it may free the communicator, and the fifo with it.
    if (done > 0) finished(proxy, done);
  }
  return any;
}

// Adds the links of an operation to the poll set; shortens `*wait` to the next transfer that is due.
static size_t watch(struct proxy *proxy, const struct proxy_args *args, size_t count, uint64_t now, uint64_t *wait) {
  for (int s = 0; s < args->nsubs; s++) {
    struct conn *conn = args->subs[s].op.conn;
    if (!conn) continue;
    uint64_t due;
    short events = link_events(conn, now, conn->is_send && fault_link_stalled(conn), &due);
    if (due != UINT64_MAX && due - now < *wait) *wait = due - now;
    if (!events) continue;
    if (count == proxy->poll_room) {
      proxy->poll_room *= 2;
      proxy->polls = realloc(proxy->polls, proxy->poll_room * sizeof *proxy->polls);
      if (!proxy->polls) die(EXIT_SYSTEM, "out of memory");
    }
    proxy->polls[count++] = (struct pollfd){.fd = conn->link.fd, .events = events};
  }
  return count;
}

static void rest(struct proxy *proxy) {
  uint64_t now = now_ns(), wait = proxy->poll_ns;
  size_t count = 1;
  proxy->polls[0] = (struct pollfd){.fd = proxy->wake_fd, .events = POLLIN};
  for (struct fifo *f = proxy->active; f; f = f->next) count = watch(proxy, f->head, count, now, &wait);
  struct timespec t = {.tv_sec = (time_t)(wait / NS_PER_S), .tv_nsec = (long)(wait % NS_PER_S)};
  // Nothing to do: as NCCL's thread on its condition variable, until something is uploaded.
  ppoll(proxy->polls, count, proxy->active ? &t : NULL, NULL);
  uint64_t drained;
  if (proxy->polls[0].revents & POLLIN) {
    ssize_t n = read(proxy->wake_fd, &drained, sizeof drained);
    (void)n;
  }
}

static void *proxy_main(void *arg) {
  struct proxy *proxy = arg;
  while (!abort_requested()) {
    // Before looking, so that what happens after the look wakes the rest below.
    atomic_store(&proxy->sleeping, true);
    take_inbox(proxy);
    bool consumed = false;
    bool any = pass(proxy, now_ns(), &consumed);
    if (consumed) gpu_wake();
    if (any) continue;
    if (!proxy->active) {
      pthread_mutex_lock(&proxy->mutex);
      bool end = proxy->stopping && !proxy->inbox;
      pthread_mutex_unlock(&proxy->mutex);
      if (end) break;
    }
    rest(proxy);
  }
  return NULL;
}

struct proxy *proxy_new(const char *name, uint64_t poll_ns) {
  struct proxy *proxy = must_calloc(1, sizeof *proxy);
  proxy->poll_ns = poll_ns;
  proxy->inbox_end = &proxy->inbox;
  proxy->poll_room = 16;
  proxy->polls = must_calloc(proxy->poll_room, sizeof *proxy->polls);
  pthread_mutex_init(&proxy->mutex, NULL);
  pthread_cond_init(&proxy->idle, NULL);
  proxy->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (proxy->wake_fd < 0) die(EXIT_SYSTEM, "eventfd: %s", strerror(errno));
  pthread_mutex_lock(&self.mutex);
  proxy->next = self.all;
  self.all = proxy;
  pthread_mutex_unlock(&self.mutex);
  if (pthread_create(&proxy->thread, NULL, proxy_main, proxy) != 0) die(EXIT_SYSTEM, "starting a proxy thread");
  char thread_name[16];
  snprintf(thread_name, sizeof thread_name, "proxy-%.8s", name);
  pthread_setname_np(proxy->thread, thread_name);
  return proxy;
}

struct proxy *proxy_shared(uint64_t poll_ns) {
  if (!self.shared) self.shared = proxy_new("all", poll_ns);
  return self.shared;
}

void proxy_shared_free(void) {
  if (self.shared) proxy_free(self.shared);
  self.shared = NULL;
}

void proxy_flush(struct proxy *proxy) {
  pthread_mutex_lock(&proxy->mutex);
  while (proxy->finished < proxy->uploaded && !abort_requested()) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;  // An abort does not signal.
    pthread_cond_timedwait(&proxy->idle, &proxy->mutex, &until);
  }
  pthread_mutex_unlock(&proxy->mutex);
}

static void drop_ops(struct proxy_op *op) {
  while (op) {
    struct proxy_op *next = op->next;
    free(op);
    op = next;
  }
}

static void drop_args(struct proxy_args *args) {
  while (args) {
    struct proxy_args *next = args->next;
    free(args->subs);
    free(args);
    args = next;
  }
}

void proxy_free(struct proxy *proxy) {
  pthread_mutex_lock(&proxy->mutex);
  proxy->stopping = true;
  pthread_mutex_unlock(&proxy->mutex);
  // The wake must not be lost to a thread that is about to rest.
  uint64_t one = 1;
  ssize_t n = write(proxy->wake_fd, &one, sizeof one);
  (void)n;
  pthread_join(proxy->thread, NULL);
  pthread_mutex_lock(&self.mutex);
  struct proxy **at = &self.all;
  while (*at != proxy) at = &(*at)->next;
  *at = proxy->next;
  pthread_mutex_unlock(&self.mutex);
  // Left over only when torn down.
  drop_ops(proxy->inbox);
  for (struct fifo *f = proxy->active; f; f = f->next) drop_args(f->head);
  close(proxy->wake_fd);
  pthread_mutex_destroy(&proxy->mutex);
  pthread_cond_destroy(&proxy->idle);
  free(proxy->polls);
  free(proxy);
}
