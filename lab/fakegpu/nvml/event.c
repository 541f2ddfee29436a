// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Event sets: what changes on the GPUs that are registered, looked for while somebody waits.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../control.h"
#include "gpu.h"

enum { POLL_NS = 20000000, XID_UNKNOWN = 999, LINE = 64 };

// What was last told of a GPU.
struct seen {
  char xid[LINE];  // The control file's line.
  uint64_t ecc_corrected, ecc_uncorrected;
  unsigned sm_mhz;
};

struct event_set {
  pthread_mutex_t lock;
  unsigned long long types[NODE_GPUS_MAX];
  struct seen seen[NODE_GPUS_MAX];
};

NVML_API int nvmlEventSetCreate(struct event_set **out) {
  int result = gpu_ready();
  if (result != NVML_OK) return result;
  if (!out) return NVML_INVALID_ARGUMENT;
  struct event_set *set = calloc(1, sizeof *set);
  if (!set) return NVML_MEMORY;
  pthread_mutex_init(&set->lock, NULL);
  *out = set;
  return NVML_OK;
}

NVML_API int nvmlEventSetFree(struct event_set *set) {
  if (!set) return NVML_INVALID_ARGUMENT;
  pthread_mutex_destroy(&set->lock);
  free(set);
  return NVML_OK;
}

NVML_API int nvmlDeviceGetSupportedEventTypes(struct gpu *gpu, unsigned long long *types) {
  if (!types) return NVML_INVALID_ARGUMENT;
  *types = EVENTS_SUPPORTED;
  return gpu_check(gpu);
}

static void look(int gpu, struct seen *s) {
  struct reading r;
  reading_take(gpu, &r);
  *s = (struct seen){.ecc_corrected = r.ecc_corrected, .ecc_uncorrected = r.ecc_uncorrected, .sm_mhz = r.sm_mhz};
  if (!control_text(gpu, "xid", s->xid, sizeof s->xid)) s->xid[0] = 0;
}

// Only what comes after it is told.
NVML_API int nvmlDeviceRegisterEvents(struct gpu *gpu, unsigned long long types, struct event_set *set) {
  int result = gpu_check(gpu);
  if (result != NVML_OK) return result;
  if (!set) return NVML_INVALID_ARGUMENT;
  if (types & ~(unsigned long long)EVENTS_SUPPORTED) return NVML_NOT_SUPPORTED;
  int index = gpu_index(gpu);
  pthread_mutex_lock(&set->lock);
  if (!set->types[index]) look(index, &set->seen[index]);
  set->types[index] |= types;
  pthread_mutex_unlock(&set->lock);
  return NVML_OK;
}

// changed gives the kind of one change since s, which is then seen; 0 when there is none.
static unsigned changed(struct seen *s, const struct seen *now, unsigned long long *data) {
  *data = 0;
  if (strcmp(s->xid, now->xid)) {
    memcpy(s->xid, now->xid, sizeof s->xid);
    if (!now->xid[0]) return 0;  // Taken back: nothing happens on the GPU.
    char *end;
    *data = strtoull(now->xid, &end, 10);
    if (end == now->xid) *data = XID_UNKNOWN;
    return EVENT_XID;
  }
  if (s->ecc_corrected != now->ecc_corrected) {
    s->ecc_corrected = now->ecc_corrected;
    return EVENT_SINGLE_BIT_ECC;
  }
  if (s->ecc_uncorrected != now->ecc_uncorrected) {
    s->ecc_uncorrected = now->ecc_uncorrected;
    return EVENT_DOUBLE_BIT_ECC;
  }
  if (s->sm_mhz != now->sm_mhz) {
    s->sm_mhz = now->sm_mhz;
    return EVENT_CLOCK;
  }
  return 0;
}

// next finds one event of the set. A GPU that fell off the bus still tells why.
static bool next(struct event_set *set, struct event_data *out) {
  bool found = false;
  pthread_mutex_lock(&set->lock);
  for (int i = 0; i < gpu_count() && !found; i++) {
    if (!set->types[i]) continue;
    struct seen now;
    look(i, &now);
    unsigned type;
    unsigned long long data;
    while (!found && (type = changed(&set->seen[i], &now, &data))) {
      found = type & set->types[i];
      *out = (struct event_data){gpu_at(i), type, data, NVML_NONE, NVML_NONE};
    }
  }
  pthread_mutex_unlock(&set->lock);
  return found;
}

// lost tells whether a GPU of the set fell off the bus. Who waits is told that when there is no event left.
static bool lost(struct event_set *set) {
  bool any = false;
  pthread_mutex_lock(&set->lock);
  for (int i = 0; i < gpu_count(); i++) any = any || (set->types[i] && control_lost(i));
  pthread_mutex_unlock(&set->lock);
  return any;
}

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

NVML_API int nvmlEventSetWait_v2(struct event_set *set, struct event_data *out, unsigned timeout_ms) {
  int result = gpu_ready();
  if (result != NVML_OK) return result;
  if (!set || !out) return NVML_INVALID_ARGUMENT;
  uint64_t until = now_ms() + timeout_ms;
  for (;;) {
    bool gone = lost(set);  // Asked first: what came before it is told before it.
    if (next(set, out)) return NVML_OK;
    if (gone) return NVML_GPU_IS_LOST;
    if (now_ms() >= until) return NVML_TIMEOUT;
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
  }
}

NVML_API int nvmlEventSetWait(struct event_set *set, struct event_data_v1 *out, unsigned timeout_ms) {
  struct event_data data;
  if (!out) return NVML_INVALID_ARGUMENT;
  int result = nvmlEventSetWait_v2(set, &data, timeout_ms);
  if (result == NVML_OK) *out = (struct event_data_v1){data.gpu, data.type, data.data};
  return result;
}
