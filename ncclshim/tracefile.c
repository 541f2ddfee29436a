// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "tracefile.h"

#include "handle.h"
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define MIB (1u << 20)
// A small filesystem (Docker gives /dev/shm 64 MiB) is needed by NCCL itself: a file takes at most this part of it.
#define SMALL_SHARE 64u
// And a file is only made where, after it, this many times its size would still be free.
#define SPARE_FILES 3u

static uint32_t scaled(uint32_t at_8_mib, uint64_t bytes, uint32_t low, uint32_t high) {
  const uint64_t n = (uint64_t)at_8_mib * bytes / (8 * MIB);
  return n < low ? low : n > high ? high : (uint32_t)n;
}

static uint64_t add_section(struct culprit_header *h, uint32_t kind, uint32_t entry_bytes, uint32_t count, uint64_t offset) {
  struct culprit_section *s = &h->sections[h->section_count++];
  s->kind = kind;
  s->entry_bytes = entry_bytes;
  s->count = count;
  s->offset = offset;
  return (offset + (uint64_t)entry_bytes * count + PAGE - 1) / PAGE * PAGE;
}

// lay_out shares the file's bytes out to the tables; the flows get half. What is not recorded leaves its room to operations.
static void lay_out(struct trace_file *f, struct culprit_header *h, uint64_t bytes, bool transfers) {
  f->comm_count = scaled(256, bytes, 16, 1024);
  f->op_count = scaled(transfers ? 4096 : 8192, bytes, 256, HANDLE_INDEX_LIMIT);
  f->flow_count = scaled(16384, bytes, 512, HANDLE_INDEX_LIMIT);
  f->completion_count = scaled(4096, bytes, 256, 1u << 20);
  f->lifecycle_count = scaled(1024, bytes, 128, 1u << 16);
  f->qp_count = scaled(2048, bytes, 128, HANDLE_INDEX_LIMIT);
  f->transfer_count = transfers ? scaled(16384, bytes, 512, 1u << 20) : 16;

  uint64_t at = PAGE;
  at = add_section(h, CULPRIT_SECTION_COMMS, COMM_STRIDE, f->comm_count, at);
  at = add_section(h, CULPRIT_SECTION_OPS, OP_STRIDE, f->op_count, at);
  at = add_section(h, CULPRIT_SECTION_FLOWS, FLOW_STRIDE, f->flow_count, at);
  at = add_section(h, CULPRIT_SECTION_COMPLETIONS, COMPLETION_STRIDE, f->completion_count, at);
  at = add_section(h, CULPRIT_SECTION_LIFECYCLE, LIFECYCLE_STRIDE, f->lifecycle_count, at);
  at = add_section(h, CULPRIT_SECTION_QPS, QP_STRIDE, f->qp_count, at);
  at = add_section(h, CULPRIT_SECTION_TRANSFERS, TRANSFER_STRIDE, f->transfer_count, at);
  f->bytes = at;
  h->file_bytes = at;
}

static void find_tables(struct trace_file *f, unsigned char *base, const struct culprit_header *h) {
  f->header = (struct culprit_header *)(void *)base;
  f->comms = base + h->sections[0].offset;
  f->ops = base + h->sections[1].offset;
  f->flows = base + h->sections[2].offset;
  f->completions = base + h->sections[3].offset;
  f->lifecycle = base + h->sections[4].offset;
  f->qps = base + h->sections[5].offset;
  f->transfers = base + h->sections[6].offset;
}

uint64_t random_word(uint64_t now_ns) {
  uint64_t v = 0;
  if (getrandom(&v, sizeof v, GRND_NONBLOCK) != (ssize_t)sizeof v) v = now_ns * 0x9e3779b97f4a7c15u ^ (uintptr_t)&v;
  return v;
}

// choose_size fits the wanted size to the filesystem; 0 when there is no room.
static uint64_t choose_size(int directory, const struct settings *s) {
  uint64_t bytes = s->file_bytes;
  struct statvfs fs;
  if (fstatvfs(directory, &fs) != 0 || fs.f_blocks == 0) return bytes;
  const uint64_t total = (uint64_t)fs.f_blocks * fs.f_frsize;
  const uint64_t available = (uint64_t)fs.f_bavail * fs.f_frsize;
  if (!s->file_bytes_set && bytes > total / SMALL_SHARE) {
    bytes = total / SMALL_SHARE;
    if (bytes < MIB) bytes = MIB;
  }
  return available < bytes * (SPARE_FILES + 1) ? 0 : bytes;
}

// traced_already says whether this process has a trace file mapped: by another copy of the plugin, at another path.
static bool traced_already(const struct culprit_header *h) {
  char name[64], line[1024];
  const int length = snprintf(name, sizeof name, "/%u-%llu-", h->pid, (unsigned long long)h->start_ticks);
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return false;
  bool found = false;
  while (!found && fgets(line, sizeof line, maps) != NULL) {
    const char *base = strrchr(line, '/');
    found = base != NULL && strncmp(base, name, (size_t)length) == 0 && strstr(base, CULPRIT_TRACE_SUFFIX) != NULL;
  }
  fclose(maps);
  return found;
}

static int open_new(struct trace_file *f, const struct trace_directory *d, const struct culprit_header *h, const struct settings *s) {
  for (int i = 0; i < 8; i++) {
    char name[96];
    snprintf(name, sizeof name, "%u-%llu-%016llx" CULPRIT_TRACE_SUFFIX, h->pid, (unsigned long long)h->start_ticks,
             (unsigned long long)random_word(h->created_ns));
    const int fd = openat(d->own, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, s->mode);
    if (fd >= 0) {
      snprintf(f->path, sizeof f->path, "%s/%s", d->path, name);
      f->fd = fd;
      return 0;
    }
    if (errno != EEXIST) return errno;
  }
  return EEXIST;
}

static int map_new(struct trace_file *f, const struct culprit_header *h, const struct settings *s, const char **doing) {
  *doing = "setting the mode of the trace file";
  if (fchmod(f->fd, s->mode) != 0) return errno;
  (void)flock(f->fd, LOCK_SH | LOCK_NB);  // Where locks do not work the file is merely judged by pid.

  // Every page is claimed now: a filesystem that fills up later must not turn a write of ours into a SIGBUS.
  *doing = "reserving room for the trace file";
  const int failed = posix_fallocate(f->fd, 0, (off_t)f->bytes);
  if (failed != 0) return failed;

  *doing = "mapping the trace file";
  void *base = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
  if (base == MAP_FAILED) return errno;
  (void)madvise(base, f->bytes, MADV_DONTDUMP);  // Core dumps need not hold it: it is in a file already.
  find_tables(f, base, h);

  const size_t magic = sizeof h->magic;
  memcpy((char *)base + magic, (const char *)h + magic, sizeof *h - magic);
  uint64_t word;
  memcpy(&word, CULPRIT_TRACE_MAGIC, sizeof word);
  __atomic_store_n((uint64_t *)base, word, __ATOMIC_RELEASE);
  return 0;
}

int tracefile_create(struct trace_file *f, const struct trace_directory *d, const struct settings *s, uint64_t now_ns,
                     uint64_t real_minus_mono_ns, const char **doing) {
  struct culprit_header h = {0};
  memset(f, 0, sizeof *f);
  f->fd = -1;

  h.version_major = CULPRIT_TRACE_MAJOR;
  h.version_minor = CULPRIT_TRACE_MINOR;
  h.header_bytes = PAGE;
  h.created_ns = now_ns;
  h.created_real_ns = now_ns + real_minus_mono_ns;
  h.real_minus_mono_ns = real_minus_mono_ns;
  h.heartbeat_ns = now_ns;
  identity_fill(&h);

  *doing = "looking for another copy of the plugin in this process";
  if (traced_already(&h)) return EALREADY;

  *doing = "finding room for the trace file";
  const uint64_t bytes = choose_size(d->own, s);
  if (bytes == 0) return ENOSPC;
  lay_out(f, &h, bytes, s->transfers);
  *doing = "creating the trace file";
  int failed = open_new(f, d, &h, s);
  if (failed != 0) return failed;
  failed = map_new(f, &h, s, doing);
  if (failed != 0) {
    unlink(f->path);
    close(f->fd);
    f->fd = -1;
  }
  return failed;
}
