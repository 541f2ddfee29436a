// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "event.h"

#define RETRY_NS (2 * NS_PER_MS)
#define PATH_BYTES 512

struct control {
  // High half: the first step that does not run, 0 while unknown. Low half: 1 + the highest step begun.
  _Atomic uint64_t step_word;
  _Atomic uint32_t tainted;
  _Atomic uint32_t finished;
};

static struct {
  const char *dir;
  uint64_t timeout_ns;
  struct control *control;
} self;

static void path_of(char *path, const char *name) {
  if (snprintf(path, PATH_BYTES, "%s/%s", self.dir, name) >= PATH_BYTES) die(EXIT_SYSTEM, "rendezvous path too long");
}

void rendezvous_publish(const char *name, const char *text) {
  char path[PATH_BYTES], aside[PATH_BYTES];
  path_of(path, name);
  if (snprintf(aside, sizeof aside, "%s/.%s.%ld", self.dir, name, (long)getpid()) >= PATH_BYTES) {
    die(EXIT_SYSTEM, "rendezvous path too long");
  }
  FILE *f = fopen(aside, "we");
  if (!f || fputs(text, f) < 0 || fclose(f) != 0 || rename(aside, path) != 0) {
    die(EXIT_SYSTEM, "publishing %s: %s", path, strerror(errno));
  }
}

void rendezvous_await(const char *name, char *text, int size) {
  char path[PATH_BYTES];
  path_of(path, name);
  for (uint64_t deadline = now_ns() + self.timeout_ns;;) {
    FILE *f = fopen(path, "re");
    if (f) {
      if (!fgets(text, size, f)) text[0] = 0;
      fclose(f);
      return;
    }
    if (now_ns() > deadline) die(EXIT_SYSTEM, "rendezvous: no %s after %llu s", path, self.timeout_ns / NS_PER_S);
    sleep_ns(RETRY_NS);
  }
}

static void map_control(void) {
  char path[PATH_BYTES];
  path_of(path, "control");
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ftruncate(fd, 4096) != 0) die(EXIT_SYSTEM, "opening %s: %s", path, strerror(errno));
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) die(EXIT_SYSTEM, "mapping %s: %s", path, strerror(errno));
  close(fd);
  self.control = page;
}

void rendezvous_open(const char *dir, uint64_t timeout_ns) {
  self.dir = dir;
  self.timeout_ns = timeout_ns;
  map_control();
}

bool control_step_begin(uint64_t step) {
  uint64_t word = atomic_load(&self.control->step_word);
  for (;;) {
    uint64_t end = word >> 32, begun = word & UINT32_MAX;
    if (end != 0 && step >= end) return false;
    if (step + 1 <= begun) return true;
    if (atomic_compare_exchange_weak(&self.control->step_word, &word, end << 32 | (step + 1))) return true;
  }
}

void control_request_stop(void) {
  uint64_t word = atomic_load(&self.control->step_word);
  for (;;) {
    uint64_t begun = word & UINT32_MAX;
    if (word >> 32 != 0) return;
    // A job that has begun nothing still runs one step: 0 means unknown.
    if (atomic_compare_exchange_weak(&self.control->step_word, &word, (begun ? begun : 1) << 32 | begun)) return;
  }
}

void control_taint(void) { atomic_store(&self.control->tainted, 1); }

bool control_tainted(void) { return atomic_load(&self.control->tainted) != 0; }

bool control_finish(int world_size, uint64_t timeout_ns) {
  atomic_fetch_add(&self.control->finished, 1);
  for (uint64_t deadline = now_ns() + timeout_ns; now_ns() < deadline; sleep_ns(RETRY_NS)) {
    if (atomic_load(&self.control->finished) >= (uint32_t)world_size) return true;
  }
  return false;
}
