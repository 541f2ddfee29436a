// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

static struct {
  uintptr_t base;
  size_t bytes;
  uint32_t lost;
  bool installed;
  struct sigaction before;
} guard;

static bool inside(const siginfo_t *info) {
  if (info->si_code != BUS_ADRERR && info->si_code != BUS_MCEERR_AR) return false;
  return (uintptr_t)info->si_addr - guard.base < guard.bytes;
}

// cover maps private memory over the mapping, once. A second thread that faults meanwhile tries its access again.
static bool cover(void) {
  uint32_t no = 0;
  if (!__atomic_compare_exchange_n(&guard.lost, &no, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return true;
  return mmap((void *)guard.base, guard.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// pass_on does what would have happened without this handler, which runs with the mask of the one before.
static void pass_on(int number, siginfo_t *info, void *context) {
  const struct sigaction before = guard.before;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
    return;
  }
  const bool fault = info->si_code > 0;
  if (before.sa_handler == SIG_IGN && !fault) return;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
    return;
  }
  // The kernel ends a process for a fault even where the signal is ignored: the access is made again, and ends it.
  const struct sigaction standard = {.sa_handler = SIG_DFL};
  (void)sigaction(number, &standard, NULL);
  if (!fault) (void)raise(number);
}

static void on_fault(int number, siginfo_t *info, void *context) {
  const int saved = errno;
  if (!inside(info) || !cover()) pass_on(number, info, context);
  errno = saved;
}

void guard_begin(void *base, size_t bytes) {
  guard.base = (uintptr_t)base;
  guard.bytes = bytes;
  if (sigaction(SIGBUS, NULL, &guard.before) != 0) return;
  // Like the handler before in all that it can see, and on a thread's own signal stack where there is one.
  struct sigaction mine = guard.before;
  mine.sa_sigaction = on_fault;
  mine.sa_flags = (guard.before.sa_flags & (SA_NODEFER | SA_RESTART)) | SA_SIGINFO | SA_ONSTACK;
  guard.installed = sigaction(SIGBUS, &mine, NULL) == 0;
}

bool guard_lost(void) { return __atomic_load_n(&guard.lost, __ATOMIC_ACQUIRE) != 0; }

void guard_end(void) {
  struct sigaction now;
  if (!guard.installed || sigaction(SIGBUS, NULL, &now) != 0) return;
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) (void)sigaction(SIGBUS, &guard.before, NULL);
  guard.installed = false;
}
