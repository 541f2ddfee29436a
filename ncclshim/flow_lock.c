// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "flow_lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

bool flow_take_shared(struct flow_ctl *f, uint32_t *version) {
  if (__atomic_load_n(&f->mode, __ATOMIC_ACQUIRE) == FLOW_OWNED) {
    uint32_t owned = FLOW_OWNED;
    __atomic_compare_exchange_n(&f->mode, &owned, FLOW_SHARING, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  }
  if (__atomic_load_n(&f->mode, __ATOMIC_ACQUIRE) == FLOW_SHARING) {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) return false;
    for (int i = 0; __atomic_load_n(&f->busy, __ATOMIC_ACQUIRE) != 0; i++) {
      if (i == SEQLOCK_TRIES) return false;  // The next event tries again.
      cpu_relax();
    }
    __atomic_store_n(&f->mode, FLOW_SHARED, __ATOMIC_RELEASE);
  }
  if (!seqlock_take(version)) return false;
  if (__atomic_load_n(&f->mode, __ATOMIC_ACQUIRE) == FLOW_SHARED) return true;
  seqlock_release(version);  // It has a new owner since.
  return false;
}
