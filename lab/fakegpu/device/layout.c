// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct {
  uint32_t bit, bits;  // 0 bits: not in this version
} members[LAYOUT_MEMBER_COUNT];
static size_t struct_bytes[LAYOUT_STRUCT_COUNT];

#define MEMBER_NAME(s, m) #s "." #m,
#define STRUCT_NAME(s) #s,
static const char *const required_names[] = {LAYOUT_REQUIRED(MEMBER_NAME)};
static const char *const optional_names[] = {LAYOUT_OPTIONAL(MEMBER_NAME)};
static const char *const struct_names[] = {LAYOUT_STRUCTS(STRUCT_NAME)};

enum { REQUIRED = sizeof required_names / sizeof *required_names };

static const char *member_name(int member) {
  return member < REQUIRED ? required_names[member] : optional_names[member - REQUIRED];
}

static void take(const char *name, unsigned bit, unsigned bits) {
  for (int m = 0; m < LAYOUT_MEMBER_COUNT; m++) {
    if (!strcmp(member_name(m), name)) members[m].bit = bit, members[m].bits = bits;
  }
  for (int s = 0; s < LAYOUT_STRUCT_COUNT; s++) {
    if (!strcmp(struct_names[s], name)) struct_bytes[s] = bits / 8;
  }
}

bool layout_open(const char *path, char *why, size_t size) {
  memset(members, 0, sizeof members);
  memset(struct_bytes, 0, sizeof struct_bytes);
  FILE *f = fopen(path, "re");
  if (!f) return snprintf(why, size, "layout %s: %s", path, strerror(errno)), false;
  char line[256], name[128];
  unsigned bit, bits, element;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%127s %u %u %u", name, &bit, &bits, &element) == 4) take(name, bit, bits);
  }
  fclose(f);
  for (int m = 0; m < REQUIRED; m++) {
    if (!members[m].bits) return snprintf(why, size, "layout %s has no member %s", path, member_name(m)), false;
  }
  return true;
}

bool layout_has(enum layout_member member) { return members[member].bits > 0; }
size_t layout_size(enum layout_struct which) { return struct_bytes[which]; }
char *layout_at(const void *p, enum layout_member member) { return (char *)(uintptr_t)p + members[member].bit / 8; }

uint64_t layout_get(const void *p, enum layout_member member) {
  uint64_t v = 0;
  uint32_t shift = members[member].bit % 8, bits = members[member].bits;
  memcpy(&v, layout_at(p, member), (shift + bits + 7) / 8);
  v >>= shift;
  return bits < 64 ? v & ((UINT64_C(1) << bits) - 1) : v;
}

void *layout_pointer(const void *p, enum layout_member member) { return (void *)(uintptr_t)layout_get(p, member); }
int layout_int(const void *p, enum layout_member member) { return (int)layout_get(p, member); }
void layout_set64(void *p, enum layout_member member, uint64_t value) { memcpy(layout_at(p, member), &value, sizeof value); }

int layout_int_at(const void *p, enum layout_member member, int i) {
  int v;
  memcpy(&v, layout_at(p, member) + (size_t)i * sizeof v, sizeof v);
  return v;
}
