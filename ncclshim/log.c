// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "log.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES 512

void log_info(culprit_nccl_logger logger, const char *format, ...) {
  if (logger == NULL) return;
  char line[LINE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  logger(CULPRIT_NCCL_LOG_INFO, CULPRIT_NCCL_SUBSYS_INIT, __FILE__, __LINE__, "culprit: %s", line);
}

void log_warning(culprit_nccl_logger logger, const char *format, ...) {
  char line[LINE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (logger != NULL) {
    logger(CULPRIT_NCCL_LOG_WARN, CULPRIT_NCCL_SUBSYS_INIT, __FILE__, __LINE__, "culprit: %s", line);
  } else {
    fprintf(stderr, "culprit: %s\n", line);
  }
}
