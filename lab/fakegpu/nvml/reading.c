// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What a GPU shows: its load from the state file, clocks, power and heat that follow from it, and what the control
// file asks for instead. A slow GPU shows lower clocks and a reason; a busy one is warm.

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../control.h"
#include "../state.h"
#include "gpu.h"

enum {
  IDLE_POWER_MW = 60000,
  BUSY_POWER_MW = 390000,
  IDLE_CELSIUS = 32,
  WATTS_PER_CELSIUS = 10,
  HOT_CELSIUS = 92,
  SAMPLE_NS = 200000000,  // Utilization is of at least so long.
};

// What must be remembered between two looks at a GPU.
static struct history {
  uint64_t sampled_ns;  // CLOCK_MONOTONIC.
  uint64_t sampled_busy_ns;
  unsigned busy_percent;
  uint64_t power_since_ns;  // CLOCK_MONOTONIC.
  unsigned power_mw;
  double energy_mj;
} histories[NODE_GPUS_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Reasons by their names in the control file, and the share of the clock that they leave.
static const struct {
  const char *name;
  unsigned bit;
  double share;
} reason_names[] = {
    {"power", REASON_POWER_CAP, 0.8},         {"thermal", REASON_THERMAL, 0.6},
    {"hw_slowdown", REASON_HW_SLOWDOWN, 0.5}, {"hw_thermal", REASON_HW_THERMAL | REASON_HW_SLOWDOWN, 0.5},
    {"power_brake", REASON_POWER_BRAKE | REASON_HW_SLOWDOWN, 0.5},
    {"sync_boost", REASON_SYNC_BOOST, 0.9},   {"app", REASON_APPLICATION, 0.9},
};

enum { REASON_NAMES = sizeof reason_names / sizeof *reason_names };

// throttle reads the list of reasons and gives the smallest share of the clock that they leave.
static double throttle(int gpu, uint64_t *reasons) {
  char list[128], *rest = list;
  double share = 1;
  if (!control_text(gpu, "throttle", list, sizeof list)) return share;
  for (char *name; (name = strtok_r(rest, ", \t", &rest));) {
    for (size_t i = 0; i < REASON_NAMES; i++) {
      if (strcmp(name, reason_names[i].name)) continue;
      *reasons |= reason_names[i].bit;
      if (reason_names[i].share < share) share = reason_names[i].share;
    }
  }
  return share;
}

static uint64_t load(const uint64_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }

static bool alive(uint32_t pid) { return pid && (kill((pid_t)pid, 0) == 0 || errno != ESRCH); }

static void take_processes(const struct fakegpu_state *state, struct reading *r) {
  for (int i = 0; i < STATE_PROCESSES; i++) {
    uint32_t pid = __atomic_load_n(&state->processes[i].pid, __ATOMIC_ACQUIRE);
    if (!alive(pid)) continue;
    uint64_t memory = load(&state->processes[i].memory_bytes);
    r->processes[r->process_count++] = (struct process){pid, memory, NVML_NONE, NVML_NONE};
    r->memory_used += memory;
  }
}

// busy gives the share of the time since the sample before in which kernels ran.
static unsigned busy(struct history *h, uint64_t now, uint64_t busy_ns) {
  uint64_t elapsed = now - h->sampled_ns;
  if (!h->sampled_ns || busy_ns < h->sampled_busy_ns) {
    *h = (struct history){now, busy_ns, 0, h->power_since_ns, h->power_mw, h->energy_mj};
  } else if (elapsed >= SAMPLE_NS) {
    uint64_t percent = (busy_ns - h->sampled_busy_ns) * 100 / elapsed;
    *h = (struct history){now, busy_ns, percent < 100 ? (unsigned)percent : 100, h->power_since_ns, h->power_mw, h->energy_mj};
  }
  return h->busy_percent;
}

// energy adds what was drawn since the last look. Before the first look the GPU was idle since the machine started.
static uint64_t energy(struct history *h, uint64_t now, unsigned power_mw) {
  double seconds = (double)(now - h->power_since_ns) / 1e9;
  h->energy_mj += seconds * (h->power_since_ns ? h->power_mw : IDLE_POWER_MW);
  h->power_since_ns = now;
  h->power_mw = power_mw;
  return (uint64_t)h->energy_mj;
}

static unsigned asked(int gpu, const char *key, unsigned otherwise) {
  double value = control_number(gpu, key, otherwise);
  return value >= 0 && value < 4e9 ? (unsigned)value : otherwise;
}

static uint64_t counted(int gpu, const char *key) {
  double value = control_number(gpu, key, 0);
  return value > 0 ? (uint64_t)value : 0;
}

static void take_clocks(int gpu, struct reading *r) {
  double speed = control_speed(gpu), share = throttle(gpu, &r->reasons);
  if (speed < 1) {
    share = speed;
    if (!r->reasons) r->reasons = REASON_HW_SLOWDOWN;
  }
  unsigned sm = (unsigned)(MAX_SM_MHZ * share + 0.5);
  if (r->busy_percent == 0 && sm > IDLE_SM_MHZ) {
    sm = IDLE_SM_MHZ;
    r->reasons |= REASON_IDLE;
  }
  r->sm_mhz = asked(gpu, "clock.sm", sm);
  r->memory_mhz = asked(gpu, "clock.mem", MEMORY_MHZ);
}

static void take_heat(int gpu, struct reading *r) {
  double load_share = r->busy_percent / 100.0 * r->sm_mhz / MAX_SM_MHZ;
  unsigned power = IDLE_POWER_MW + (unsigned)((BUSY_POWER_MW - IDLE_POWER_MW) * load_share);
  double watts = control_number(gpu, "power", -1);
  r->power_mw = watts >= 0 && watts < 1e6 ? (unsigned)(watts * 1000) : power;
  bool hot = r->reasons & (REASON_THERMAL | REASON_HW_THERMAL);
  unsigned celsius = IDLE_CELSIUS + r->power_mw / 1000 / WATTS_PER_CELSIUS;
  r->celsius = asked(gpu, "temperature", hot ? HOT_CELSIUS : celsius);
}

static void take_links(int gpu, const struct fakegpu_state *state, struct reading *r) {
  r->pcie_generation = asked(gpu, "pcie.gen", MAX_PCIE_GENERATION);
  r->pcie_width = asked(gpu, "pcie.width", MAX_PCIE_WIDTH);
  r->pcie_replays = counted(gpu, "pcie.replays");
  r->pcie_in = load(&state->pcie_in_bytes);
  r->pcie_out = load(&state->pcie_out_bytes);
  r->link_errors = counted(gpu, "nvlink.errors");
  char list[128], *rest = list;
  if (!control_text(gpu, "nvlink.down", list, sizeof list)) return;
  for (char *name; (name = strtok_r(rest, ", \t", &rest));) {
    unsigned long link = strtoul(name, NULL, 10);
    if (link < NVLINKS) r->links_down |= 1u << link;
  }
}

static void take_memory(int gpu, struct reading *r) {
  r->memory_total = MEMORY_BYTES;
  r->ecc_corrected = counted(gpu, "ecc.corrected");
  r->ecc_uncorrected = counted(gpu, "ecc.uncorrected");
  r->rows_pending = control_number(gpu, "rows.pending", 0) != 0;
  r->rows_failed = control_number(gpu, "rows.failed", 0) != 0;
}

void reading_take(int gpu, struct reading *r) {
  const struct fakegpu_state *state = state_of(gpu);
  *r = (struct reading){0};
  take_processes(state, r);
  take_memory(gpu, r);
  take_links(gpu, state, r);
  pthread_mutex_lock(&lock);
  uint64_t now = now_ns();
  r->busy_percent = asked(gpu, "utilization", busy(&histories[gpu], now, load(&state->busy_ns)));
  r->memory_percent = r->busy_percent / 2;
  take_clocks(gpu, r);
  take_heat(gpu, r);
  r->energy_mj = energy(&histories[gpu], now, r->power_mw);
  pthread_mutex_unlock(&lock);
}
