// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event.h"

uint64_t parse_whole(const char *name, const char *text) {
  char *end;
  unsigned long long v = strtoull(text, &end, 10);
  if (end == text || *text == '-') die(EXIT_USAGE, "--%s wants a number, not \"%s\"", name, text);
  int shift = 0;
  if (*end == 'K' || *end == 'k') shift = 10;
  if (*end == 'M' || *end == 'm') shift = 20;
  if (*end == 'G' || *end == 'g') shift = 30;
  if (shift) end++;
  if (*end) die(EXIT_USAGE, "--%s wants a number, not \"%s\"", name, text);
  return (uint64_t)v << shift;
}

uint64_t parse_scaled(const char *name, const char *text, double unit) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || v < 0) die(EXIT_USAGE, "--%s wants a number, not \"%s\"", name, text);
  return (uint64_t)(v * unit);
}

int parse_word(const char *name, const char *text, const char *const *words) {
  char known[128] = "";
  for (int i = 0; words[i]; i++) {
    if (strcmp(text, words[i]) == 0) return i;
    size_t n = strlen(known);
    snprintf(known + n, sizeof known - n, "%s%s", i ? " or " : "", words[i]);
  }
  die(EXIT_USAGE, "--%s is %s, not \"%s\"", name, known, text);
}

int parse_choice(const char *name, const char *text, const char *first, const char *second) {
  return parse_word(name, text, (const char *const[]){first, second, NULL});
}

int parse_env(const char *name) {
  const char *text = getenv(name);
  if (!text) die(EXIT_USAGE, "%s is not in the environment", name);
  return (int)parse_whole(name, text);
}

void parse_layout(const char *text, int *dp, int *pp, int *tp, int *ep, int *cp) {
  char copy[64];
  if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy) die(EXIT_USAGE, "--layout is too long");
  for (char *rest = copy, *part; (part = strsep(&rest, ",")) != NULL;) {
    int *into = strncmp(part, "dp", 2) == 0   ? dp
                : strncmp(part, "pp", 2) == 0 ? pp
                : strncmp(part, "tp", 2) == 0 ? tp
                : strncmp(part, "ep", 2) == 0 ? ep
                : strncmp(part, "cp", 2) == 0 ? cp
                                              : NULL;
    if (!into) die(EXIT_USAGE, "--layout wants dpN, ppN and tpN%s, not \"%s\"", ep ? ", and perhaps epN and cpN" : "", part);
    part += 2;
    if (*part == '=') part++;
    *into = (int)parse_whole("layout", part);
    if (*into < 1) die(EXIT_USAGE, "--layout: sizes are at least 1");
  }
}
