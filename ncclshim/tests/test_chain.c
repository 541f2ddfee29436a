// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Another plugin behind ours (CULPRIT_CHAIN), in every combination of versions: both see everything.

#include "harness.h"
#include "nccl.h"
#include "otherplugin.h"
#include "traceview.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMM_ID 0x1234

static const struct other_counts *other_of(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  CHECK(library != NULL);
  const struct other_counts *counts = dlsym(library, "other_counts");
  CHECK(counts != NULL);
  return counts;
}

static const char *other_path(int version) {
  static char path[512];
  const char *directory = getenv("OTHERS");
  CHECK(directory != NULL);
  snprintf(path, sizeof path, "%s/other_v%d.so", directory, version);
  return path;
}

static void run_operation(void *comm) {
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 64, .seq = 5, .channels = 1});
  void *p = nccl_proxy(comm, op, 0, 1, 2, 1);
  nccl_send_steps(comm, p, 0, 1, 100);
  nccl_proxy_state(p, CULPRIT_NCCL_PROXY_OP_SEND_TRANSMITTED, 200, 2);  // Of versions 2 and 3, which tell sizes there alone.
  nccl_send_steps(comm, p, 1, 2, 100);
  void *k = nccl_kernel(comm, op, 0, 10);
  nccl_state(k, CULPRIT_NCCL_KERNEL_CH_STOP, 20);
  nccl_stop(k);
  nccl_stop(p);
}

static void check_ours(void) {
  struct view v = view_open();
  struct culprit_flow f;
  CHECK(view_find_flow(&v, COMM_ID, 0, 1, 1, &f));
  CHECK_EQ(f.done, 2);
  CHECK_EQ(f.bytes, 200);
  CHECK_EQ(VIEW_HEAD(&v, stale_events), 0);
  struct culprit_comm c;
  CHECK(view_comm(&v, 0, &c));
  CHECK_EQ(c.ops_started, 1);
  CHECK_EQ(c.comm_id, COMM_ID);
}

static unsigned bit_of(unsigned event) { return (unsigned)__builtin_ctz(event); }

static void chained(int abi, int theirs) {
  setenv("CULPRIT_EVENTS", "all", 1);
  setenv("CULPRIT_CHAIN", other_path(theirs), 1);
  if (abi >= 5 && theirs >= 5) setenv("OTHER_CALLS", "1", 1);
  nccl_load(abi);
  void *comm = nccl_init(COMM_ID, "name", 2, 4, 0);
  const struct other_counts *c = other_of(other_path(theirs));
  CHECK_EQ(c->inits, 1);
  if (theirs >= 4 && abi >= 4) CHECK_EQ(c->comm_id, COMM_ID);
  if (theirs >= 4) CHECK_EQ(c->nranks, abi >= 4 ? 4 : -1);
  run_operation(comm);
  check_ours();
  CHECK_EQ(c->wrong, 0);
  CHECK_EQ(c->orphans, 0);
  CHECK_EQ(c->starts[bit_of(CULPRIT_NCCL_GROUP)], 1);
  CHECK_EQ(c->starts[bit_of(CULPRIT_NCCL_COLL)], 1);
  CHECK_EQ(c->starts[bit_of(CULPRIT_NCCL_PROXY_OP)], 1);
  CHECK_EQ(c->starts[bit_of(CULPRIT_NCCL_PROXY_STEP)], 2);
  CHECK_EQ(c->starts[bit_of(CULPRIT_NCCL_KERNEL_CH)], theirs >= 3 && abi >= 3 ? 1 : 0);
  CHECK_EQ(c->starts[bit_of(CULPRIT_NCCL_COLL_API)], theirs >= 5 && abi >= 5 ? 1 : 0);
  if (theirs >= 4 && abi >= 4) CHECK_EQ(c->bytes, 200);
  unsigned starts = 0;
  for (int i = 0; i < 16; i++) starts += c->starts[i];
  CHECK_EQ(c->stops, starts);
  nccl_finalize(comm);
  CHECK_EQ(c->finalizes, 1);
}

static void every_combination(int abi) {
  // Each in a process of its own: the plugin chains once.
  for (int theirs = 2; theirs <= 6; theirs++) {
    if (theirs == 6) {
      chained(abi, theirs);
    } else {
      harness_fork_and_wait(abi, theirs, chained);
    }
  }
}

static void from_v2(void) { every_combination(2); }
static void from_v3(void) { every_combination(3); }
static void from_v4(void) { every_combination(4); }
static void from_v5(void) { every_combination(5); }
static void from_v6(void) { every_combination(6); }
static void from_v7(void) { every_combination(7); }

static void missing(void) {
  setenv("CULPRIT_CHAIN", "/nonexistent/plugin.so", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  CHECK(strstr(nccl_log, "CULPRIT_CHAIN") != NULL);
  run_operation(comm);
  check_ours();
}

static void not_a_plugin(void) {
  setenv("CULPRIT_CHAIN", getenv("FAKECUDA"), 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  CHECK(strstr(nccl_log, "exports no ncclProfiler") != NULL);
  run_operation(comm);
  check_ours();
}

static void other_init_fails(void) {
  setenv("CULPRIT_CHAIN", other_path(6), 1);
  setenv("OTHER_FAILS", "1", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  CHECK(strstr(nccl_log, "init fails with 3") != NULL);
  run_operation(comm);
  check_ours();
  nccl_finalize(comm);
  CHECK_EQ(other_of(other_path(6))->finalizes, 0);
}

// Each gets what it asked for, and not what only the other did.
static void masks_are_joined(void) {
  setenv("CULPRIT_EVENTS", "coll,collapi", 1);
  setenv("CULPRIT_CHAIN", other_path(6), 1);
  setenv("OTHER_MASK", "2", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  CHECK_EQ(nccl_mask, CULPRIT_NCCL_COLL | CULPRIT_NCCL_COLL_API);
  run_operation(comm);  // The events that nobody asked for too.
  struct view v = view_open();
  CHECK_EQ(view_live_flows(&v), 0);
  const struct other_counts *c = other_of(other_path(6));
  CHECK_EQ(c->starts[bit_of(CULPRIT_NCCL_COLL)], 1);
  CHECK_EQ(c->starts[bit_of(CULPRIT_NCCL_PROXY_OP)], 0);
}

// Our own tracing is impossible: the other plugin works all the same.
static void without_our_file(void) {
  setenv("CULPRIT_DIR", "/dev/null", 1);
  setenv("CULPRIT_CHAIN", other_path(6), 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 2, 4, 0);
  CHECK_EQ(nccl_mask, 0x7fff);
  run_operation(comm);
  CHECK_EQ(other_of(other_path(6))->starts[bit_of(CULPRIT_NCCL_PROXY_STEP)], 2);
  CHECK_EQ(other_of(other_path(6))->wrong, 0);
  nccl_finalize(comm);
}

// A communicator, and a call that a CUDA graph launches again and again, outlive any number of events; a communicator any number of captured
// calls, too.
static void what_lasts_is_kept(void) {
  setenv("CULPRIT_CHAIN", other_path(6), 1);
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 4, 0);
  const struct nccl_op desc = {.count = 64, .seq = 5, .channels = 1};
  void *captured = nccl_call(comm, NULL, &(struct nccl_op){.count = 64, .captured = true});
  struct view v = view_open();
  struct culprit_comm c;
  for (int i = 0; i < 70000; i++) nccl_stop(nccl_launch(comm, nccl_call(comm, NULL, &desc), NULL, &desc));
  CHECK(view_comm(&v, 0, &c));
  CHECK_EQ(c.ops_started, 70000);
  CHECK(nccl_launch(comm, captured, NULL, &desc) != NULL);
  CHECK(view_comm(&v, 0, &c));
  CHECK_EQ(c.ops_started, 70001);
  for (int i = 0; i < 70000; i++) nccl_stop(nccl_call(comm, NULL, &(struct nccl_op){.count = 64, .captured = true}));
  nccl_stop(nccl_launch(comm, nccl_call(comm, NULL, &desc), NULL, &desc));
  CHECK(view_comm(&v, 0, &c));
  CHECK_EQ(c.ops_started, 70002);
  const struct other_counts *other = other_of(other_path(6));
  CHECK_EQ(other->starts[bit_of(CULPRIT_NCCL_COLL)], 70002);
  CHECK_EQ(other->orphans, 70002);  // No group is opened.
  CHECK_EQ(other->wrong, 0);
  nccl_finalize(comm);
  CHECK_EQ(other->finalizes, 1);
}

static void old_pairs_are_forgotten(void) {
  setenv("CULPRIT_CHAIN", other_path(6), 1);
  setenv("OTHER_MASK", "2", 1);
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = nccl_init(COMM_ID, NULL, 1, 4, 0);
  void *first = nccl_call(comm, NULL, &(struct nccl_op){.count = 64});
  for (int i = 0; i < 70000; i++) nccl_call(comm, NULL, &(struct nccl_op){.count = 64});
  nccl_stop(first);
  struct view v = view_open();
  struct culprit_comm c;
  CHECK(nccl_launch(comm, first, NULL, &(struct nccl_op){.count = 64, .seq = 5}) != NULL);
  CHECK(view_comm(&v, 0, &c));
  CHECK_EQ(c.ops_called, 70002);  // One of its own, for the call is not known any more.
  nccl_stop(NULL);
  nccl_stop((void *)(uintptr_t)1);
  nccl_state((void *)(uintptr_t)UINTPTR_MAX, 8, 0);
}

static const struct test_case cases[] = {
    {"from_v2", from_v2},
    {"from_v3", from_v3},
    {"from_v4", from_v4},
    {"from_v5", from_v5},
    {"from_v6", from_v6},
    {"from_v7", from_v7},
    {"missing", missing},
    {"not_a_plugin", not_a_plugin},
    {"other_init_fails", other_init_fails},
    {"masks_are_joined", masks_are_joined},
    {"without_our_file", without_our_file},
    {"what_lasts_is_kept", what_lasts_is_kept},
    {"old_pairs_are_forgotten", old_pairs_are_forgotten},
};

TEST_MAIN(cases)
