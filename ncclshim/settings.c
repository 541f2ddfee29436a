// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "settings.h"

#include "profiler_abi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_DIRECTORY "/dev/shm/culprit"
#define DEFAULT_SIZE_MB 8u
#define MAX_SIZE_MB 256u
#define DEFAULT_KEEP_SECONDS 600u
#define MAX_KEEP_SECONDS (365u * 86400u)

static const char *nonempty(const char *name) {
  const char *v = getenv(name);
  return v != NULL && *v != '\0' ? v : NULL;
}

// number reads an unsigned number from the environment; false when it is there and does not parse.
static bool number(const char *name, int base, uint64_t min, uint64_t max, uint64_t *out) {
  const char *text = nonempty(name);
  if (text == NULL) return true;
  char *end = NULL;
  errno = 0;
  const unsigned long long v = strtoull(text, &end, base);
  if (errno != 0 || *end != '\0' || *text == '-' || v < min || v > max) return false;
  *out = v;
  return true;
}

static bool truthy(const char *v) {
  return v != NULL && strcmp(v, "0") != 0 && strcmp(v, "false") != 0 && strcmp(v, "no") != 0;
}

const char *settings_read(struct settings *s) {
  const char *bad = NULL;
  uint64_t size = DEFAULT_SIZE_MB, mode = 0644, keep = DEFAULT_KEEP_SECONDS;

  s->disabled = truthy(nonempty("CULPRIT_DISABLE"));
  s->directory = nonempty("CULPRIT_DIR");
  if (s->directory == NULL) s->directory = DEFAULT_DIRECTORY;
  s->file_bytes_set = nonempty("CULPRIT_SIZE_MB") != NULL;
  if (!number("CULPRIT_SIZE_MB", 10, 1, MAX_SIZE_MB, &size)) {
    bad = "CULPRIT_SIZE_MB";
    s->file_bytes_set = false;
  }
  if (!number("CULPRIT_MODE", 8, 0, 0777, &mode)) bad = "CULPRIT_MODE";
  if (!number("CULPRIT_KEEP_SECONDS", 10, 0, MAX_KEEP_SECONDS, &keep)) bad = "CULPRIT_KEEP_SECONDS";
  s->file_bytes = size << 20;
  s->mode = (mode_t)(mode | 0600);  // The writer itself must be able to open it.
  s->keep_seconds = keep;
  s->clock_source = nonempty("CULPRIT_CLOCK");
  s->events = nonempty("CULPRIT_EVENTS");
  s->chain = nonempty("CULPRIT_CHAIN");
  s->transfers = truthy(nonempty("CULPRIT_TRANSFERS"));
  s->control = nonempty("CULPRIT_CONTROL") == NULL || truthy(nonempty("CULPRIT_CONTROL"));
  return bad;
}

struct event_name {
  const char *name;
  uint32_t bit;
};

static const struct event_name event_names[] = {
    {"coll", CULPRIT_NCCL_COLL},
    {"p2p", CULPRIT_NCCL_P2P},
    {"proxyop", CULPRIT_NCCL_PROXY_OP},
    {"proxystep", CULPRIT_NCCL_PROXY_STEP},
    {"kernelch", CULPRIT_NCCL_KERNEL_CH},
    {"groupapi", CULPRIT_NCCL_GROUP_API},
    {"collapi", CULPRIT_NCCL_COLL_API},
    {"p2papi", CULPRIT_NCCL_P2P_API},
    {"cecoll", CULPRIT_NCCL_CE_COLL},
};

static bool event_bits(const char *name, size_t length, uint32_t fallback, uint32_t *bits) {
  if (length == 7 && memcmp(name, "default", 7) == 0) {
    *bits = fallback;
    return true;
  }
  if (length == 4 && memcmp(name, "none", 4) == 0) {
    *bits = 0;
    return true;
  }
  uint32_t all = 0;
  for (size_t i = 0; i < sizeof event_names / sizeof event_names[0]; i++) {
    all |= event_names[i].bit;
    if (strlen(event_names[i].name) == length && memcmp(event_names[i].name, name, length) == 0) {
      *bits = event_names[i].bit;
      return true;
    }
  }
  *bits = all;
  return length == 3 && memcmp(name, "all", 3) == 0;
}

uint32_t settings_events(const char *events, uint32_t fallback, const char **unknown, size_t *unknown_bytes) {
  *unknown = NULL;
  *unknown_bytes = 0;
  if (events == NULL) return fallback;
  uint32_t mask = *events == '+' || *events == '-' ? fallback : 0;
  for (const char *p = events; *p != '\0';) {
    const size_t length = strcspn(p, ",");
    const char *name = p;
    size_t name_length = length;
    const bool remove = *p == '-';
    if (length > 0 && (*p == '+' || *p == '-')) {
      name++;
      name_length--;
    }
    uint32_t bits = 0;
    if (name_length > 0) {
      if (event_bits(name, name_length, fallback, &bits)) {
        mask = remove ? mask & ~bits : mask | bits;
      } else if (*unknown == NULL) {
        *unknown = name;
        *unknown_bytes = name_length;
      }
    }
    p += length;
    if (*p == ',') p++;
  }
  return mask;
}
