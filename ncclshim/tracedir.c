// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "tracedir.h"

#include "clock.h"
#include "tracefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
// Anybody may list it, so that an exporter without privileges finds the files; CULPRIT_MODE says who may read those.
#define OWN_MODE 0755u
#define OWN_NAMES 16u  // The usual name and second ones; the exporter tries them, too.
// What the kernel shows in place of an owner that a user namespace has no number for.
#define OVERFLOW_UID 65534u

// make_root makes the last component. Who is not root makes it for itself: others would not use a directory of this user's.
static int make_root(const char *path) {
  const mode_t mode = geteuid() == 0 ? 01777 : 0755;
  if (mkdir(path, mode) != 0) return errno == EEXIST ? 0 : errno;
  return chmod(path, mode) != 0 ? errno : 0;  // mkdir's mode was cut by the umask.
}

// maps_users says whether this is a user namespace in which the host's root may have no number.
static bool maps_users(void) {
  FILE *f = fopen("/proc/self/uid_map", "re");
  if (f == NULL) return false;
  unsigned inside = 0, outside = 0, count = 0;
  const bool all = fscanf(f, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 && count == 4294967295u;
  fclose(f);
  return !all;
}

// check_root refuses a root in which another user could put something of its own in place of this user's directory.
static int check_root(int root, const char **doing) {
  struct stat st;
  *doing = "reading the owner of the trace directory";
  if (fstat(root, &st) != 0) return errno;
  *doing = "checking that root or this user owns the trace directory";
  if (st.st_uid != 0 && st.st_uid != geteuid() && !(st.st_uid == OVERFLOW_UID && maps_users())) return EPERM;
  *doing = "checking that the trace directory, which all may write to, is sticky";
  if ((st.st_mode & S_IWOTH) != 0 && (st.st_mode & S_ISVTX) == 0) return EPERM;
  return 0;
}

// open_mine opens a directory in the root if it is this user's, and keeps others from writing to it. Returns -1 with errno
// otherwise, EPERM where it is another user's.
static int open_mine(int root, const char *name) {
  const int fd = openat(root, name, OPEN_DIRECTORY);
  if (fd < 0) return -1;
  struct stat st;
  int failed = 0;
  if (fstat(fd, &st) != 0) {
    failed = errno;
  } else if (st.st_uid != geteuid()) {
    failed = EPERM;
  } else if ((st.st_mode & 07777) != OWN_MODE && fchmod(fd, OWN_MODE) != 0) {
    failed = errno;
  }
  if (failed == 0) return fd;
  close(fd);
  errno = failed;
  return -1;
}

// open_named makes and opens this user's directory of a name. *taken: something else has the name.
static int open_named(int root, const char *name, bool *taken) {
  *taken = false;
  if (mkdirat(root, name, OWN_MODE) != 0 && errno != EEXIST) return -1;
  const int fd = open_mine(root, name);
  *taken = fd < 0 && (errno == EPERM || errno == ELOOP || errno == ENOTDIR || errno == EACCES);
  return fd;
}

// open_own opens this user's directory. Anybody can make something of its usual name in the root; then the first of the second names that is
// free serves, which the other processes of this user find as well. Where all are taken, each process has a directory of its own, whose name nobody
// can take before. The root is not listed: anybody can put very much into it.
static int open_own(int root, char *name, size_t bytes) {
  bool taken = true;
  int fd = -1;
  for (unsigned i = 0; taken && i < OWN_NAMES; i++) {
    if (i == 0) {
      snprintf(name, bytes, "u%u", geteuid());
    } else {
      snprintf(name, bytes, "u%u-%u", geteuid(), i);
    }
    fd = open_named(root, name, &taken);
  }
  if (!taken) return fd;
  snprintf(name, bytes, "u%u-%016llx", geteuid(), (unsigned long long)random_word(clock_monotonic()));
  return open_named(root, name, &taken);
}

int tracedir_open(struct trace_directory *d, const char *root, const char **doing) {
  d->root = d->own = -1;
  *doing = "making the trace directory";
  int failed = make_root(root);
  if (failed != 0) return failed;
  *doing = "opening the trace directory";
  d->root = open(root, OPEN_DIRECTORY);
  if (d->root < 0) return errno;
  failed = check_root(d->root, doing);
  if (failed == 0) {
    *doing = "making this user's trace directory";
    char name[64];
    d->own = open_own(d->root, name, sizeof name);
    failed = d->own < 0 ? errno : 0;
    snprintf(d->path, sizeof d->path, "%.300s/%s", root, name);
  }
  if (failed != 0) tracedir_close(d);
  return failed;
}

void tracedir_close(struct trace_directory *d) {
  if (d->own >= 0) close(d->own);
  if (d->root >= 0) close(d->root);
  d->root = d->own = -1;
}
