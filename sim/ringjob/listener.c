// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "event.h"

struct arrival {
  struct listener_hello hello;
  int fd;
  struct arrival *next;
};

static struct {
  int fd;
  pthread_t thread;
  pthread_mutex_t mutex;
  struct arrival *arrivals;
  void (*arrived)(void);
} self = {.fd = -1, .mutex = PTHREAD_MUTEX_INITIALIZER};

static void *listener_main(void *unused) {
  (void)unused;
  for (;;) {
    int fd = accept4(self.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return NULL;  // Shut down.
    }
    // A stranger on the port must not hold up the job.
    struct timeval patience = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    struct listener_hello hello;
    if (recv(fd, &hello, sizeof hello, MSG_WAITALL) != (ssize_t)sizeof hello || hello.magic != LISTENER_MAGIC) {
      close(fd);
      continue;
    }
    struct arrival *a = must_calloc(1, sizeof *a);
    *a = (struct arrival){.hello = hello, .fd = fd};
    pthread_mutex_lock(&self.mutex);
    a->next = self.arrivals;
    self.arrivals = a;
    pthread_mutex_unlock(&self.mutex);
    self.arrived();
  }
}

uint16_t listener_start(void (*arrived)(void)) {
  self.arrived = arrived;
  self.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  if (self.fd < 0 || bind(self.fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(self.fd, 1024) != 0 ||
      getsockname(self.fd, (struct sockaddr *)&at, &size) != 0) {
    die(EXIT_SYSTEM, "listening: %s", strerror(errno));
  }
  if (pthread_create(&self.thread, NULL, listener_main, NULL) != 0) die(EXIT_SYSTEM, "starting the listener thread");
  pthread_setname_np(self.thread, "listener");
  return ntohs(at.sin_port);
}

void listener_stop(void) {
  shutdown(self.fd, SHUT_RDWR);
  pthread_join(self.thread, NULL);
  close(self.fd);
  while (self.arrivals) {
    struct arrival *a = self.arrivals;
    self.arrivals = a->next;
    close(a->fd);
    free(a);
  }
}

int listener_take(uint64_t comm_id, int channel, int peer, bool p2p) {
  int fd = -1;
  pthread_mutex_lock(&self.mutex);
  for (struct arrival **at = &self.arrivals; *at; at = &(*at)->next) {
    struct arrival *a = *at;
    if (a->hello.comm_id != comm_id || a->hello.channel != (uint32_t)channel || a->hello.rank != (uint32_t)peer ||
        a->hello.p2p != (uint32_t)p2p) {
      continue;
    }
    fd = a->fd;
    *at = a->next;
    free(a);
    break;
  }
  pthread_mutex_unlock(&self.mutex);
  return fd;
}
