// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "tables.h"

#include "shim.h"

#include <pthread.h>
#include <sys/mman.h>

#define PAGE 4096u
#define PROXIES_A_FLOW 2u  // Room for proxy operations: twice as many as flows.

void *shim_map(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

// forked_child empties the tables where the kernel cannot do it at the fork.
static void forked_child(void) { (void)madvise(shim.tables, shim.table_bytes, MADV_DONTNEED); }

// carve cuts the next table off the private memory; without memory it only adds up.
static void *carve(size_t *used, size_t bytes) {
  void *p = shim.tables == NULL ? NULL : shim.tables + *used;
  *used += (bytes + PAGE - 1) / PAGE * PAGE;
  return p;
}

static void carve_pool(struct pool *p, uint32_t capacity, size_t *used) {
  p->capacity = capacity;
  p->next = carve(used, (size_t)capacity * sizeof *p->next);
}

static size_t carve_tables(void) {
  const struct trace_file *f = &shim.file;
  size_t used = 0;
  shim.alive = carve(&used, PAGE);
  shim.comms = carve(&used, (size_t)f->comm_count * sizeof *shim.comms);
  shim.windows = carve(&used, (size_t)f->comm_count * OP_WINDOW * sizeof *shim.windows);
  shim.buckets = carve(&used, (size_t)f->comm_count * FLOW_BUCKETS * sizeof *shim.buckets);
  shim.ops = carve(&used, (size_t)f->op_count * sizeof *shim.ops);
  shim.links = carve(&used, (size_t)f->op_count * sizeof *shim.links);
  shim.flows = carve(&used, (size_t)f->flow_count * sizeof *shim.flows);
  shim.proxies = carve(&used, (size_t)shim.proxy_count * sizeof *shim.proxies);
  shim.qps = carve(&used, (size_t)f->qp_count * sizeof *shim.qps);
  shim.transfer_starts = carve(&used, (size_t)shim.proxy_count * sizeof *shim.transfer_starts);
  carve_pool(&shim.op_pool, f->op_count, &used);
  carve_pool(&shim.flow_pool, f->flow_count, &used);
  carve_pool(&shim.proxy_pool, shim.proxy_count, &used);
  carve_pool(&shim.qp_pool, f->qp_count, &used);
  return used;
}

bool tables_reserve(void) {
  shim.proxy_count = shim.file.flow_count * PROXIES_A_FLOW;
  if (shim.proxy_count > HANDLE_INDEX_LIMIT) shim.proxy_count = HANDLE_INDEX_LIMIT;
  shim.table_bytes = carve_tables();
  shim.tables = shim_map(shim.table_bytes);
  if (shim.tables == NULL) return false;
  (void)madvise(shim.tables, shim.table_bytes, MADV_DONTDUMP);
  if (madvise(shim.tables, shim.table_bytes, MADV_WIPEONFORK) != 0 && pthread_atfork(NULL, NULL, forked_child) != 0) {
    return false;
  }
  (void)carve_tables();
  *shim.alive = 1;
  return true;
}
