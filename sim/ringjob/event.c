// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

static int event_rank = -1;

void event_set_rank(int rank) { event_rank = rank; }

static void write_all(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // Nobody reads: the run goes on.
    bytes += n;
    size -= (size_t)n;
  }
}

void event_emit(const char *name, const char *format, ...) {
  char line[1024];
  char who[32] = "";
  if (event_rank >= 0) snprintf(who, sizeof who, ",\"rank\":%d", event_rank);
  int n = snprintf(line, sizeof line, "{\"event\":\"%s\"%s,\"realtime_ns\":%" PRIu64 ",\"monotonic_ns\":%" PRIu64, name, who,
                   now_real_ns(), now_ns());
  va_list args;
  va_start(args, format);
  int m = vsnprintf(line + n, sizeof line - (size_t)n - 3, format, args);
  va_end(args);
  if (m < 0) m = 0;
  n += m;
  if (n > (int)sizeof line - 3) n = (int)sizeof line - 3;
  line[n++] = '}';
  line[n++] = '\n';
  write_all(STDOUT_FILENO, line, (size_t)n);
}

void die(int code, const char *format, ...) {
  char line[1024];
  int n = event_rank >= 0 ? snprintf(line, sizeof line, "ringjob: rank %d: ", event_rank) : snprintf(line, sizeof line, "ringjob: ");
  va_list args;
  va_start(args, format);
  int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
  va_end(args);
  if (m < 0) m = 0;
  n += m;
  if (n > (int)sizeof line - 2) n = (int)sizeof line - 2;
  line[n++] = '\n';
  write_all(STDERR_FILENO, line, (size_t)n);
  _exit(code);
}

void *must_calloc(unsigned long count, unsigned long size) {
  void *p = calloc(count ? count : 1, size ? size : 1);
  if (!p) die(EXIT_SYSTEM, "out of memory");
  return p;
}
