// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the user asked for in the environment. Read once, when the first communicator is made.

#ifndef CULPRIT_SETTINGS_H
#define CULPRIT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct settings {
  bool disabled;            // CULPRIT_DISABLE=1.
  const char *directory;    // CULPRIT_DIR.
  uint64_t file_bytes;      // CULPRIT_SIZE_MB.
  bool file_bytes_set;
  mode_t mode;              // CULPRIT_MODE, octal.
  uint64_t keep_seconds;    // CULPRIT_KEEP_SECONDS: files of dead processes younger than this stay.
  const char *clock_source; // CULPRIT_CLOCK, or NULL.
  const char *events;       // CULPRIT_EVENTS, or NULL.
  bool control;             // CULPRIT_CONTROL: a control file may change the events.
  bool transfers;           // CULPRIT_TRANSFERS: a record per transfer.
  const char *chain;        // CULPRIT_CHAIN, or NULL.
};

// settings_read fills s from the environment. Values that do not parse keep their default; the first such variable's
// name is returned, else NULL.
const char *settings_read(struct settings *s);

// settings_events gives the NCCL event mask that `events` (CULPRIT_EVENTS) asks for. Names are separated by commas:
// "default", "all", "none", event names in lower case ("coll", "proxystep", …), each with an optional "+" or "-" in
// front. A list that begins with a plain name starts from nothing, one that begins with "+" or "-" from fallback.
// *unknown, when not NULL, is set to the first unknown name (its length in *unknown_bytes) or NULL.
uint32_t settings_events(const char *events, uint32_t fallback, const char **unknown, size_t *unknown_bytes);

#endif
