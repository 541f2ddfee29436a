// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "fault_act.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "event.h"
#include "fault.h"

// A checkpoint writes a megabyte every 50 ms, 20 MB/s, over a file that grows to 64 MB at most.
#define CHECKPOINT_BLOCK (1u << 20)
#define CHECKPOINT_FILE (64u << 20)
#define CHECKPOINT_PAUSE_NS (50 * NS_PER_MS)
// The signal reaches the calling thread a little later.
#define STOP_LANDS_NS (20 * NS_PER_MS)

void act_stop(uint64_t for_ns) {
  pid_t self = getpid();
  if (for_ns > 0) {
    // Somebody else has to wake the process up.
    pid_t waker = fork();
    if (waker == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      sleep_ns(for_ns);
      kill(self, SIGCONT);
      _exit(0);
    }
    kill(self, SIGSTOP);
    sleep_ns(STOP_LANDS_NS);
    if (waker > 0) waitpid(waker, NULL, 0);
    return;
  }
  kill(self, SIGSTOP);
  sleep_ns(STOP_LANDS_NS);
}

void act_checkpoint(const char *dir, int rank, uint64_t ns) {
  char path[512];
  snprintf(path, sizeof path, "%s/checkpoint.%d", dir, rank);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) die(EXIT_SYSTEM, "opening %s: %s", path, strerror(errno));
  uint8_t *block = must_calloc(1, CHECKPOINT_BLOCK);
  memset(block, 0x5a, CHECKPOINT_BLOCK);
  off_t offset = 0;
  for (uint64_t end = now_ns() + ns; now_ns() < end && !abort_requested();) {
    uint64_t began = now_ns();
    if (pwrite(fd, block, CHECKPOINT_BLOCK, offset) < 0 || fsync(fd) != 0) {
      die(EXIT_SYSTEM, "writing %s: %s", path, strerror(errno));
    }
    offset = (offset + CHECKPOINT_BLOCK) % CHECKPOINT_FILE;
    uint64_t took = now_ns() - began;
    if (took < CHECKPOINT_PAUSE_NS) sleep_ns(CHECKPOINT_PAUSE_NS - took);
  }
  free(block);
  close(fd);
  unlink(path);
}

void act_compute(uint64_t ns) {
  volatile double x = 1;
  for (uint64_t end = now_ns() + ns; now_ns() < end && !abort_requested();) {
    for (int i = 0; i < 100000; i++) x = x * 1.0000001 + 0.0000001;
  }
}
