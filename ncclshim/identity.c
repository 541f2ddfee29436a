// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "identity.h"

#include "gpu.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

// given gives a job id that a launcher was told, else NULL. "none" is torchrun's default for --rdzv-id: all jobs have it.
static const char *given(const char *name) {
  const char *v = env(name);
  return v != NULL && strcasecmp(v, "none") != 0 ? v : NULL;
}

// join appends to a text what a format gives; what does not fit is cut off.
__attribute__((format(printf, 3, 4))) static void join(char *to, size_t bytes, const char *format, ...) {
  const size_t used = strlen(to);
  va_list args;
  va_start(args, format);
  vsnprintf(to + used, bytes - used, format, args);
  va_end(args);
}

// slurm_job writes the Slurm job, and behind a point the step where that holds the whole training job: two steps of one
// allocation are two jobs then. Loops that start one step a node, and launchers inside a step, make one job of many steps.
static bool slurm_job(const struct culprit_header *h, char *to, size_t bytes) {
  if (h->slurm_job_id[0] == '\0') return false;
  join(to, bytes, "%s", h->slurm_job_id);
  const int32_t step = parse_number(h->slurm_step_id);
  const int32_t nodes = env_number("GROUP_WORLD_SIZE");  // torchrun: one task of the step is one node.
  const int32_t processes = nodes > 0 ? nodes : h->world_size;
  int32_t tasks = env_number("SLURM_STEP_NUM_TASKS");
  if (tasks < 0) tasks = env_number("SLURM_NTASKS");
  if (step > 0 && processes > 0 && processes <= tasks) join(to, bytes, ".%d", step);
  return true;
}

// meeting writes where the ranks of a job meet, which no two jobs share at a time.
static bool meeting(char *to, size_t bytes) {
  const char *address = env("MASTER_ADDR"), *port = env("MASTER_PORT");
  if (address == NULL || port == NULL) return false;
  char name[256] = {0};
  const bool here = strcmp(address, "localhost") == 0 || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
  if (here) {
    if (gethostname(name, sizeof name - 1) != 0) return false;
    address = name;
  }
  join(to, bytes, "%.*s:%s", isdigit((unsigned char)*address) ? (int)strlen(address) : (int)strcspn(address, "."), address, port);
  return true;
}

// ray_job_id gives Ray's number of the job, else NULL. Newer Ray starts workers before it knows their job, and gives them its nil number.
static const char *ray_job_id(void) {
  const char *id = env("RAY_JOB_ID");
  return id != NULL && id[strspn(id, "fF")] != '\0' ? id : NULL;
}

// operator_job writes what operators of Kubernetes and Ray call the job. A pod's namespace goes before it: names are unique in a
// namespace only.
static bool operator_job(char *to, size_t bytes) {
  const char *space = env("POD_NAMESPACE"), *name = env("JOB_NAME"), *leader = env("LWS_LEADER_ADDRESS");
  const char *ray = ray_job_id(), *cluster = env("RAY_CLUSTER_NAME");
  char place[320] = {0};
  const bool meets = meeting(place, sizeof place);
  if (name == NULL && ray == NULL && cluster == NULL && leader == NULL && !meets) return false;
  if (space != NULL) join(to, bytes, "%s/", space);
  if (name != NULL) {
    join(to, bytes, "%s", name);
  } else if (ray != NULL || cluster != NULL) {  // A Ray cluster runs many jobs, and counts them from one.
    const char *job = ray != NULL ? ray : place;
    join(to, bytes, "%s%s%s", cluster != NULL ? cluster : "", cluster != NULL && *job != '\0' ? "/" : "", job);
  } else if (leader != NULL) {
    join(to, bytes, "%.*s", (int)strcspn(leader, "."), leader);
  } else {
    join(to, bytes, "%s", place);
  }
  return true;
}

// pod_job writes the name of what owns the pod: the pod's own without its number, which a controller puts behind it.
static bool pod_job(const struct culprit_header *h, char *to, size_t bytes) {
  if (h->pod_name[0] == '\0') return false;
  const char *index = env("JOB_COMPLETION_INDEX");
  size_t used = strlen(h->pod_name);
  if (index != NULL) {  // NAME-INDEX-RANDOM, or NAME-INDEX where only the host's name is known.
    char middle[32];
    const int n = snprintf(middle, sizeof middle, "-%s-", index);
    const char *at = strstr(h->pod_name, middle);
    const size_t last = n > 0 && n < (int)sizeof middle ? (size_t)n - 1 : used;
    if (at != NULL) {
      used = (size_t)(at - h->pod_name);
    } else if (used > last && strncmp(h->pod_name + used - last, middle, last) == 0) {
      used -= last;
    }
  } else {
    while (used > 0 && isdigit((unsigned char)h->pod_name[used - 1])) used--;
    used = used > 0 && h->pod_name[used - 1] == '-' ? used - 1 : strlen(h->pod_name);
  }
  if (used == 0) return false;
  if (h->pod_namespace[0] != '\0') join(to, bytes, "%s/", h->pod_namespace);
  join(to, bytes, "%.*s", (int)used, h->pod_name);
  return true;
}

// fill_job finds what tells this job from all others, surest first. Empty: the exporter takes the first communicator.
static void fill_job(struct culprit_header *h) {
  static const char *const batch[] = {"PBS_JOBID", "LSB_JOBID", NULL};
  static const char *const slurm_ids[] = {"SLURM_JOB_ID", "SLURM_JOBID", NULL};
  static const char *const slurm_step[] = {"SLURM_STEP_ID", "SLURM_STEPID", NULL};
  COPY(h->slurm_job_id, first_env(slurm_ids));
  COPY(h->slurm_step_id, first_env(slurm_step));
  COPY(h->pod_name, env("POD_NAME"));
  if (h->pod_name[0] == '\0' && env("KUBERNETES_SERVICE_HOST") != NULL) COPY(h->pod_name, env("HOSTNAME"));
  COPY(h->pod_namespace, env("POD_NAMESPACE"));
  static const char *const pod_uids[] = {"CULPRIT_POD_UID", "POD_UID", NULL};  // The first is the admission webhook's.
  COPY(h->pod_uid, first_env(pod_uids));
  COPY(h->container_name, env("CONTAINER_NAME"));

  char found[sizeof h->job_id] = {0};
  const char *own = given("CULPRIT_JOB_ID");
  if (own == NULL && !slurm_job(h, found, sizeof found)) {
    own = given("TORCHELASTIC_RUN_ID");
    if (own == NULL) own = given("PET_RDZV_ID");
    if (own == NULL) own = first_env(batch);
    if (own == NULL && !operator_job(found, sizeof found)) {
      own = env("PMIX_NAMESPACE");  // Open MPI's name for what one mpirun started.
      if (own == NULL) pod_job(h, found, sizeof found);
    }
  }
  COPY(h->job_id, own != NULL ? own : found);
}

// chosen tells whether NCCL_SOCKET_IFNAME names an interface: prefixes behind an optional ^ (none of them) or = (whole names). Without it all but
// Docker's are taken, as NCCL does.
static bool chosen(const char *name) {
  const char *list = env("NCCL_SOCKET_IFNAME");
  if (list == NULL) list = "^docker";
  const bool unless = *list == '^';
  if (unless) list++;
  const bool whole = *list == '=';
  if (whole) list++;
  for (;;) {
    const size_t n = strcspn(list, ",:");
    if (n > 0 && strncmp(name, list, n) == 0 && (!whole || name[n] == '\0')) return !unless;
    list += n;
    if (*list == '\0') return unless;
    list += strcspn(list, ",");  // A port behind the name.
    if (*list == ',') list++;
  }
}

// fill_address notes CULPRIT_ADDRESS, else the first address of the interfaces that NCCL's sockets may use: IPv4 before IPv6.
static void fill_address(struct culprit_header *h) {
  const char *given = env("CULPRIT_ADDRESS");
  COPY(h->address, given);
  if (given != NULL) return;
  struct ifaddrs *all = NULL;
  if (getifaddrs(&all) != 0) return;
  const int families[] = {AF_INET, AF_INET6};
  for (int i = 0; i < 2 && h->address[0] == '\0'; i++) {
    for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
      if (a->ifa_addr == NULL || a->ifa_addr->sa_family != families[i] || (a->ifa_flags & IFF_UP) == 0 ||
          (a->ifa_flags & IFF_LOOPBACK) != 0 || !chosen(a->ifa_name)) {
        continue;
      }
      const struct sockaddr_in *four = (const void *)a->ifa_addr;
      const struct sockaddr_in6 *six = (const void *)a->ifa_addr;
      if (i == 1 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
      if (inet_ntop(families[i], i == 0 ? (const void *)&four->sin_addr : &six->sin6_addr, h->address, sizeof h->address) != NULL) break;
    }
  }
  freeifaddrs(all);
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

static const char *visible_devices(void) {
  static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", NULL};
  return first_env(names);
}

int32_t identity_gpu_index(int32_t device) {
  const char *visible = visible_devices();
  char entry[64];
  if (device < 0 || visible == NULL) return device;
  return nth_device(visible, device, entry, sizeof entry) ? parse_number(entry) : -1;
}

static void fill_gpu(struct culprit_header *h) {
  const char *visible = visible_devices();
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

  gpu_describe(gpu_current(), h->gpu_uuid, sizeof h->gpu_uuid, h->gpu_pci_bus_id, sizeof h->gpu_pci_bus_id);
  const int32_t given = env_number("CULPRIT_GPU");
  if (given >= 0) h->gpu_index = given;
  if (env("CULPRIT_GPU_UUID") != NULL) COPY(h->gpu_uuid, env("CULPRIT_GPU_UUID"));
  if (env("CULPRIT_GPU_PCI_BUS_ID") != NULL) COPY(h->gpu_pci_bus_id, env("CULPRIT_GPU_PCI_BUS_ID"));
}

void identity_fill(struct culprit_header *h) {
  fill_ranks(h);
  fill_job(h);
  fill_host(h);
  fill_address(h);
  fill_gpu(h);
  COPY(h->shim_version, CULPRIT_VERSION);
}
