// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "environment.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "event.h"

enum { PATH_BYTES = 1024 };

static void host_dir(char path[PATH_BYTES], const char *dir, int host) {
  if (snprintf(path, PATH_BYTES, "%s/fakegpu/host%d", dir, host) >= PATH_BYTES) die(EXIT_SYSTEM, "path too long: %s", dir);
}

static void make_dir(const char *path) {
  if (mkdir(path, 0755) != 0 && errno != EEXIST) die(EXIT_SYSTEM, "making %s: %s", path, strerror(errno));
}

// What an earlier run asked of a GPU is over.
static void forget_controls(const char *path, int gpus) {
  for (int gpu = 0; gpu < gpus; gpu++) {
    char control[PATH_BYTES + 32];
    snprintf(control, sizeof control, "%s/gpu%d.control", path, gpu);
    unlink(control);
  }
}

void environment_of_host(const char *dir, const char *name, int host, int ranks) {
  char path[PATH_BYTES], node[PATH_BYTES + 8];
  snprintf(path, sizeof path, "%s/fakegpu", dir);
  make_dir(path);
  host_dir(path, dir, host);
  make_dir(path);
  forget_controls(path, ranks);
  snprintf(node, sizeof node, "%s/node", path);
  FILE *f = fopen(node, "we");
  if (!f || fprintf(f, "name %s\ngpus %d\n", name, ranks) < 0 || fclose(f) != 0) {
    die(EXIT_SYSTEM, "writing %s: %s", node, strerror(errno));
  }
}

void environment_of_rank(const char *dir, const char *name, int host, int local, int count) {
  char text[PATH_BYTES];
  host_dir(text, dir, host);
  setenv("FAKEGPU_DIR", text, 1);
  size_t n = 0;
  for (int gpu = local; gpu < local + count && n < sizeof text; gpu++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", n ? "," : "", gpu);
  }
  setenv("CUDA_VISIBLE_DEVICES", text, 1);
  snprintf(text, sizeof text, "%d", count);
  setenv("NCCLRUN_RANKS_PER_PROCESS", text, 1);
  // Ranks of one played host are on one host to NCCL, ranks of two are not.
  setenv("NCCL_HOSTID", name, 1);
}

void environment_clean(long pid) {
  char path[64], line[PATH_BYTES];
  snprintf(path, sizeof path, "/proc/%ld/maps", pid);
  FILE *maps = fopen(path, "re");
  if (!maps) return;
  while (fgets(line, sizeof line, maps)) {
    char *name = strstr(line, "/dev/shm/nccl-");
    if (!name || strstr(name, " (deleted)")) continue;
    name[strcspn(name, "\n")] = 0;
    unlink(name);
  }
  fclose(maps);
}

static void set_default(const char *name, const char *value) { setenv(name, value, 0); }

static void set_from_flag(const char *name, const char *value) {
  if (value) setenv(name, value, 1);
}

static void set_number(const char *name, int value, bool replace) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, replace);
}

// A port that was free a moment ago; RAS does without if somebody else was faster.
static int free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
    die(EXIT_SYSTEM, "finding a port for RAS: %s", strerror(errno));
  }
  close(fd);
  return ntohs(address.sin_port);
}

// Never the default port: other jobs on this machine would answer for this one.
static void set_ras(bool wanted) {
  if (getenv("NCCL_RAS_ADDR") || getenv("NCCL_RAS_ENABLE")) return;
  if (!wanted) {
    setenv("NCCL_RAS_ENABLE", "0", 1);
    return;
  }
  char address[32];
  snprintf(address, sizeof address, "127.0.0.1:%d", free_port());
  setenv("NCCL_RAS_ADDR", address, 1);
}

void environment_of_nccl(const struct options *o) {
  static const struct {
    const char *name, *value;
  } defaults[] = {
      {"NCCL_NET", "Socket"},         {"NCCL_SOCKET_IFNAME", "lo"},    {"NCCL_IB_DISABLE", "1"},   {"NCCL_P2P_DISABLE", "1"},
      {"NCCL_CUMEM_ENABLE", "0"},     {"NCCL_CUMEM_HOST_ENABLE", "0"}, {"NCCL_MNNVL_ENABLE", "0"}, {"NCCL_NVLS_ENABLE", "0"},
      {"NCCL_GIN_ENABLE", "0"},
  };
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) set_default(defaults[i].name, defaults[i].value);
  if (o->intra == INTRA_NET) set_default("NCCL_SHM_DISABLE", "1");
  if (o->channels > 0) set_number("NCCL_MAX_CTAS", o->channels, false);
  if (o->poll_us > 0) set_number("FAKEGPU_POLL_US", o->poll_us, true);
  set_from_flag("NCCL_ALGO", o->algo);
  set_from_flag("NCCL_PROTO", o->proto);
  set_ras(o->ras);
}

int environment_gpu(int device) {
  const char *text = getenv("CUDA_VISIBLE_DEVICES");
  for (; text && device > 0; device--) {
    text = strchr(text, ',');
    if (text) text++;
  }
  return text ? atoi(text) : device;
}
