// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The shim's few words to the user: through NCCL's logger where there is one, else to standard error.

#ifndef CULPRIT_LOG_H
#define CULPRIT_LOG_H

#include "profiler_abi.h"

// log_info writes one line that only shows with NCCL_DEBUG=INFO; without a logger it is not written at all.
void log_info(culprit_nccl_logger logger, const char *format, ...) __attribute__((format(printf, 2, 3)));

// log_warning writes one line: NCCL shows it with NCCL_DEBUG=WARN; without a logger it goes to standard error.
void log_warning(culprit_nccl_logger logger, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
