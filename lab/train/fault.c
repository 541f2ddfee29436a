// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "fault.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "event.h"
#include "fault_act.h"
#include "program.h"
#include "rendezvous.h"

// How often a held thread looks whether it is let go.
#define HOLD_NS (10 * NS_PER_MS)
// As asked for, and as armed: one for each rank of the process that it concerns.
#define FAULTS_ASKED 8
#define FAULTS_ARMED 64
#define ALL_OF_PROCESS (-1)

static struct {
  struct fault asked[FAULTS_ASKED];
  int asked_count;
  struct fault faults[FAULTS_ARMED];
  int count;
  const char *dir;
  _Atomic uint64_t armed_ns;  // When training began; 0 before.
  _Atomic uint64_t step;
  atomic_bool aborting;
} self;

static _Thread_local int thread_rank = ALL_OF_PROCESS;
// Operations that the thread has called in this step, and in the one before it.
static _Thread_local struct {
  unsigned now, of_step;
} thread_op;

void abort_set(void) { atomic_store(&self.aborting, true); }

bool abort_requested(void) { return atomic_load_explicit(&self.aborting, memory_order_relaxed); }

void fault_add(const char *spec) {
  if (self.asked_count == FAULTS_ASKED) die(EXIT_USAGE, "more than %d faults", FAULTS_ASKED);
  fault_parse(&self.asked[self.asked_count++], spec);
}

void fault_modify(const char *key, const char *value) {
  if (self.asked_count == 0) die(EXIT_USAGE, "--fault-%s stands before any --fault", key);
  fault_set_key(&self.asked[self.asked_count - 1], key, value);
}

static void arm_one(const struct fault *asked, int rank, const char *comm) {
  if (self.count == FAULTS_ARMED) die(EXIT_USAGE, "more than %d faults on the ranks of one process", FAULTS_ARMED);
  struct fault *f = &self.faults[self.count++];
  *f = *asked;
  f->rank = rank;
  if (!*f->comm) snprintf(f->comm, sizeof f->comm, "%s", comm);
}

void fault_arm(int first, int count, const char *comm, const char *dir) {
  self.dir = dir;
  for (int i = 0; i < self.asked_count; i++) {
    const struct fault *f = &self.asked[i];
    if (f->rank == RANK_UNSET) die(EXIT_USAGE, "fault: %s has no rank", fault_kind_name(f->kind));
    for (int rank = first; rank < first + count; rank++) {
      if (f->rank == RANK_ALL || f->rank == rank) arm_one(f, rank, comm);
    }
  }
}

void fault_of_thread(int rank) { thread_rank = rank; }

void fault_start_clock(void) { atomic_store(&self.armed_ns, now_ns()); }

static void announce(const char *event, const struct fault *f) {
  event_emit_of(f->rank, event, ",\"kind\":\"%s\",\"value\":\"%s\",\"comm\":\"%s\",\"step\":%llu", fault_kind_name(f->kind),
                f->text, f->comm, (unsigned long long)atomic_load(&self.step));
}

void fault_feel(struct fault *f) {
  if (!atomic_exchange(&f->felt, true)) announce("fault", f);
}

static bool is_on(const struct fault *f) { return atomic_load_explicit(&f->state, memory_order_acquire) == ON; }

static void over(struct fault *f) {
  atomic_store(&f->state, OVER);
  announce("fault_end", f);
}

static void begin(struct fault *f) {
  atomic_store(&f->felt, false);
  atomic_store(&f->started_ns, now_ns());
  atomic_store(&f->state, ON);
  announce("fault_trigger", f);
  switch (f->kind) {
    case STOP:
      fault_feel(f);
      act_stop(f->for_ns);
      over(f);
      break;
    case KILL:
      fault_feel(f);
      raise(SIGKILL);
      break;
    case EXIT:
      fault_feel(f);
      exit(EXIT_RANK_LOST);
    default:
      if (program.fault_begins(f)) fault_feel(f);
      break;
  }
}

void fault_end(struct fault *f) {
  if (!is_on(f)) return;
  over(f);
  program.fault_ends(f);
}

// Begins it, or leaves that to the operation at its moment.
static void begin_or_wait(struct fault *f) {
  if (f->moment < 0) begin(f);
  else atomic_store(&f->state, DUE);
}

static bool before_training(const struct fault *f) { return f->kind == INIT_HANG || f->kind == SPLIT_HANG; }

void fault_start(void) {
  for (int i = 0; i < self.count; i++) {
    if (before_training(&self.faults[i])) begin(&self.faults[i]);
  }
}

static bool on_signal(const struct fault *f) { return f->at_step == NO_STEP && f->after_ns == 0; }

void fault_signal_start(void) {
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    if (on_signal(f) && !is_on(f)) begin_or_wait(f);
  }
}

void fault_signal_clear(void) {
  for (int i = 0; i < self.count; i++) fault_end(&self.faults[i]);
}

uint64_t fault_tick(uint64_t now) {
  uint64_t next = UINT64_MAX;
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    uint64_t at = 0;
    uint64_t armed_ns = atomic_load(&self.armed_ns);
    if (atomic_load(&f->state) == ARMED && f->after_ns > 0 && armed_ns > 0) {
      at = armed_ns + f->after_ns;
      if (now >= at) begin_or_wait(f);
    }
    // A stop ends itself.
    if (is_on(f) && f->for_ns > 0 && f->kind != STOP) {
      at = atomic_load(&f->started_ns) + f->for_ns;
      if (now >= at) fault_end(f);
    }
    if (at > now && at < next) next = at;
  }
  return next;
}

static bool of_thread(const struct fault *f) { return thread_rank == ALL_OF_PROCESS || f->rank == thread_rank; }

static bool begins_at(const struct fault *f, uint64_t step) {
  if (f->at_step == NO_STEP || step < f->at_step || before_training(f)) return false;
  return step == f->at_step || (f->every > 0 && (step - f->at_step) % f->every == 0);
}

// An operation is about to be called: faults whose moment it is begin. A step has about as many operations as the one before it.
static void begin_due(void) {
  unsigned op = thread_op.now++;
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    if (atomic_load_explicit(&f->state, memory_order_acquire) != DUE || !of_thread(f)) continue;
    unsigned last = thread_op.of_step > 0 ? thread_op.of_step - 1 : 0;
    if (op == (unsigned)(f->moment * last + 0.5)) begin(f);
  }
}

void fault_step(uint64_t step) {
  atomic_store(&self.step, step);
  thread_op.of_step = thread_op.now;
  thread_op.now = 0;
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    if (!of_thread(f)) continue;
    if (begins_at(f, step) && !is_on(f)) begin_or_wait(f);
    if (!is_on(f)) continue;
    uint64_t ns = (uint64_t)(f->value * (double)NS_PER_S);
    if (f->kind == CHECKPOINT) {
      fault_feel(f);
      act_checkpoint(self.dir, f->rank, ns);
      fault_end(f);
    } else if (f->kind == FIRST_STEP) {
      fault_feel(f);
      act_compute(ns);
      fault_end(f);
    } else if (f->kind == DATA_LATE) {
      fault_feel(f);
      sleep_ns(ns);
    }
  }
}

static bool of_comm(const struct fault *f, const char *comm) {
  return strcmp(f->comm, "any") == 0 || strcmp(f->comm, comm) == 0;
}

static bool concerns(const struct fault *f, enum fault_kind kind, const char *comm) {
  return f->kind == kind && is_on(f) && of_thread(f) && (!comm || of_comm(f, comm));
}

struct fault *fault_find(enum fault_kind kind, const char *comm) {
  for (int i = 0; i < self.count; i++) {
    if (concerns(&self.faults[i], kind, comm)) return &self.faults[i];
  }
  return NULL;
}

struct fault *fault_find_link(enum fault_kind kind, const char *comm, int peer, int channel) {
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    if (!concerns(f, kind, comm)) continue;
    if ((f->peer < 0 || f->peer == peer) && (f->channel < 0 || f->channel == channel)) return f;
  }
  return NULL;
}

void fault_hold(enum fault_kind kind, const char *comm, bool spin) {
  struct fault *f = fault_find(kind, comm);
  if (!f) return;
  fault_feel(f);
  while (is_on(f) && !abort_requested()) {
    if (!spin) sleep_ns(HOLD_NS);
  }
}

bool fault_before_op(const char *comm, bool collective) {
  begin_due();
  const struct fault *out = fault_find(OP_NOT_ENTERED, comm);
  if (out) fault_hold(OP_NOT_ENTERED, comm, strcmp(out->text, "spin") == 0);
  struct fault *f = collective ? fault_find(OTHER_OP, comm) : NULL;
  if (!f) return false;
  control_taint();
  fault_feel(f);
  fault_end(f);
  return true;
}

bool fault_swap_order(void) {
  struct fault *f = fault_find(SWAP_ORDER, NULL);
  if (!f) return false;
  fault_feel(f);
  fault_end(f);
  return true;
}

const char *fault_other_op(void) {
  for (int i = 0; i < self.count; i++) {
    if (self.faults[i].kind == OTHER_OP && of_thread(&self.faults[i])) return self.faults[i].text;
  }
  return "";
}
