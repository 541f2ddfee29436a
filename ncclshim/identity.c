// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "identity.h"

#include "gpu.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY(field, text) copy_text(field, sizeof(field), text)

static void copy_text(char *to, size_t bytes, const char *from) {
  memset(to, 0, bytes);
  if (from == NULL) return;
  size_t n = strnlen(from, bytes - 1);
  while (n > 0 && isspace((unsigned char)from[n - 1])) n--;
  memcpy(to, from, n);
}

static const char *env(const char *name) {
  const char *v = getenv(name);
  return v != NULL && *v != '\0' ? v : NULL;
}

// first_env gives the first of the variables that is set, else NULL. The list ends with NULL.
static const char *first_env(const char *const *names) {
  for (; *names != NULL; names++) {
    const char *v = env(*names);
    if (v != NULL) return v;
  }
  return NULL;
}

// env_number gives a variable's value when it is a number from 0 to INT32_MAX, else -1.
static int32_t parse_number(const char *text) {
  if (text == NULL || !isdigit((unsigned char)*text)) return -1;
  char *end = NULL;
  errno = 0;
  const long v = strtol(text, &end, 10);
  return errno == 0 && *end == '\0' && v <= INT32_MAX ? (int32_t)v : -1;
}

static int32_t env_number(const char *name) { return name == NULL ? -1 : parse_number(env(name)); }

static void read_file(const char *path, char *to, size_t bytes) {
  memset(to, 0, bytes);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char text[512];
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return;
  text[n] = '\0';
  copy_text(to, bytes, text);
}

static uint64_t start_ticks(const char *path) {
  char text[512];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  const char *p = strrchr(text, ')');  // The command's name may hold anything; it ends at the last parenthesis.
  for (int field = 2; p != NULL && field < 22; field++) p = strchr(p + 1, ' ');
  return p == NULL ? 0 : strtoull(p + 1, NULL, 10);
}

uint64_t identity_start_ticks(uint32_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%u/stat", pid);
  return start_ticks(path);
}

// A launcher's variables. The first launcher whose rank is set is believed for all four; what it leaves out is unknown.
struct launcher {
  const char *rank, *world_size, *local_rank, *node_rank;
};

static const struct launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK"},  // torchrun.
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", NULL},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL},
    {"PMIX_RANK", NULL, NULL, NULL},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID"},  // Last: other launchers run inside Slurm.
};

static void fill_ranks(struct culprit_header *h) {
  h->rank = h->world_size = h->local_rank = h->node_rank = -1;
  for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
    h->rank = env_number(launchers[i].rank);
    if (h->rank < 0) continue;
    h->world_size = env_number(launchers[i].world_size);
    h->local_rank = env_number(launchers[i].local_rank);
    h->node_rank = env_number(launchers[i].node_rank);
    break;
  }
  if (h->node_rank < 0) h->node_rank = env_number("NODE_RANK");
  if (h->node_rank < 0) h->node_rank = env_number("SLURM_NODEID");
}

static void fill_job(struct culprit_header *h) {
  static const char *const job[] = {"CULPRIT_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PBS_JOBID",
                                    "LSB_JOBID",      "JOB_NAME",     NULL};
  static const char *const slurm_job[] = {"SLURM_JOB_ID", "SLURM_JOBID", NULL};
  static const char *const slurm_step[] = {"SLURM_STEP_ID", "SLURM_STEPID", NULL};
  COPY(h->job_id, first_env(job));
  COPY(h->slurm_job_id, first_env(slurm_job));
  COPY(h->slurm_step_id, first_env(slurm_step));
  COPY(h->pod_name, env("POD_NAME"));
  if (h->pod_name[0] == '\0' && env("KUBERNETES_SERVICE_HOST") != NULL) COPY(h->pod_name, env("HOSTNAME"));
  COPY(h->pod_namespace, env("POD_NAMESPACE"));
  COPY(h->pod_uid, env("POD_UID"));
  COPY(h->container_name, env("CONTAINER_NAME"));
}

static void fill_host(struct culprit_header *h) {
  char name[256] = {0};
  if (gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
  const char *given = env("CULPRIT_HOSTNAME");
  if (given == NULL && name[0] == '\0') given = env("HOSTNAME");
  COPY(h->hostname, given != NULL ? given : name);
  read_file("/proc/sys/kernel/random/boot_id", h->boot_id, sizeof h->boot_id);
  read_file("/proc/self/comm", h->process_name, sizeof h->process_name);
  struct stat ns;
  h->pid_namespace = stat("/proc/self/ns/pid", &ns) == 0 ? (uint64_t)ns.st_ino : 0;
  h->pid = (uint32_t)getpid();
  h->start_ticks = start_ticks("/proc/self/stat");  // Not by number: procfs may be mounted for an outer PID namespace.
}

// nth_device copies entry n of a device list ("0,1", "GPU-…,GPU-…"); false when there is none.
static bool nth_device(const char *list, int32_t n, char *to, size_t bytes) {
  for (; n > 0; n--) {
    list = strchr(list, ',');
    if (list == NULL) return false;
    list++;
  }
  const size_t length = strcspn(list, ",");
  if (length == 0 || length >= bytes) return false;
  memcpy(to, list, length);
  to[length] = '\0';
  return true;
}

static void fill_gpu(struct culprit_header *h) {
  static const char *const visible_names[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", NULL};
  const char *visible = first_env(visible_names);
  COPY(h->visible_devices, visible);

  // A launcher shows each process either all GPUs (entry local_rank is ours) or ours alone.
  h->gpu_index = -1;
  char entry[64];
  const bool single = visible != NULL && strchr(visible, ',') == NULL;
  if (visible == NULL) {
    h->gpu_index = h->local_rank;
  } else if ((single || h->local_rank >= 0) && nth_device(visible, single ? 0 : h->local_rank, entry, sizeof entry)) {
    h->gpu_index = parse_number(entry);
    if (strncmp(entry, "GPU-", 4) == 0 || strncmp(entry, "MIG-", 4) == 0) COPY(h->gpu_uuid, entry);
  }

  gpu_describe(h->gpu_uuid, sizeof h->gpu_uuid, h->gpu_pci_bus_id, sizeof h->gpu_pci_bus_id);
  const int32_t given = env_number("CULPRIT_GPU");
  if (given >= 0) h->gpu_index = given;
  if (env("CULPRIT_GPU_UUID") != NULL) COPY(h->gpu_uuid, env("CULPRIT_GPU_UUID"));
  if (env("CULPRIT_GPU_PCI_BUS_ID") != NULL) COPY(h->gpu_pci_bus_id, env("CULPRIT_GPU_PCI_BUS_ID"));
}

void identity_fill(struct culprit_header *h) {
  fill_ranks(h);
  fill_job(h);
  fill_host(h);
  fill_gpu(h);
  COPY(h->shim_version, SHIM_VERSION);
}
