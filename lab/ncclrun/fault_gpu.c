// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "fault_gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "event.h"

enum { PATH_BYTES = 1024, LINE_BYTES = 128 };

static struct {
  const struct options *options;
  int xids;              // Raised so far: equal codes become different lines.
  pthread_mutex_t lock;  // Of the files: ranks of one process begin faults at the same time.
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};

void fault_gpu_open(const struct options *options) { self.options = options; }

// The fault's line, "key value"; false if it has none.
static bool line_of(const struct fault *f, char line[LINE_BYTES]) {
  switch (f->kind) {
    case LINK_STALL: snprintf(line, LINE_BYTES, "link.stall 1"); return true;
    case LINK_SLOW: snprintf(line, LINE_BYTES, "link.rate %.0f", f->value * self.options->link_bytes_per_s); return true;
    case GPU_FREEZE: snprintf(line, LINE_BYTES, "freeze 1"); return true;
    case GPU_SLOW: snprintf(line, LINE_BYTES, "speed %.6f", 1 / f->value); return true;
    case KERNEL_STALL: snprintf(line, LINE_BYTES, "hold 1"); return true;
    case PROXY_DELAY: snprintf(line, LINE_BYTES, "proxy.delay_ms %g", f->value); return true;
    case GPU_LOST: snprintf(line, LINE_BYTES, "lost 1"); return true;
    case XID: snprintf(line, LINE_BYTES, "xid %.0f %d", f->value, self.xids); return true;
    case CONTROL:
      snprintf(line, LINE_BYTES, "%s", f->text);
      *strchr(line, '=') = ' ';
      return true;
    default: return false;
  }
}

// Copies the lines that are not of the key.
static void copy_others(FILE *from, FILE *to, const char *key, size_t length) {
  char line[LINE_BYTES];
  while (fgets(line, sizeof line, from)) {
    if (strncmp(line, key, length) == 0 && line[length] == ' ') continue;
    fputs(line, to);
  }
}

// Replaces the line of a key in a GPU's file, which others write, too. Readers see the old file or the new one.
static void rewrite(int rank, const char *line, bool on) {
  const char *dir = getenv("FAKEGPU_DIR");
  if (!dir) die(EXIT_USAGE, "faults of a GPU need FAKEGPU_DIR");
  char path[PATH_BYTES], aside[PATH_BYTES];
  int gpu = environment_gpu(rank - self.options->first_rank);
  snprintf(path, sizeof path, "%s/gpu%d.control", dir, gpu);
  snprintf(aside, sizeof aside, "%s/.gpu%d.control.%ld", dir, gpu, (long)getpid());
  FILE *to = fopen(aside, "we");
  if (!to) die(EXIT_SYSTEM, "writing %s: %s", aside, strerror(errno));
  FILE *from = fopen(path, "re");
  if (from) {
    copy_others(from, to, line, strcspn(line, " "));
    fclose(from);
  }
  if (on) fprintf(to, "%s\n", line);
  if (fclose(to) != 0 || rename(aside, path) != 0) die(EXIT_SYSTEM, "writing %s: %s", path, strerror(errno));
}

static bool set(const struct fault *f, bool on) {
  char line[LINE_BYTES];
  pthread_mutex_lock(&self.lock);
  if (f->kind == XID && on) self.xids++;
  bool known = line_of(f, line);
  if (known) rewrite(f->rank, line, on);
  pthread_mutex_unlock(&self.lock);
  return known;
}

bool fault_gpu_begins(struct fault *fault) { return set(fault, true); }

void fault_gpu_ends(struct fault *fault) { set(fault, false); }
