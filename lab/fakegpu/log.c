// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool log_verbose(void) {
  static int verbose = -1;
  if (verbose < 0) verbose = getenv("FAKEGPU_VERBOSE") != NULL;
  return verbose;
}

void log_error(const char *format, ...) {
  char line[1024];
  int at = snprintf(line, sizeof line, "fakegpu[%d]: ", getpid());
  va_list list;
  va_start(list, format);
  vsnprintf(line + at, sizeof line - (size_t)at, format, list);
  va_end(list);
  fprintf(stderr, "%s\n", line);  // one call, so that lines of several threads do not mix
}
