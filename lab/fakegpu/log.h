// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the library says on stderr.

#ifndef FAKEGPU_LOG_H
#define FAKEGPU_LOG_H

#include <stdbool.h>

// True when FAKEGPU_VERBOSE is set.
bool log_verbose(void);

// One line on stderr, whatever FAKEGPU_VERBOSE says.
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define log_debug(...)                          \
  do {                                          \
    if (log_verbose()) log_error(__VA_ARGS__);  \
  } while (0)

#endif
