// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "session.h"

#include "chain.h"
#include "control.h"
#include "guard.h"
#include "lifecycle.h"
#include "log.h"
#include "mask.h"
#include "tables.h"
#include "version.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct shim shim = {.session = PTHREAD_MUTEX_INITIALIZER};

// give_up ends tracing for good: what is written from now on reaches nobody.
static void give_up(void) {
  uint32_t open = 1;
  if (!__atomic_compare_exchange_n(&shim.open, &open, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
  int *mask = GET(shim.mask);
  if (mask != NULL) PUT(*mask, (int)GET(shim.mask_others));
  log_warning(NULL, "%s was truncated; this process is no longer traced, the job runs on", shim.file.path);
}

void shim_refresh(uint64_t now) {
  if (!clock_refresh(&shim.clock, now)) return;
  if (guard_lost()) {
    give_up();
    return;
  }
  COUNT(shim.thread_epoch, 1);
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  const uint64_t real_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
  PUT(shim.file.header->real_minus_mono_ns, real_ns - clock_monotonic());
  control_poll(now);
}

// in_child says whether this is a forked child of a traced process, to which the session's lock may have come taken.
static bool in_child(void) { return __atomic_load_n(&shim.open, __ATOMIC_ACQUIRE) != 0 && GET(*shim.alive) == 0; }

static bool register_membarrier(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static void at_exit(void) {
  if (shim_active()) {
    const uint64_t now = clock_monotonic();
    lifecycle_note(CULPRIT_LIFE_PROCESS_END, now, NONE, 0, 0, "exit");
    PUT(shim.file.header->closed_ns, now);
  }
  guard_end();
}

// reap removes what ended processes of this user left, in the root itself too: older plugins make their files there.
static unsigned reap(const struct trace_directory *d, uint64_t keep_seconds, uint64_t now) {
  return tracefile_reap(d->root, keep_seconds, now) + tracefile_reap(d->own, keep_seconds, now);
}

static int create_file(const char **doing) {
  const struct settings *s = &shim.settings;
  const uint64_t now = clock_monotonic();
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  const uint64_t difference = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec - now;

  struct trace_directory d;
  int failed = tracedir_open(&d, s->directory, doing);
  if (failed != 0) return failed;
  reap(&d, s->keep_seconds, now);
  failed = tracefile_create(&shim.file, &d, s, now, difference, doing);
  if (failed == ENOSPC && reap(&d, 0, now) > 0) {
    failed = tracefile_create(&shim.file, &d, s, now, difference, doing);
  }
  tracedir_close(&d);
  return failed;
}

// start begins tracing; false, after a line in the log, when that is impossible.
static bool start(culprit_nccl_logger logger) {
  const char *doing = "";
  clock_init(&shim.clock, shim.settings.clock_source);
  const int failed = create_file(&doing);
  if (failed != 0) {
    log_warning(logger, "%s in %s: %s; this process is not traced, the job runs on", doing, shim.settings.directory,
                strerror(failed));
    return false;
  }
  if (!tables_reserve()) {
    log_warning(logger, "reserving memory: %s; this process is not traced, the job runs on", strerror(errno));
    unlink(shim.file.path);
    return false;
  }
  guard_begin(shim.file.header, shim.file.bytes);
  shim.cookie = (uint32_t)(clock_ticks() >> 4 ^ (uint64_t)shim.pid) & 0xf;
  shim.membarrier = register_membarrier();
  PUT(shim.transfers_on, shim.settings.transfers);
  if (atexit(at_exit) != 0) log_info(logger, "no exit handler: the end of this process will look like a kill");
  __atomic_store_n(&shim.open, 1, __ATOMIC_RELEASE);
  lifecycle_note(CULPRIT_LIFE_PROCESS_START, shim.file.header->created_ns, NONE, 0, 0, shim.file.header->process_name);
  log_info(logger, "%s, tracing to %s", culprit_shim_version, shim.file.path);
  return true;
}

// open_file begins tracing if that has not been tried yet, and says whether events are taken. The caller holds the session.
static bool open_file(culprit_nccl_logger logger) {
  if (shim.tried) return shim_active();
  shim.tried = true;
  shim.pid = getpid();
  const char *bad = settings_read(&shim.settings);
  if (shim.settings.disabled) {
    log_info(logger, "off by CULPRIT_DISABLE");
    return false;
  }
  if (bad != NULL) log_warning(logger, "%s does not hold a usable value, its default is taken", bad);
  return start(logger);
}

bool session_open_file(void) {
  if (in_child()) return false;
  pthread_mutex_lock(&shim.session);
  const bool active = open_file(NULL);
  pthread_mutex_unlock(&shim.session);
  return active;
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

// attach is the first communicator's part: NCCL has come, and with it the version of the ABI.
static void attach(uint32_t abi, culprit_nccl_logger logger) {
  if (shim.abi != 0) return;
  shim.abi = abi;
  if (shim.settings.disabled) return;
  if (shim.settings.chain != NULL) chain_load(shim.settings.chain, abi, logger);
  if (!shim_active()) return;
  shim.mask_wanted = choose_mask(abi, logger);
  PUT(shim.mask_now, shim.mask_wanted);
  PUT(shim.file.header->writer_abi, abi);
  __atomic_fetch_or(&shim.file.header->capabilities, mask_capabilities(abi, shim.mask_wanted), __ATOMIC_RELAXED);
  log_info(logger, "events 0x%x by profiler ABI v%u", shim.mask_wanted, abi);
}

// spare_shared_memory gives KernelCh up for communicators yet to come when NCCL's room for it has run low.
static uint32_t spare_shared_memory(uint32_t abi, uint32_t mask, culprit_nccl_logger logger) {
  const char *why = NULL;
  if ((mask & CULPRIT_NCCL_KERNEL_CH) == 0 || shim.settings.events != NULL) return mask;
  if (GET(shim.kernel_off) == 0 && (mask_default(abi, &why) & CULPRIT_NCCL_KERNEL_CH) == 0) {
    PUT(shim.kernel_off, 1);
    log_info(logger, "KernelCh events are off from here on: %s", why);
    lifecycle_note(CULPRIT_LIFE_MASK_CHANGED, shim_now(), NONE, 0, mask & ~(uint32_t)CULPRIT_NCCL_KERNEL_CH, why);
  }
  return GET(shim.kernel_off) != 0 ? mask & ~(uint32_t)CULPRIT_NCCL_KERNEL_CH : mask;
}

void session_open_comm(struct comm_info *info, void **context, int *mask, culprit_nccl_logger logger) {
  *context = NULL;
  if (in_child()) {
    *mask = 0;
    return;
  }
  pthread_mutex_lock(&shim.session);
  const bool active = open_file(logger);
  attach(info->abi, logger);
  if (!active) {
    *mask = 0;
  } else {
    const uint32_t events = spare_shared_memory(info->abi, GET(shim.mask_now), logger);
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

handle session_open_called(struct comm_info *info, bool *reported) {
  if (!session_open_file()) return 0;
  handle h = 0;
  pthread_mutex_lock(&shim.session);
  *reported = shim.abi != 0;
  if (!*reported) {
    const uint64_t now = shim_now();
    h = comm_open(info, now);
    if (h != 0 && shim.comms_live++ == 0) PUT(shim.file.header->closed_ns, 0);
    __atomic_fetch_or(&shim.file.header->capabilities, CULPRIT_CAP_COMM_IDENTITY | CULPRIT_CAP_API_EVENTS, __ATOMIC_RELAXED);
    shim_tick(now, 1);
  }
  pthread_mutex_unlock(&shim.session);
  return h;
}

void session_close_called(handle h) {
  if (!shim_active()) return;
  pthread_mutex_lock(&shim.session);
  if (comm_find(h) != NONE && handle_kind_of(h) == HANDLE_COMM) {
    const uint64_t now = shim_now();
    comm_close(h, now);
    if (--shim.comms_live == 0) PUT(shim.file.header->closed_ns, now);
    shim_tick(now, 1);
  }
  pthread_mutex_unlock(&shim.session);
}

void session_close_comm(void *context) {
  if (chain_on) context = chain_close(context);
  session_close_called(handle_from_pointer(context));
}
