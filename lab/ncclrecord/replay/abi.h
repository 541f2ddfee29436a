// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The versions of the profiler interface behind one set of calls.

#ifndef NCCLRECORD_ABI_H
#define NCCLRECORD_ABI_H

#include <stdbool.h>
#include <stdint.h>

#include "script.h"

struct start {
  const struct line *line;
  uint64_t type;
  void *context, *parent, *group;
  int64_t began_real_ns;  // What the recording's GPU times begin with.
};

struct abi {
  void *plugin;
  int version;  // 0: none found yet.
  int (*init)(void **context, int *mask, const struct line *l);
  void (*start)(const struct start *s, void **handle);
  void (*state)(void *handle, int state, const char *value, int64_t began_real_ns);
  int (*stop)(void *handle);
  int (*finalize)(void *context);
};

bool abi_find(struct abi *abi, int version);

#endif
