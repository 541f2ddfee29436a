// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The lines of a recording, taken apart.

#ifndef NCCLRECORD_SCRIPT_H
#define NCCLRECORD_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct line {
  int64_t ns;
  int thread;  // From 1.
  const char *verb;
  uint64_t handle;    // Of start, state, again, stop; the context of finalize.
  const char *name;   // The event of start, the state of state.
  const char *value;  // Of state and again.
  const char *fields; // " key=value …"
};

struct script {
  struct line *lines;
  size_t count;
  int threads;
  uint64_t handles;  // The largest.
};

bool script_read(struct script *s, FILE *from);

uint64_t line_number(const struct line *l, const char *key);             // 0 without.
const char *line_text(const struct line *l, const char *key, char *into, size_t size);  // NULL for "-" and without.

uint64_t event_type(const char *name);  // 0 unknown.
int state_number(const char *name);     // -1 unknown.

#endif
