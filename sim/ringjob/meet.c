// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "meet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "event.h"
#include "rendezvous.h"

uint16_t *meet(const struct options *options, uint16_t port, uint64_t *unique_id) {
  char name[64], text[64];
  rendezvous_open(options->rendezvous, options->rendezvous_ns);
  if (options->rank == 0) {
    uint64_t id;
    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id) die(EXIT_SYSTEM, "getrandom: %s", strerror(errno));
    snprintf(text, sizeof text, "%" PRIx64 "\n", id);
    rendezvous_publish("unique_id", text);
  }
  snprintf(name, sizeof name, "rank.%d.port", options->rank);
  snprintf(text, sizeof text, "%u\n", port);
  rendezvous_publish(name, text);

  uint16_t *ports = must_calloc((size_t)options->world_size, sizeof *ports);
  for (int r = 0; r < options->world_size; r++) {
    snprintf(name, sizeof name, "rank.%d.port", r);
    rendezvous_await(name, text, sizeof text);
    ports[r] = (uint16_t)strtoul(text, NULL, 10);
  }
  rendezvous_await("unique_id", text, sizeof text);
  *unique_id = strtoull(text, NULL, 16);
  return ports;
}

void meet_gather(uint64_t comm_id, int round, int rank, int nranks, int color, int key, int *colors, int *keys) {
  char name[96], text[64];
  snprintf(name, sizeof name, "split.%" PRIx64 ".%d.%d", comm_id, round, rank);
  snprintf(text, sizeof text, "%d %d\n", color, key);
  rendezvous_publish(name, text);
  for (int r = 0; r < nranks; r++) {
    snprintf(name, sizeof name, "split.%" PRIx64 ".%d.%d", comm_id, round, r);
    rendezvous_await(name, text, sizeof text);
    if (sscanf(text, "%d %d", &colors[r], &keys[r]) != 2) die(EXIT_SYSTEM, "rendezvous: %s is broken", name);
  }
}
