// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define SECOND_NS 1000000000u
#define BASELINE_NS (60u * (uint64_t)SECOND_NS)

// sample reads counter and clock as one: the closest of a few tries.
static void sample(uint64_t *ticks, uint64_t *ns) {
  uint64_t best = UINT64_MAX;
  *ticks = 0;
  *ns = 0;
  for (int i = 0; i < 5; i++) {
    const uint64_t before = clock_ticks();
    const uint64_t t = clock_monotonic();
    const uint64_t width = clock_ticks() - before;
    if (width < best) {
      best = width;
      *ticks = before + width / 2;
      *ns = t;
    }
  }
}

// counter_runs_evenly says whether the counter ticks at one rate on all processors, whatever their power state.
static bool counter_runs_evenly(void) {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_max(0x80000000u, NULL) < 0x80000007u) return false;
  __cpuid(0x80000007u, a, b, c, d);
  return (d & (1u << 8)) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

// kernel_avoids_counter says whether the kernel itself has turned away from the counter as its clock.
static bool kernel_avoids_counter(void) {
  char name[32] = {0};
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = read(fd, name, sizeof name - 1);
  close(fd);
  if (n <= 0) return false;
  return strncmp(name, "hpet", 4) == 0 || strncmp(name, "acpi_pm", 7) == 0 || strncmp(name, "jiffies", 7) == 0 ||
         strncmp(name, "xen", 3) == 0;
}

static uint64_t rate_of(uint64_t ticks, uint64_t ns) {
  return (uint64_t)(((clock_wide)ns << 32) / (clock_wide)ticks);
}

static void publish(struct clock *c, uint64_t ticks, uint64_t ns, uint64_t rate) {
  struct clock_anchor *old = GET(c->current);
  struct clock_anchor *next = old == NULL || old == &c->anchors[CLOCK_ANCHORS - 1] ? c->anchors : old + 1;
  PUT(next->zero_ns, ns - (uint64_t)(((clock_wide)ticks * rate) >> 32));
  PUT(next->rate, rate);
  __atomic_store_n(&c->current, next, __ATOMIC_RELEASE);
}

void clock_init(struct clock *c, const char *source) {
  memset(c, 0, sizeof *c);
  if (source != NULL && strcmp(source, "monotonic") == 0) return;
  if (!counter_runs_evenly()) return;
  if ((source == NULL || strcmp(source, "counter") != 0) && kernel_avoids_counter()) return;

  sample(&c->base_ticks, &c->base_ns);
  const struct timespec pause = {.tv_nsec = 1000000};
  nanosleep(&pause, NULL);
  uint64_t ticks, ns;
  sample(&ticks, &ns);
  if (ticks <= c->base_ticks || ns <= c->base_ns) return;
  c->middle_ticks = ticks;
  c->middle_ns = ns;
  publish(c, ticks, ns, rate_of(ticks - c->base_ticks, ns - c->base_ns));
  c->next_refresh_ns = ns + SECOND_NS / 100;
}

bool clock_refresh(struct clock *c, uint64_t now) {
  if (!clock_due(c, now)) return false;
  if (__atomic_exchange_n(&c->refreshing, 1, __ATOMIC_ACQUIRE) != 0) return false;
  if (!clock_due(c, now)) {  // Another thread was quicker.
    __atomic_store_n(&c->refreshing, 0, __ATOMIC_RELEASE);
    return false;
  }
  // The first rate spans a millisecond only: it is replaced soon, then every second.
  c->refreshes++;
  PUT(c->next_refresh_ns, now + (c->refreshes == 1 ? SECOND_NS / 10 : SECOND_NS));
  if (GET(c->current) != NULL) {
    uint64_t ticks, ns;
    sample(&ticks, &ns);
    if (ticks > c->base_ticks && ns > c->base_ns) {
      publish(c, ticks, ns, rate_of(ticks - c->base_ticks, ns - c->base_ns));
      if (ns - c->base_ns > 2 * BASELINE_NS) {
        c->base_ticks = c->middle_ticks;
        c->base_ns = c->middle_ns;
      }
      if (ns - c->middle_ns > BASELINE_NS) {
        c->middle_ticks = ticks;
        c->middle_ns = ns;
      }
    }
  }
  __atomic_store_n(&c->refreshing, 0, __ATOMIC_RELEASE);
  return true;
}
