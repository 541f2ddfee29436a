// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "script.h"

#include <stdlib.h>
#include <string.h>

#include "../recorder/names.h"

static char *word(char **rest) {
  char *w = strsep(rest, " ");
  return w ? w : "";
}

static bool take(struct line *l, char *text) {
  char *rest = text;
  l->ns = strtoll(word(&rest), NULL, 10);
  l->thread = atoi(word(&rest));
  l->verb = word(&rest);
  l->name = l->value = l->fields = "";
  if (l->thread < 1) return false;
  if (strcmp(l->verb, "init") != 0) l->handle = strtoull(word(&rest), NULL, 10);
  if (strcmp(l->verb, "start") == 0 || strcmp(l->verb, "state") == 0) l->name = word(&rest);
  if (strcmp(l->verb, "state") == 0 || strcmp(l->verb, "again") == 0) l->value = word(&rest);
  if (rest) l->fields = rest;
  return true;
}

bool script_read(struct script *s, FILE *from) {
  char *text = NULL;
  size_t room = 0, lines = 0;
  for (ssize_t n; (n = getline(&text, &room, from)) > 0; text = NULL, room = 0) {
    text[strcspn(text, "\n")] = 0;
    if (s->count == lines) {
      lines = lines ? 2 * lines : 1024;
      s->lines = realloc(s->lines, lines * sizeof *s->lines);
      if (!s->lines) abort();
    }
    struct line *l = &s->lines[s->count++];
    memset(l, 0, sizeof *l);
    if (!take(l, text)) return false;
    if (l->thread > s->threads) s->threads = l->thread;
    if (l->handle > s->handles) s->handles = l->handle;
  }
  free(text);
  return s->count > 0;
}

static const char *find(const struct line *l, const char *key) {
  const size_t n = strlen(key);
  for (const char *f = l->fields; f; f = strchr(f, ' ')) {
    while (*f == ' ') f++;
    if (strncmp(f, key, n) == 0 && f[n] == '=') return f + n + 1;
  }
  return NULL;
}

uint64_t line_number(const struct line *l, const char *key) {
  const char *value = find(l, key);
  if (!value) return 0;
  return *value == '-' ? (uint64_t)strtoll(value, NULL, 0) : strtoull(value, NULL, 0);
}

const char *line_text(const struct line *l, const char *key, char *into, size_t size) {
  const char *value = find(l, key);
  if (!value || *value == '-') return NULL;
  snprintf(into, size, "%.*s", (int)strcspn(value, " "), value);
  return into;
}

uint64_t event_type(const char *name) {
  for (int i = 0; i < EVENT_NAMES; i++) {
    if (strcmp(name, event_names[i]) == 0) return (uint64_t)1 << i;
  }
  return 0;
}

int state_number(const char *name) {
  for (int i = 0; i < STATE_NAMES; i++) {
    if (strcmp(name, state_names[i]) == 0) return i;
  }
  return -1;
}
