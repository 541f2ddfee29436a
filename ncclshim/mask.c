// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "mask.h"

#include "culprit_trace.h"

#include <dlfcn.h>
#include <stddef.h>
#include <sys/statvfs.h>

#define OPERATIONS (CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P | CULPRIT_NCCL_PROXY_OP | CULPRIT_NCCL_PROXY_STEP)
#define CALLS (CULPRIT_NCCL_GROUP_API | CULPRIT_NCCL_COLL_API | CULPRIT_NCCL_P2P_API)

#define NCCL_2_28_3 22803
#define NCCL_2_31 23100

// With KernelCh NCCL takes about 33 MiB of /dev/shm for each communicator, and does not survive running out of it.
#define KERNEL_SHM_BYTES ((uint64_t)33 << 20)
#define KERNEL_SHM_COMMS 16u

uint32_t mask_known(uint32_t abi) {
  uint32_t mask = OPERATIONS;
  if (abi >= 3) mask |= CULPRIT_NCCL_KERNEL_CH;
  if (abi >= 5) mask |= CALLS;
  if (abi >= 6) mask |= CULPRIT_NCCL_CE_COLL;
  return mask;
}

// nccl_version gives NCCL's version code (major * 10000 + minor * 100 + patch), 0 when its library cannot be asked: it may
// be linked into another one.
static int nccl_version(void) {
  int (*get)(int *) = NULL;
  int version = 0;
  *(void **)&get = dlsym(RTLD_DEFAULT, "ncclGetVersion");
  if (get != NULL) return get(&version) == 0 ? version : 0;
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return 0;
  *(void **)&get = dlsym(library, "ncclGetVersion");
  if (get == NULL || get(&version) != 0) version = 0;
  dlclose(library);
  return version;
}

static bool shared_memory_is_scarce(void) {
  struct statvfs fs;
  if (statvfs("/dev/shm", &fs) != 0) return true;
  return (uint64_t)fs.f_bavail * fs.f_frsize < KERNEL_SHM_BYTES * KERNEL_SHM_COMMS;
}

// The one event with side effects inside NCCL (a progress thread and shared memory for each communicator), and the only
// one that sees inside a node.
static const char *no_kernel_because(uint32_t abi) {
  if (abi < 5) return "NCCL before 2.28 may lose its proxy thread with it";
  const int version = nccl_version();
  if (version != 0 && version < NCCL_2_28_3) return "NCCL before 2.28.3 may lose its proxy thread with it";
  if (abi >= 7 || version >= NCCL_2_31) return "it slows small operations of NCCL 2.31 and later";
  if (shared_memory_is_scarce()) return "/dev/shm has too little room for what NCCL needs with it";
  return NULL;
}

uint32_t mask_default(uint32_t abi, const char **why_no_kernel) {
  *why_no_kernel = no_kernel_because(abi);
  const uint32_t mask = mask_known(abi);
  return *why_no_kernel == NULL ? mask : mask & ~(uint32_t)CULPRIT_NCCL_KERNEL_CH;
}

uint64_t mask_capabilities(uint32_t abi, uint32_t mask) {
  uint64_t capabilities = CULPRIT_CAP_COMM_IDENTITY;
  if ((mask & (CULPRIT_NCCL_COLL_API | CULPRIT_NCCL_P2P_API)) != 0) capabilities |= CULPRIT_CAP_API_EVENTS;
  if ((mask & CULPRIT_NCCL_PROXY_STEP) != 0) {
    capabilities |= CULPRIT_CAP_PROXY_STEPS;
    if (abi >= 4) capabilities |= CULPRIT_CAP_PEER_WAIT;
  }
  if ((mask & CULPRIT_NCCL_KERNEL_CH) != 0) {
    capabilities |= CULPRIT_CAP_KERNEL_CH;
    if (abi >= 4) capabilities |= CULPRIT_CAP_KERNEL_TIMER;
  }
  if ((mask & (CULPRIT_NCCL_KERNEL_CH | CULPRIT_NCCL_PROXY_OP)) != 0) capabilities |= CULPRIT_CAP_COMPLETION;
  if (abi >= 5 && (mask & CULPRIT_NCCL_P2P) != 0) capabilities |= CULPRIT_CAP_P2P_CHANNELS;
  return capabilities;
}
