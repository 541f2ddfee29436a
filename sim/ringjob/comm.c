// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "comm.h"

#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "fault.h"
#include "meet.h"
#include "profiler.h"

// splitmix64: any digest does, as long as all members compute the same.
static uint64_t digest(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a ^ (b * 0x9e3779b97f4a7c15ull) ^ (c * 0xc2b2ae3d27d4eb4full);
  for (int i = 0; i < 2; i++) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
  }
  return x;
}

const char *func_name(enum func func) {
  static const char *const names[FUNC_COUNT] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Send", "Recv"};
  return names[func];
}

static int node_of(const struct options *options, int world_rank) {
  return options->intra == INTRA_NET ? world_rank : world_rank / options->ranks_per_host;
}

static int count_nodes(const struct comm *comm) {
  int nodes = 0;
  for (int r = 0; r < comm->nranks; r++) {
    bool seen = false;
    for (int q = 0; q < r && !seen; q++) {
      seen = node_of(comm->options, comm->members[q]) == node_of(comm->options, comm->members[r]);
    }
    nodes += !seen;
  }
  return nodes;
}

// What follows in ncclCommInitRank once the members are known.
static void comm_start(struct comm *comm) {
  size_t n = (size_t)comm->nranks;
  comm->send_number = must_calloc(n, sizeof *comm->send_number);
  comm->recv_number = must_calloc(n, sizeof *comm->recv_number);
  comm->nnodes = count_nodes(comm);
  const char *name = comm->options->comm_names ? comm->name : NULL;
  prof_comm_init(&comm->prof_context, comm->id, name, comm->nnodes, comm->nranks, comm->rank, comm->options->abi);
  comm->own_proxy = !comm->options->shared_proxy;
  comm->proxy = comm->own_proxy ? proxy_new(comm->name, comm->options->poll_ns) : proxy_shared(comm->options->poll_ns);
}

struct comm *comm_world(const struct options *options, uint64_t unique_id, const uint16_t *ports, struct gpu *gpu) {
  struct comm *comm = must_calloc(1, sizeof *comm);
  *comm = (struct comm){.name = "world",
                        .id = digest(unique_id, 0, 0),
                        .nranks = options->world_size,
                        .rank = options->rank,
                        .options = options,
                        .ports = ports,
                        .gpu = gpu};
  comm->members = must_calloc((size_t)comm->nranks, sizeof *comm->members);
  for (int r = 0; r < comm->nranks; r++) comm->members[r] = r;
  comm_start(comm);
  return comm;
}

struct comm *comm_split(struct comm *parent, int color, int key, const char *name) {
  int n = parent->nranks, round = ++parent->splits;
  int *colors = must_calloc((size_t)n, sizeof *colors), *keys = must_calloc((size_t)n, sizeof *keys);
  meet_gather(parent->id, round, parent->rank, n, color, key, colors, keys);
  struct comm *comm = NULL;
  if (color >= 0) {
    comm = must_calloc(1, sizeof *comm);
    *comm = (struct comm){.id = digest(parent->id, (uint64_t)round, (uint64_t)color),
                          .options = parent->options,
                          .ports = parent->ports,
                          .gpu = parent->gpu};
    strncpy(comm->name, name, sizeof comm->name - 1);
    comm->members = must_calloc((size_t)n, sizeof *comm->members);
    // Members in order of key, then of rank in the parent: repeatedly the least that is left.
    int last_key = -1, last_rank = -1;
    for (;;) {
      int best = -1;
      for (int r = 0; r < n; r++) {
        bool later = keys[r] > last_key || (keys[r] == last_key && r > last_rank);
        if (colors[r] == color && later && (best < 0 || keys[r] < keys[best])) best = r;
      }
      if (best < 0) break;
      if (best == parent->rank) comm->rank = comm->nranks;
      comm->members[comm->nranks++] = parent->members[best];
      last_key = keys[best];
      last_rank = best;
    }
    comm_start(comm);
  }
  free(colors);
  free(keys);
  return comm;
}

void comm_destroy(struct comm *comm) {
  if (!comm) return;
  // As in commFree: the progress thread first, the profiler last.
  if (comm->own_proxy) proxy_free(comm->proxy);
  else if (!abort_requested()) proxy_flush(comm->proxy);  // Torn down: it is gone already.
  prof_comm_finalize(comm->prof_context);
  while (comm->conns) {
    struct conn *conn = comm->conns;
    comm->conns = conn->next;
    conn_free(conn);
  }
  free(comm->members);
  free(comm->send_number);
  free(comm->recv_number);
  free(comm);
}

struct conn *comm_conn(struct comm *comm, int channel, int peer, bool is_send, bool p2p) {
  for (struct conn *c = comm->conns; c; c = c->next) {
    if (c->channel == channel && c->peer == peer && c->is_send == is_send && c->p2p == p2p) return c;
  }
  int to = comm->members[peer];
  bool net = node_of(comm->options, to) != node_of(comm->options, comm->members[comm->rank]);
  struct conn *conn = conn_new(comm, channel, peer, is_send, p2p, net, comm->options);
  if (is_send) link_connect(conn, comm->ports[to]);
  conn->next = comm->conns;
  comm->conns = conn;
  return conn;
}
