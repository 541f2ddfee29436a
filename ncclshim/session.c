// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "session.h"

#include "chain.h"
#include "control.h"
#include "lifecycle.h"
#include "log.h"
#include "mask.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096u
#define PROXIES_A_FLOW 2u  // Room for proxy operations: as many as flows, twice.

struct shim shim = {.session = PTHREAD_MUTEX_INITIALIZER};

void shim_tick(uint64_t now, uint32_t callbacks) {
  struct culprit_header *h = shim.file.header;
  PUT(h->heartbeat_ns, now);
  BUMP(h->callbacks, callbacks);
  if (clock_refresh(&shim.clock, now)) {
    COUNT(shim.thread_epoch, 1);
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    const uint64_t real_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
    PUT(h->real_minus_mono_ns, real_ns - clock_monotonic());
    control_poll(now);
  }
}

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
  shim.flows = carve(&used, (size_t)f->flow_count * sizeof *shim.flows);
  shim.proxies = carve(&used, (size_t)shim.proxy_count * sizeof *shim.proxies);
  carve_pool(&shim.op_pool, f->op_count, &used);
  carve_pool(&shim.flow_pool, f->flow_count, &used);
  carve_pool(&shim.proxy_pool, shim.proxy_count, &used);
  return used;
}

// reserve_tables takes address space for the private tables; pages come into being as slots are used. A forked child,
// which shares the trace file and must not write to it, finds them empty, and with them every handle stale.
static bool reserve_tables(void) {
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

static bool register_membarrier(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static void at_exit(void) {
  if (GET(shim.open) == 0 || GET(*shim.alive) == 0) return;
  const uint64_t now = clock_monotonic();
  lifecycle_note(CULPRIT_LIFE_PROCESS_END, now, NONE, 0, 0, "exit");
  PUT(shim.file.header->closed_ns, now);
}

static int create_file(uint32_t abi, uint32_t mask, const char **doing) {
  const struct settings *s = &shim.settings;
  const uint64_t now = clock_monotonic();
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  const uint64_t difference = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec - now;
  const uint64_t capabilities = mask_capabilities(abi, mask);

  tracefile_reap(s->directory, s->keep_seconds, now);
  int failed = tracefile_create(&shim.file, s, abi, capabilities, now, difference, doing);
  if (failed == ENOSPC && tracefile_reap(s->directory, 0, now) > 0) {
    failed = tracefile_create(&shim.file, s, abi, capabilities, now, difference, doing);
  }
  return failed;
}

// start begins tracing; false, after a line in the log, when that is impossible or unwanted.
static bool start(uint32_t abi, uint32_t mask, culprit_nccl_logger logger) {
  const char *doing = "";
  clock_init(&shim.clock, shim.settings.clock_source);
  shim.abi = abi;
  const int failed = create_file(abi, mask, &doing);
  if (failed != 0) {
    log_warning(logger, "%s in %s: %s; this process is not traced, the job runs on", doing, shim.settings.directory,
                strerror(failed));
    return false;
  }
  if (!reserve_tables()) {
    log_warning(logger, "reserving memory: %s; this process is not traced, the job runs on", strerror(errno));
    unlink(shim.file.path);
    return false;
  }
  shim.cookie = (uint32_t)(clock_ticks() >> 4 ^ (uint64_t)shim.pid) & 0xf;
  shim.membarrier = register_membarrier();
  if (atexit(at_exit) != 0) log_info(logger, "no exit handler: the end of this process will look like a kill");
  __atomic_store_n(&shim.open, 1, __ATOMIC_RELEASE);
  lifecycle_note(CULPRIT_LIFE_PROCESS_START, shim.file.header->created_ns, NONE, 0, abi, shim.file.header->process_name);
  log_info(logger, "tracing to %s, events 0x%x, profiler ABI v%u", shim.file.path, mask, abi);
  return true;
}

static uint32_t choose_mask(uint32_t abi, culprit_nccl_logger logger) {
  const char *why = NULL, *unknown = NULL;
  size_t unknown_bytes = 0;
  const uint32_t standard = mask_default(abi, &why);
  const uint32_t wanted = settings_events(shim.settings.events, standard, &unknown, &unknown_bytes);
  const uint32_t mask = wanted & mask_known(abi);
  if (unknown != NULL) log_warning(logger, "CULPRIT_EVENTS: no event is called %.*s", (int)unknown_bytes, unknown);
  if (why != NULL && (mask & CULPRIT_NCCL_KERNEL_CH) == 0) log_info(logger, "KernelCh events are off: %s", why);
  return mask;
}

static bool begin(uint32_t abi, culprit_nccl_logger logger, uint32_t *mask) {
  if (shim.tried) {
    *mask = GET(shim.mask_now);
    return GET(shim.open) != 0 && GET(*shim.alive) != 0;
  }
  shim.tried = true;
  const char *bad = settings_read(&shim.settings);
  if (shim.settings.disabled) {
    log_info(logger, "off by CULPRIT_DISABLE");
    return false;
  }
  shim.pid = getpid();
  if (shim.settings.chain != NULL) chain_load(shim.settings.chain, abi, logger);
  if (bad != NULL) log_warning(logger, "%s does not hold a usable value, its default is taken", bad);
  shim.mask_wanted = choose_mask(abi, logger);
  *mask = shim.mask_now = shim.mask_wanted;
  return start(abi, shim.mask_wanted, logger);
}

// spare_shared_memory gives KernelCh up for communicators yet to come when NCCL's room for it has run low.
static uint32_t spare_shared_memory(uint32_t abi, uint32_t mask, culprit_nccl_logger logger) {
  const char *why = NULL;
  if ((mask & CULPRIT_NCCL_KERNEL_CH) == 0 || shim.settings.events != NULL) return mask;
  if (!shim.kernel_off && (mask_default(abi, &why) & CULPRIT_NCCL_KERNEL_CH) == 0) {
    shim.kernel_off = true;
    log_info(logger, "KernelCh events are off from here on: %s", why);
    lifecycle_note(CULPRIT_LIFE_MASK_CHANGED, shim_now(), NONE, 0, mask & ~(uint32_t)CULPRIT_NCCL_KERNEL_CH, why);
  }
  return shim.kernel_off ? mask & ~(uint32_t)CULPRIT_NCCL_KERNEL_CH : mask;
}

void session_open_comm(struct comm_info *info, void **context, int *mask, culprit_nccl_logger logger) {
  *context = NULL;
  if (__atomic_load_n(&shim.open, __ATOMIC_ACQUIRE) != 0 && GET(*shim.alive) == 0) {
    *mask = 0;  // A forked child, to which the lock may have come taken.
    return;
  }
  pthread_mutex_lock(&shim.session);
  uint32_t events = 0;
  if (!begin(info->abi, logger, &events)) {
    *mask = 0;
  } else {
    events = spare_shared_memory(info->abi, events, logger);
    const uint64_t now = shim_now();
    info->kernel_on = (events & CULPRIT_NCCL_KERNEL_CH) != 0;
    const handle h = comm_open(info, now);
    *context = handle_to_pointer(h);
    if (h != 0 && shim.comms_live++ == 0) PUT(shim.file.header->closed_ns, 0);
    PUT(*mask, (int)(events | GET(shim.mask_others)));
    PUT(shim.mask, mask);
    PUT(shim.mask_now, events);
    PUT(shim.file.header->event_mask, events);
    shim_tick(now, 1);
  }
  if (chain_on) {
    chain_open(context, mask, info->comm_id, info->name, info->nnodes, info->nranks, info->rank, logger);
  }
  pthread_mutex_unlock(&shim.session);
}

void session_close_comm(void *context) {
  if (chain_on) context = chain_close(context);
  if (!shim_active()) return;
  pthread_mutex_lock(&shim.session);
  const handle h = handle_from_pointer(context);
  if (comm_find(h) != NONE && handle_kind_of(h) == HANDLE_COMM) {
    const uint64_t now = shim_now();
    comm_close(h, now);
    if (--shim.comms_live == 0) PUT(shim.file.header->closed_ns, now);
    shim_tick(now, 1);
  }
  pthread_mutex_unlock(&shim.session);
}
