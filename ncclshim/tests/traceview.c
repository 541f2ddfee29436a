// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "traceview.h"

#include "harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_trace(const char *name) {
  const size_t n = strlen(name);
  return n > 6 && strcmp(name + n - 6, CULPRIT_TRACE_SUFFIX) == 0;
}

// find_traces counts the trace files in a directory and in users' directories in it, and gives the path of the last.
static unsigned find_traces(const char *directory, char *path, size_t bytes) {
  unsigned found = 0;
  DIR *d = opendir(directory);
  CHECK(d != NULL);
  struct dirent *e;
  while ((e = readdir(d)) != NULL) {
    char name[512];
    struct stat st;
    snprintf(name, sizeof name, "%s/%s", directory, e->d_name);
    if (is_trace(e->d_name)) {
      found++;
      snprintf(path, bytes, "%s", name);
    } else if (e->d_name[0] == 'u' && lstat(name, &st) == 0 && S_ISDIR(st.st_mode)) {
      found += find_traces(name, path, bytes);
    }
  }
  closedir(d);
  return found;
}

unsigned view_files(void) {
  char path[512];
  return find_traces(harness_directory(), path, sizeof path);
}

struct view view_open_file(const char *path) {
  struct view v = {0};
  snprintf(v.path, sizeof v.path, "%s", path);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0);
  struct stat st;
  CHECK(fstat(fd, &st) == 0);
  v.bytes = (size_t)st.st_size;
  void *base = mmap(NULL, v.bytes, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(base != MAP_FAILED);
  close(fd);
  v.base = base;
  v.header = base;
  CHECK(memcmp(v.header->magic, CULPRIT_TRACE_MAGIC, 8) == 0);
  CHECK_EQ(v.header->file_bytes, v.bytes);
  return v;
}

struct view view_open_in(const char *directory) {
  char path[512] = "";
  CHECK_EQ(find_traces(directory, path, sizeof path), 1);
  return view_open_file(path);
}

struct view view_open(void) { return view_open_in(harness_directory()); }

const struct culprit_section *view_section(const struct view *v, uint32_t kind) {
  for (uint32_t i = 0; i < v->header->section_count; i++) {
    if (v->header->sections[i].kind == kind) return &v->header->sections[i];
  }
  harness_fail(__FILE__, __LINE__, "no section %u", kind);
}

// copy_words reads words as a reader does: each by itself, in order.
static void copy_words(void *to, const void *from, size_t bytes) {
  uint64_t *out = to;
  const uint64_t *in = from;
  for (size_t i = 0; i < bytes / 8; i++) out[i] = __atomic_load_n(&in[i], __ATOMIC_RELAXED);
}

static const unsigned char *entry(const struct view *v, uint32_t kind, uint64_t i) {
  const struct culprit_section *s = view_section(v, kind);
  return v->base + s->offset + (i % s->count) * s->entry_bytes;
}

static bool copy_slot(const struct view *v, uint32_t kind, uint32_t i, void *out, size_t bytes) {
  const unsigned char *at = entry(v, kind, i);
  const uint32_t *version = (const uint32_t *)(const void *)at;
  for (int tries = 0; tries < 1000; tries++) {
    const uint32_t before = __atomic_load_n(version, __ATOMIC_ACQUIRE);
    if ((before & 1) != 0) continue;
    copy_words(out, at, bytes);
#if !defined(__SANITIZE_THREAD__)
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
    if (__atomic_load_n(version, __ATOMIC_ACQUIRE) == before) return true;
  }
  return false;
}

static bool copy_record(const struct view *v, uint32_t kind, uint64_t n, void *out, size_t bytes) {
  const unsigned char *at = entry(v, kind, n);
  const uint64_t *ticket = (const uint64_t *)(const void *)at;
  if (__atomic_load_n(ticket, __ATOMIC_ACQUIRE) != n + 1) return false;
  copy_words(out, at, bytes);
#if !defined(__SANITIZE_THREAD__)
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
  return __atomic_load_n(ticket, __ATOMIC_ACQUIRE) == n + 1;
}

bool view_comm(const struct view *v, uint32_t i, struct culprit_comm *out) {
  return copy_slot(v, CULPRIT_SECTION_COMMS, i, out, sizeof *out);
}
bool view_op(const struct view *v, uint32_t i, struct culprit_op *out) {
  return copy_slot(v, CULPRIT_SECTION_OPS, i, out, sizeof *out);
}
bool view_flow(const struct view *v, uint32_t i, struct culprit_flow *out) {
  return copy_slot(v, CULPRIT_SECTION_FLOWS, i, out, sizeof *out);
}
bool view_completion(const struct view *v, uint64_t n, struct culprit_completion *out) {
  return copy_record(v, CULPRIT_SECTION_COMPLETIONS, n, out, sizeof *out);
}
bool view_lifecycle(const struct view *v, uint64_t n, struct culprit_lifecycle *out) {
  return copy_record(v, CULPRIT_SECTION_LIFECYCLE, n, out, sizeof *out);
}

uint64_t view_head(const struct view *v, size_t offset) {
  return __atomic_load_n((const uint64_t *)(const void *)(v->base + offset), __ATOMIC_RELAXED);
}

static bool of_comm(const struct view *v, uint32_t index, uint32_t generation, uint64_t comm_id) {
  struct culprit_comm c = {0};
  return view_comm(v, index, &c) && c.generation == generation && c.comm_id == comm_id;
}

bool view_find_op(const struct view *v, uint64_t comm_id, uint64_t number, struct culprit_op *out) {
  const uint32_t high = __atomic_load_n(&v->header->ops_high, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < high; i++) {
    if (view_op(v, i, out) && out->in_use != 0 && out->number == number &&
        of_comm(v, out->comm_index, out->comm_generation, comm_id)) {
      return true;
    }
  }
  return false;
}

bool view_find_flow(const struct view *v, uint64_t comm_id, int channel, int is_send, int peer, struct culprit_flow *out) {
  const uint32_t high = __atomic_load_n(&v->header->flows_high, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < high; i++) {
    if (view_flow(v, i, out) && out->in_use != 0 && out->channel == channel && out->is_send == is_send &&
        out->peer == peer && of_comm(v, out->comm_index, out->comm_generation, comm_id)) {
      return true;
    }
  }
  return false;
}

unsigned view_live_ops(const struct view *v) {
  unsigned live = 0;
  struct culprit_op o = {0};
  const uint32_t high = __atomic_load_n(&v->header->ops_high, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < high; i++) live += view_op(v, i, &o) && o.in_use != 0;
  return live;
}

unsigned view_live_flows(const struct view *v) {
  unsigned live = 0;
  struct culprit_flow f = {0};
  const uint32_t high = __atomic_load_n(&v->header->flows_high, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < high; i++) live += view_flow(v, i, &f) && f.in_use != 0;
  return live;
}

bool view_has_lifecycle(const struct view *v, uint32_t kind, uint64_t arg0) {
  struct culprit_lifecycle l = {0};
  for (uint64_t n = 0; n < VIEW_HEAD(v, lifecycle_head); n++) {
    if (view_lifecycle(v, n, &l) && l.kind == kind && l.arg0 == arg0) return true;
  }
  return false;
}
