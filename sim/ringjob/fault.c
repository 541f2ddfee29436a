// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "comm.h"
#include "conn.h"
#include "event.h"
#include "fault_act.h"
#include "fault_spec.h"
#include "options.h"
#include "rendezvous.h"

// How often a held thread looks whether it is let go.
#define HOLD_NS (10 * NS_PER_MS)

static struct {
  struct fault faults[FAULTS_MAX];
  int count;
  const struct options *options;
  uint64_t armed_ns;
  _Atomic uint64_t step;
  atomic_bool aborting;
} self;

void abort_set(void) { atomic_store(&self.aborting, true); }

bool abort_requested(void) { return atomic_load_explicit(&self.aborting, memory_order_relaxed); }

void fault_add(const char *spec) {
  if (self.count == FAULTS_MAX) die(EXIT_USAGE, "more than %d faults", FAULTS_MAX);
  fault_parse(&self.faults[self.count++], spec);
}

void fault_modify(const char *key, const char *value) {
  if (self.count == 0) die(EXIT_USAGE, "--fault-%s stands before any --fault", key);
  fault_set_key(&self.faults[self.count - 1], key, value);
}

void fault_arm(const struct options *options) {
  self.options = options;
  int kept = 0;
  for (int i = 0; i < self.count; i++) {
    const struct fault *f = &self.faults[i];
    if (f->rank == RANK_UNSET) die(EXIT_USAGE, "fault: %s has no rank", fault_kind_name(f->kind));
    if (f->rank != -1 && f->rank != options->rank) continue;
    self.faults[kept] = *f;
    struct fault *mine = &self.faults[kept++];
    // Where the gradient goes, if there is such a communicator.
    const char *fallback = options->dp > 1 ? "dp" : options->tp > 1 ? "tp" : options->pp > 1 ? "pp" : "world";
    if (!*mine->comm) snprintf(mine->comm, sizeof mine->comm, "%s", fallback);
  }
  self.count = kept;
}

void fault_start_clock(void) { self.armed_ns = now_ns(); }

static void announce(const char *event, const struct fault *f) {
  event_emit(event, ",\"kind\":\"%s\",\"value\":\"%s\",\"comm\":\"%s\",\"step\":%llu", fault_kind_name(f->kind), f->text, f->comm,
             (unsigned long long)atomic_load(&self.step));
}

// The first time that the fault does something.
static void feel(struct fault *f) {
  if (!atomic_exchange(&f->felt, true)) announce("fault", f);
}

static bool is_on(const struct fault *f) { return atomic_load_explicit(&f->state, memory_order_acquire) == ON; }

static void begin(struct fault *f) {
  atomic_store(&f->felt, false);
  atomic_store(&f->started_ns, now_ns());
  atomic_store(&f->state, ON);
  announce("fault_trigger", f);
  switch (f->kind) {
    case STOP:
      feel(f);
      act_stop(f->for_ns);
      atomic_store(&f->state, OVER);
      announce("fault_end", f);
      break;
    case KILL:
      feel(f);
      raise(SIGKILL);
      break;
    case LINK_STALL:
    case LINK_SLOW:
    case FLUSH_STALL:
    case FLUSH_SLOW:
    case GPU_SLOW:
    case PROXY_DELAY: feel(f); break;
    default: break;
  }
}

static void end(struct fault *f) {
  if (!is_on(f)) return;
  atomic_store(&f->state, OVER);
  announce("fault_end", f);
  proxy_wake_all();
}

static bool on_signal(const struct fault *f) { return f->at_step == NO_STEP && f->after_ns == 0; }

void fault_signal_start(void) {
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    if (on_signal(f) && !is_on(f)) begin(f);
  }
}

void fault_signal_clear(void) {
  for (int i = 0; i < self.count; i++) end(&self.faults[i]);
}

uint64_t fault_tick(uint64_t now) {
  uint64_t next = UINT64_MAX;
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    uint64_t at = 0;
    if (atomic_load(&f->state) == ARMED && f->after_ns > 0) {
      at = self.armed_ns + f->after_ns;
      if (now >= at) begin(f);
    }
    // A checkpoint and a first step have an end of their own.
    if (is_on(f) && f->for_ns > 0) {
      at = atomic_load(&f->started_ns) + f->for_ns;
      if (now >= at) end(f);
    }
    if (at > now && at < next) next = at;
  }
  return next;
}

void fault_step(uint64_t step) {
  atomic_store(&self.step, step);
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    bool now = step == f->at_step || (f->every > 0 && f->at_step != NO_STEP && step > f->at_step && (step - f->at_step) % f->every == 0);
    if (now && !is_on(f)) begin(f);
    if (!is_on(f)) continue;
    uint64_t ns = (uint64_t)(f->value * (double)NS_PER_S);
    if (f->kind == CHECKPOINT) {
      feel(f);
      act_checkpoint(self.options->rendezvous, self.options->rank, ns);
      end(f);
    } else if (f->kind == FIRST_STEP) {
      feel(f);
      act_compute(ns);
      end(f);
    }
  }
}

static bool of_comm(const struct fault *f, const struct comm *comm) {
  return strcmp(f->comm, "any") == 0 || strcmp(f->comm, comm->name) == 0;
}

// The first fault of the kind that is on for the communicator; NULL none, or no communicator asked for.
static struct fault *find(enum fault_kind kind, const struct comm *comm) {
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    if (f->kind == kind && is_on(f) && (!comm || of_comm(f, comm))) return f;
  }
  return NULL;
}

// Keeps the calling thread while the fault is on.
static void hold(enum fault_kind kind, const struct comm *comm, bool spin) {
  struct fault *f = find(kind, comm);
  if (!f) return;
  feel(f);
  while (is_on(f) && !abort_requested()) {
    if (!spin) sleep_ns(HOLD_NS);
  }
}

bool fault_before_op(const struct comm *comm, bool collective) {
  const struct fault *out = find(OP_NOT_ENTERED, comm);
  if (out) hold(OP_NOT_ENTERED, comm, strcmp(out->text, "spin") == 0);
  struct fault *f = collective ? find(OTHER_OP, comm) : NULL;
  if (!f) return false;
  control_taint();
  feel(f);
  end(f);
  return true;
}

void fault_before_launch(const struct comm *comm) { hold(GROUP_STALL, comm, false); }

void fault_before_kernel(const struct comm *comm) { hold(KERNEL_STALL, comm, false); }

bool fault_swap_order(void) {
  struct fault *f = find(SWAP_ORDER, NULL);
  if (!f) return false;
  feel(f);
  end(f);
  return true;
}

const char *fault_other_op(void) {
  for (int i = 0; i < self.count; i++) {
    if (self.faults[i].kind == OTHER_OP) return self.faults[i].text;
  }
  return "";
}

double fault_compute_factor(void) {
  const struct fault *f = find(GPU_SLOW, NULL);
  return f ? f->value : 1;
}

bool fault_gpu_frozen(const struct comm *comm, uint64_t slices, uint64_t total) {
  struct fault *f = find(GPU_FREEZE, comm);
  // In the middle: after the first slice where there is more than one.
  if (!f || (!atomic_load(&f->felt) && slices == 0 && total > 1)) return false;
  feel(f);
  return true;
}

uint64_t fault_proxy_delay(void) {
  const struct fault *f = find(PROXY_DELAY, NULL);
  return f ? (uint64_t)(f->value * (double)NS_PER_MS) : 0;
}

bool fault_flush_stalled(const struct comm *comm) { return find(FLUSH_STALL, comm) != NULL; }

uint64_t fault_flush_delay(const struct comm *comm) {
  const struct fault *f = find(FLUSH_SLOW, comm);
  return f ? (uint64_t)(f->value * (double)NS_PER_MS) : 0;
}

static struct fault *find_link(enum fault_kind kind, const struct conn *conn) {
  if (!conn->net) return NULL;
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    if (f->kind != kind || !is_on(f) || !of_comm(f, conn->comm)) continue;
    if (f->peer >= 0 && conn->comm->members[conn->peer] != f->peer) continue;
    if (f->channel >= 0 && conn->channel != f->channel) continue;
    return f;
  }
  return NULL;
}

bool fault_link_stalled(const struct conn *conn) { return find_link(LINK_STALL, conn) != NULL; }

double fault_link_share(const struct conn *conn) {
  const struct fault *f = find_link(LINK_SLOW, conn);
  return f ? f->value : 1;
}
