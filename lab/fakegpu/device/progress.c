// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "progress.h"

#include <string.h>
#include <time.h>

#include "layout.h"

enum { EVENTS = 64 /* of a channel that are kept */, SINCE_TIMES = 22700 };

// Since 2.27: the work's number and when it was there, CLOCK_REALTIME in ns.
struct mark {
  uint64_t counter, time;
};

// 2.31: the times between a work's phases.
struct phase_mark {
  uint64_t counter, times[4];
};

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Since 2.26.3 a work says whether it is profiled; 2.26.2 counts every work, and its host waits for the count.
static bool is_profiled(const struct batch *batch, size_t i) {
  const char *work = work_at(batch, i);
  switch (batch->type) {
    case WORK_P2P:
      return !layout_has(LAYOUT_p2p_profilerEnabled) || layout_get(work, LAYOUT_p2p_profilerEnabled);
    case WORK_BCAST:
      return false;
    default:
      return !layout_has(LAYOUT_coll_profilerEnabled) || layout_get(work, LAYOUT_coll_profilerEnabled);
  }
}

static void mark(const struct progress *p, const struct block *b, const struct batch *batch, enum layout_member where) {
  char *marks = layout_has(where) ? layout_pointer(b->comm, where) : NULL;
  if (!marks) return;
  bool any = false;
  for (size_t i = 0; i < batch->count; i++) {
    if (!is_profiled(batch, i)) continue;
    any = true;
    if (nccl_version() < SINCE_TIMES) continue;
    uint64_t at = p->works + 1 + i;
    struct mark *m = (struct mark *)(void *)marks + (size_t)b->channel_id * EVENTS + at % EVENTS;
    m->time = now();
    __atomic_store_n(&m->counter, at, __ATOMIC_RELEASE);
  }
  // 2.26 counts the works of a batch together.
  if (any && nccl_version() < SINCE_TIMES) {
    __atomic_store_n((uint64_t *)(void *)marks + b->channel_id, p->works + batch->count, __ATOMIC_RELEASE);
  }
}

// 2.31 has three phases of a kernel between four times, and reports them as "initial_sync", "compute" and "final_sync". Data moves
// in the middle one here; where real kernels draw the lines is not documented.
static void mark_phases(const struct progress *p, const struct block *b, const struct batch *batch) {
  char *phases = layout_has(LAYOUT_comm_workPhases) ? layout_pointer(b->comm, LAYOUT_comm_workPhases) : NULL;
  if (!phases) return;
  uint64_t end = now();
  for (size_t i = 0; i < batch->count; i++) {
    if (!is_profiled(batch, i)) continue;
    uint64_t at = p->works + 1 + i;
    struct phase_mark *m = (struct phase_mark *)(void *)phases + (size_t)b->channel_id * EVENTS + at % EVENTS;
    m->times[0] = p->begun;
    m->times[1] = p->first ? p->first : end;
    m->times[2] = p->last ? p->last : end;
    m->times[3] = end;
    __atomic_store_n(&m->counter, at, __ATOMIC_RELEASE);
  }
}

struct progress progress_open(const struct block *b) {
  return (struct progress){.works = layout_has(LAYOUT_channel_workCounter) ? layout_get(b->channel, LAYOUT_channel_workCounter) : 0};
}

void progress_close(const struct progress *p, const struct block *b) {
  if (layout_has(LAYOUT_channel_workCounter)) layout_set64(b->channel, LAYOUT_channel_workCounter, p->works);
}

void progress_begin(struct progress *p, const struct block *b, const struct batch *batch) {
  p->begun = now();
  p->first = p->last = 0;
  mark(p, b, batch, LAYOUT_comm_workStarted);
}

void progress_move(struct progress *p) {
  if (!layout_has(LAYOUT_comm_workPhases)) return;
  p->last = now();
  if (!p->first) p->first = p->last;
}

// The host looks for the phases when it sees that the work is complete.
void progress_end(struct progress *p, const struct block *b, const struct batch *batch) {
  mark_phases(p, b, batch);
  mark(p, b, batch, LAYOUT_comm_workCompleted);
  p->works += batch->count;
}
