// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// How a GPU is connected: PCI Express, NVLink, fabric, other GPUs, CPUs.

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"

enum {
  NVLINK_VERSION_3 = 4,  // The code of NVLink 3.0.
  NVLINK_CAPABILITIES = 6,
  NVLINK_CAPABILITY_VALID = 5,
  NVLINK_ERRORS = 5,
  REMOTE_SWITCH = 2,
  P2P_OK = 0,
  P2P_NOT_SUPPORTED = 5,
  P2P_CAPABILITIES = 5,
  TOPOLOGY_INTERNAL = 0,
  TOPOLOGY_NODE = 40,
  MIN_SAMPLE_NS = 20000000,
};

// PCI Express.

static const unsigned generation_mbps[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};  // A lane.

static unsigned speed_of(unsigned generation) {
  return generation < sizeof generation_mbps / sizeof *generation_mbps ? generation_mbps[generation] : 0;
}

GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, r.pcie_generation)
GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, r.pcie_width)
GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, ((void)r, MAX_PCIE_GENERATION))
GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, ((void)r, MAX_PCIE_GENERATION))
GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, ((void)r, MAX_PCIE_WIDTH))
GETTER(nvmlDeviceGetPcieReplayCounter, unsigned, r.pcie_replays)
GETTER(nvmlDeviceGetPcieSpeed, unsigned, speed_of(r.pcie_generation))
GETTER(nvmlDeviceGetPcieLinkMaxSpeed, unsigned, ((void)r, speed_of(MAX_PCIE_GENERATION)))

// What had been carried at the last question in this direction.
static struct carried {
  uint64_t at_ns, bytes;
  unsigned kib;  // A second.
} carried[NODE_GPUS_MAX][2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

NVML_API int nvmlDeviceGetPcieThroughput(struct gpu *gpu, unsigned direction, unsigned *kib) {
  struct reading r;
  int result = gpu_read(gpu, &r);
  if (result != NVML_OK) return result;
  if (!kib || direction > 1) return NVML_INVALID_ARGUMENT;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  uint64_t bytes = direction == 0 ? r.pcie_out : r.pcie_in;  // 0: from the GPU to the host.
  pthread_mutex_lock(&lock);
  struct carried *c = &carried[gpu_index(gpu)][direction];
  if (!c->at_ns || bytes < c->bytes) {
    *c = (struct carried){now, bytes, 0};
  } else if (now - c->at_ns >= MIN_SAMPLE_NS) {
    double rate = (double)(bytes - c->bytes) / 1024 / ((double)(now - c->at_ns) / 1e9);
    *c = (struct carried){now, bytes, (unsigned)rate};
  }
  *kib = c->kib;
  pthread_mutex_unlock(&lock);
  return NVML_OK;
}

// NVLink. All links lead to a switch. They carry nothing: NCCL is told that it cannot use them between GPUs.

static int link_of(const struct gpu *gpu, unsigned link, const void *out, struct reading *r) {
  int result = gpu_read(gpu, r);
  if (result != NVML_OK) return result;
  return out && link < NVLINKS ? NVML_OK : NVML_INVALID_ARGUMENT;
}

NVML_API int nvmlDeviceGetNvLinkState(struct gpu *gpu, unsigned link, int *active) {
  struct reading r;
  int result = link_of(gpu, link, active, &r);
  if (result == NVML_OK) *active = !(r.links_down >> link & 1);
  return result;
}

NVML_API int nvmlDeviceGetNvLinkVersion(struct gpu *gpu, unsigned link, unsigned *version) {
  struct reading r;
  int result = link_of(gpu, link, version, &r);
  if (result == NVML_OK) *version = NVLINK_VERSION_3;
  return result;
}

NVML_API int nvmlDeviceGetNvLinkCapability(struct gpu *gpu, unsigned link, unsigned capability, unsigned *has) {
  struct reading r;
  int result = link_of(gpu, link, has, &r);
  if (result != NVML_OK) return result;
  if (capability >= NVLINK_CAPABILITIES) return NVML_INVALID_ARGUMENT;
  *has = capability == NVLINK_CAPABILITY_VALID;
  return NVML_OK;
}

NVML_API int nvmlDeviceGetNvLinkErrorCounter(struct gpu *gpu, unsigned link, unsigned kind, unsigned long long *count) {
  struct reading r;
  int result = link_of(gpu, link, count, &r);
  if (result != NVML_OK) return result;
  if (kind >= NVLINK_ERRORS) return NVML_INVALID_ARGUMENT;
  *count = link == 0 ? r.link_errors : 0;
  return NVML_OK;
}

NVML_API int nvmlDeviceGetNvLinkRemoteDeviceType(struct gpu *gpu, unsigned link, unsigned *type) {
  struct reading r;
  int result = link_of(gpu, link, type, &r);
  if (result == NVML_OK) *type = REMOTE_SWITCH;
  return result;
}

NVML_API int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct gpu *gpu, unsigned link, struct pci_info *pci) {
  struct reading r;
  int result = link_of(gpu, link, pci, &r);
  if (result != NVML_OK) return result;
  *pci = (struct pci_info){.bus_id_short = "0000:C8:00.0", .bus = 0xc8, .device_id = 0x1af110de, .bus_id = "00000000:C8:00.0"};
  return NVML_OK;
}

// Fabric: there is none.

NVML_API int nvmlDeviceGetGpuFabricInfo(struct gpu *gpu, struct fabric_info *info) {
  if (!info) return NVML_INVALID_ARGUMENT;
  *info = (struct fabric_info){0};
  return gpu_check(gpu);
}

NVML_API int nvmlDeviceGetGpuFabricInfoV(struct gpu *gpu, void *info) {
  if (!info) return NVML_INVALID_ARGUMENT;
  unsigned version;
  memcpy(&version, info, sizeof version);
  if (version == NVML_VERSION(struct fabric_info_v2, 2)) {
    *(struct fabric_info_v2 *)info = (struct fabric_info_v2){.version = version};
  } else if (version == NVML_VERSION(struct fabric_info_v3, 3)) {
    *(struct fabric_info_v3 *)info = (struct fabric_info_v3){.version = version};
  } else {
    return NVML_ARGUMENT_VERSION_MISMATCH;
  }
  return gpu_check(gpu);
}

// Topology: one socket with all CPUs and GPUs, each GPU at a root port of its own.

static int cpus(const struct gpu *gpu, unsigned words, unsigned long *set) {
  if (!set || words == 0) return NVML_INVALID_ARGUMENT;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  memset(set, 0, words * sizeof *set);
  for (unsigned i = 0; i < words * 64 && i < (unsigned)online; i++) set[i / 64] |= 1ul << i % 64;
  return gpu_check(gpu);
}

NVML_API int nvmlDeviceGetCpuAffinity(struct gpu *gpu, unsigned words, unsigned long *set) { return cpus(gpu, words, set); }
NVML_API int nvmlDeviceGetCpuAffinityWithinScope(struct gpu *gpu, unsigned words, unsigned long *set, unsigned scope) {
  return (void)scope, cpus(gpu, words, set);
}
NVML_API int nvmlDeviceGetMemoryAffinity(struct gpu *gpu, unsigned words, unsigned long *set, unsigned scope) {
  (void)scope;
  if (!set || words == 0) return NVML_INVALID_ARGUMENT;
  memset(set, 0, words * sizeof *set);
  set[0] = 1;
  return gpu_check(gpu);
}

static int both(const struct gpu *a, const struct gpu *b, const void *out) {
  int result = gpu_check(a);
  if (result == NVML_OK) result = gpu_check(b);
  return result == NVML_OK && !out ? NVML_INVALID_ARGUMENT : result;
}

NVML_API int nvmlDeviceGetTopologyCommonAncestor(struct gpu *a, struct gpu *b, int *level) {
  int result = both(a, b, level);
  if (result == NVML_OK) *level = a == b ? TOPOLOGY_INTERNAL : TOPOLOGY_NODE;
  return result;
}

NVML_API int nvmlDeviceGetTopologyNearestGpus(struct gpu *gpu, int level, unsigned *count, struct gpu **out) {
  int result = gpu_check(gpu);
  if (result != NVML_OK) return result;
  if (!count) return NVML_INVALID_ARGUMENT;
  unsigned room = *count, n = 0;
  for (int i = 0; level == TOPOLOGY_NODE && i < gpu_count(); i++) {
    if (gpu_at(i) == gpu) continue;
    if (out && n < room) out[n] = gpu_at(i);
    n++;
  }
  *count = out && room < n ? room : n;
  return NVML_OK;
}

NVML_API int nvmlDeviceGetP2PStatus(struct gpu *a, struct gpu *b, unsigned capability, int *status) {
  int result = both(a, b, status);
  if (result != NVML_OK) return result;
  if (capability >= P2P_CAPABILITIES) return NVML_INVALID_ARGUMENT;
  *status = node_p2p() ? P2P_OK : P2P_NOT_SUPPORTED;
  return NVML_OK;
}

NVML_API int nvmlDeviceOnSameBoard(struct gpu *a, struct gpu *b, int *same) {
  int result = both(a, b, same);
  if (result == NVML_OK) *same = a == b;
  return result;
}
