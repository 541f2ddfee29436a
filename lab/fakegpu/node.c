// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "node.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  char name[64];
  int gpus;
  int major, minor;  // compute capability
  bool p2p;
  int devices;
  int gpu_of_device[NODE_GPUS_MAX];
} node;

static void read_node(void) {
  const char *directory = node_directory();
  char path[4096];
  FILE *file = NULL;
  if (directory && snprintf(path, sizeof path, "%s/node", directory) < (int)sizeof path) file = fopen(path, "re");
  if (!file) return;
  char line[256], name[64];
  int gpus, major, minor, p2p;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "name %63s", name) == 1) strcpy(node.name, name);
    if (sscanf(line, "gpus %d", &gpus) == 1 && gpus >= 0 && gpus <= NODE_GPUS_MAX) node.gpus = gpus;
    if (sscanf(line, "compute %d.%d", &major, &minor) == 2) node.major = major, node.minor = minor;
    if (sscanf(line, "p2p %d", &p2p) == 1) node.p2p = p2p;
  }
  fclose(file);
}

// As the CUDA runtime does, ends at the first entry that names no GPU.
static void read_visible(void) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) {
    for (int i = 0; i < node.gpus; i++) node.gpu_of_device[node.devices++] = i;
    return;
  }
  for (const char *at = visible; *at && node.devices < NODE_GPUS_MAX;) {
    char *end;
    long gpu = strtol(at, &end, 10);
    if (end == at || gpu < 0 || gpu >= node.gpus) return;
    node.gpu_of_device[node.devices++] = (int)gpu;
    at = *end == ',' ? end + 1 : end;
  }
}

static void fill(void) {
  strcpy(node.name, "fakegpu");
  node.gpus = 1;
  node.major = 8;
  read_node();
  read_visible();
}

static void need(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill);
}

const char *node_directory(void) { return getenv("FAKEGPU_DIR"); }
const char *node_name(void) { return need(), node.name; }
int node_gpus(void) { return need(), node.gpus; }
void node_compute(int *major, int *minor) { need(), *major = node.major, *minor = node.minor; }
bool node_p2p(void) { return need(), node.p2p; }
int node_devices(void) { return need(), node.devices; }
int node_gpu_of_device(int device) { return need(), device >= 0 && device < node.devices ? node.gpu_of_device[device] : -1; }

int node_path(int gpu, const char *ending, char *path, size_t size) {
  const char *directory = node_directory();
  return directory && (size_t)snprintf(path, size, "%s/gpu%d.%s", directory, gpu, ending) < size;
}

unsigned node_pci_bus(int gpu) { return 0x10u + (unsigned)gpu; }

void node_pci_text(int gpu, char text[NODE_PCI_TEXT]) { snprintf(text, NODE_PCI_TEXT, "0000:%02X:00.0", node_pci_bus(gpu)); }

static uint64_t hash(uint64_t h, const void *data, size_t size) {  // FNV-1a
  const uint8_t *bytes = data;
  for (size_t i = 0; i < size; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
  return h;
}

void node_uuid(int gpu, uint8_t uuid[16]) {
  uint64_t halves[2];
  for (int i = 0; i < 2; i++) {
    halves[i] = hash(0xcbf29ce484222325u + (uint64_t)i, node_name(), strlen(node_name()));
    halves[i] = hash(halves[i], &gpu, sizeof gpu);
  }
  memcpy(uuid, halves, sizeof halves);
}

void node_uuid_text(int gpu, char text[NODE_UUID_TEXT]) {
  uint8_t uuid[16];
  node_uuid(gpu, uuid);
  char *at = text + sprintf(text, "GPU");
  for (int i = 0; i < 16; i++) {
    at += sprintf(at, i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
  }
}
