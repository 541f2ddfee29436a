// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// On a host with a core for each thread a progress thread that polls costs nobody anything. Where a few cores play several hosts, the
// polling threads of one rank take the time that another one's need, and a job is slow for a reason that no real one has.

#include "poll.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "divert.h"

// A progress thread looks at all its connections before it calls sched_yield: LOOKS is more than it has.
enum { NS_PER_US = 1000, MAX_US = 100000, LOOKS = 100, WAITED_OVER_SLEEP = 8, LONGEST_OVER_SHORTEST = 10 };

static long shortest_ns;

// How often the thread has found nothing to receive since it last slept or received something.
static __thread unsigned in_vain;
// How long it has slept since it last received something.
static __thread long slept_ns;

// The longer it has waited, the longer it sleeps: each look costs a system call a connection.
static void sleep_a_little(void) {
  long ns = slept_ns / WAITED_OVER_SLEEP;
  if (ns < shortest_ns) ns = shortest_ns;
  if (ns > shortest_ns * LONGEST_OVER_SHORTEST) ns = shortest_ns * LONGEST_OVER_SHORTEST;
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
  slept_ns += ns;
  in_vain = 0;
}

static int poll_yield(void) {
  sleep_a_little();
  return 0;
}

static ssize_t poll_recv(int fd, void *data, size_t n, int flags) {
  ssize_t got = recv(fd, data, n, flags);
  if (got >= 0 || errno != EAGAIN) {
    in_vain = 0;
    slept_ns = 0;
  } else if (++in_vain == LOOKS) {
    sleep_a_little();
    errno = EAGAIN;
  }
  return got;
}

bool poll_divert(void *handle, char *why, size_t size) {
  const char *text = getenv("FAKEGPU_POLL_US");
  long us = text ? strtol(text, NULL, 10) : 0;
  if (us <= 0) return true;
  shortest_ns = (us < MAX_US ? us : MAX_US) * NS_PER_US;
  if (divert_import(handle, "sched_yield", (void *)poll_yield) && divert_import(handle, "recv", (void *)poll_recv)) return true;
  return snprintf(why, size, "the library does not import sched_yield and recv"), false;
}
