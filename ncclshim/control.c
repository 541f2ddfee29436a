// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "control.h"

#include "lifecycle.h"
#include "mask.h"
#include "shim.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 256

// What cannot be switched: without operations no event would come to look at the file again, and NCCL prepares for KernelCh
// when it makes a communicator.
#define ALWAYS (CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P)

// read_line reads the file when its owner may give orders here; false when there is none to follow.
static bool read_line(char *line, size_t bytes) {
  char path[sizeof shim.file.path + sizeof CONTROL_SUFFIX];
  snprintf(path, sizeof path, "%s" CONTROL_SUFFIX, shim.file.path);
  const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat st;
  ssize_t n = -1;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
      (st.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    n = read(fd, line, bytes - 1);
  }
  close(fd);
  if (n < 0) return false;
  line[n] = '\0';
  line[strcspn(line, "\r\n")] = '\0';
  return true;
}

// ask_for changes the events that NCCL is asked for, from now on.
static void ask_for(uint32_t wanted, uint64_t now, const char *why) {
  int *mask = GET(shim.mask);
  const uint32_t current = GET(shim.mask_now);
  if (mask == NULL || wanted == current) return;
  // Only the bits that are ours: another plugin may want more of them.
  __atomic_fetch_or(mask, (int)wanted, __ATOMIC_RELAXED);
  __atomic_fetch_and(mask, ~(int)(current & ~wanted & ~GET(shim.mask_others)), __ATOMIC_RELAXED);
  PUT(shim.mask_now, wanted);
  PUT(shim.file.header->event_mask, wanted);
  PUT(shim.file.header->capabilities,
      mask_capabilities(shim.abi, wanted) | (GET(shim.qps_on) != 0 ? CULPRIT_CAP_QPS : 0) |
          (GET(shim.peer_wait_seen) != 0 && (wanted & CULPRIT_NCCL_PROXY_STEP) != 0 ? CULPRIT_CAP_PEER_WAIT : 0));
  lifecycle_note(CULPRIT_LIFE_MASK_CHANGED, now, NONE, 0, wanted, why);
}

void control_poll(uint64_t now) {
  if (!shim.settings.control) return;
  char line[LINE_BYTES];
  uint32_t wanted = shim.mask_wanted;
  const char *unknown = NULL;
  size_t unknown_bytes = 0;
  if (read_line(line, sizeof line)) {
    wanted = settings_events(line, shim.mask_wanted, &unknown, &unknown_bytes) | (ALWAYS & shim.mask_wanted);
    if (unknown != NULL) wanted = shim.mask_wanted;  // Not a line to trust.
  }
  wanted &= mask_known(shim.abi);
  if ((shim.mask_wanted & CULPRIT_NCCL_KERNEL_CH) == 0 || GET(shim.kernel_off) != 0) wanted &= ~(uint32_t)CULPRIT_NCCL_KERNEL_CH;

  ask_for(wanted, now, "control file");
}

void control_give_up_kernel(uint64_t now, const char *why) {
  PUT(shim.kernel_off, 1);
  ask_for(GET(shim.mask_now) & ~(uint32_t)CULPRIT_NCCL_KERNEL_CH, now, why);
}
