// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Trace files outlive their process, because the last state of a killed one is what people ask for. Somebody has to
// remove them in the end, and that is the next process of the same user that starts tracing in the directory.

#include "control.h"
#include "identity.h"
#include "tracefile.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_ENTRIES 8192u  // A directory with more is somebody else's trouble, not a reason to delay a job.

struct self {
  struct culprit_header header;  // Identity only.
  uint64_t now_ns;
  uint64_t keep_ns;
};

static bool has_suffix(const char *name) {
  const size_t n = strlen(name), m = strlen(CULPRIT_TRACE_SUFFIX);
  return n > m && strcmp(name + n - m, CULPRIT_TRACE_SUFFIX) == 0;
}

static uint64_t latest(uint64_t a, uint64_t b) { return a > b ? a : b; }

// ended_long_ago judges by the file's own times where it was written since the host's last boot, else by its
// modification time.
static bool ended_long_ago(const struct self *self, const struct culprit_header *h, const struct stat *st) {
  const bool whole = memcmp(h->magic, CULPRIT_TRACE_MAGIC, sizeof h->magic) == 0;
  if (whole && strncmp(h->boot_id, self->header.boot_id, sizeof h->boot_id) == 0) {
    const uint64_t last = latest(latest(h->heartbeat_ns, h->closed_ns), h->created_ns);
    return last < self->now_ns && self->now_ns - last >= self->keep_ns;
  }
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  const int64_t age = (int64_t)real.tv_sec - (int64_t)st->st_mtim.tv_sec;
  return age > 0 && (uint64_t)age * 1000000000u >= self->keep_ns;
}

// gone says whether the writer has surely ended: nobody holds the file's lock, and no process of that pid and start
// time is seen where pids can be compared.
static bool gone(const struct self *self, const struct culprit_header *h, int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return false;
  if (strncmp(h->boot_id, self->header.boot_id, sizeof h->boot_id) != 0) return true;
  if (h->pid_namespace != self->header.pid_namespace) return true;
  const uint64_t ticks = identity_start_ticks(h->pid);
  return ticks == 0 || ticks != h->start_ticks;
}

static bool reap_one(const struct self *self, int directory, const char *name) {
  const int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat st;
  struct culprit_header h;
  memset(&h, 0, sizeof h);
  bool removed = false;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
      pread(fd, &h, sizeof h, 0) >= 0 && ended_long_ago(self, &h, &st) && gone(self, &h, fd)) {
    removed = unlinkat(directory, name, 0) == 0;
    char control[300];
    snprintf(control, sizeof control, "%s" CONTROL_SUFFIX, name);
    (void)unlinkat(directory, control, 0);
  }
  close(fd);
  return removed;
}

unsigned tracefile_reap(int parent, uint64_t keep_seconds, uint64_t now_ns) {
  struct self self;
  memset(&self, 0, sizeof self);
  identity_fill(&self.header);
  self.now_ns = now_ns;
  self.keep_ns = keep_seconds * 1000000000u;

  const int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  DIR *directory = fdopendir(fd);
  if (directory == NULL) {
    close(fd);
    return 0;
  }
  unsigned removed = 0, seen = 0;
  for (struct dirent *e; seen < MAX_ENTRIES && (e = readdir(directory)) != NULL; seen++) {
    if (has_suffix(e->d_name) && reap_one(&self, dirfd(directory), e->d_name)) removed++;
  }
  closedir(directory);
  return removed;
}
