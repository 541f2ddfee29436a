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
#include "program.h"

// Of the process, or of a thread that runs one of its ranks.
static _Thread_local int event_rank = -1;

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

static void emit(int rank, const char *name, const char *format, va_list args) {
  char line[1024];
  char who[32] = "";
  if (rank >= 0) snprintf(who, sizeof who, ",\"rank\":%d", rank);
  int n = snprintf(line, sizeof line, "{\"event\":\"%s\"%s,\"realtime_ns\":%" PRIu64 ",\"monotonic_ns\":%" PRIu64, name, who,
                   now_real_ns(), now_ns());
  int m = vsnprintf(line + n, sizeof line - (size_t)n - 3, format, args);
  if (m < 0) m = 0;
  n += m;
  if (n > (int)sizeof line - 3) n = (int)sizeof line - 3;
  line[n++] = '}';
  line[n++] = '\n';
  write_all(STDOUT_FILENO, line, (size_t)n);
}

void event_emit(const char *name, const char *format, ...) {
  va_list args;
  va_start(args, format);
  emit(event_rank, name, format, args);
  va_end(args);
}

void event_emit_of(int rank, const char *name, const char *format, ...) {
  va_list args;
  va_start(args, format);
  emit(rank, name, format, args);
  va_end(args);
}

void die(int code, const char *format, ...) {
  char line[1024];
  int n = snprintf(line, sizeof line, "%s: ", program.name);
  if (event_rank >= 0) n += snprintf(line + n, sizeof line - (size_t)n, "rank %d: ", event_rank);
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
