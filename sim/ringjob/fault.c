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
#include "options.h"
#include "rendezvous.h"

#define NO_STEP UINT64_MAX

enum kind {
  LINK_STALL,
  LINK_SLOW,
  GPU_FREEZE,
  GPU_SLOW,
  PROXY_DELAY,
  OP_NOT_ENTERED,
  OTHER_OP,
  STOP,
  KILL,
  CHECKPOINT,
  FIRST_STEP,
  KINDS,
};

static const struct {
  const char *name;
  const char *value;  // What VALUE is; NULL none.
  const char *fallback;
  const char *help;
} kinds[KINDS] = {
    [LINK_STALL] = {"link-stall", NULL, "", "transfers are accepted and never delivered"},
    [LINK_SLOW] = {"link-slow", "FRACTION", "0.1", "share of the bandwidth that is left"},
    [GPU_FREEZE] = {"gpu-freeze", NULL, "", "the GPU stands still in the middle of an operation"},
    [GPU_SLOW] = {"gpu-slow", "FACTOR", "3", "compute takes longer"},
    [PROXY_DELAY] = {"proxy-delay", "MS", "5", "the proxy thread sleeps before each transfer"},
    [OP_NOT_ENTERED] = {"op-not-entered", "sleep|spin", "sleep", "the program stays out of the next operation"},
    [OTHER_OP] = {"other-op", "allgather|reducescatter|size", "allgather", "one call is another operation than the peers'"},
    [STOP] = {"stop", NULL, "", "SIGSTOP"},
    [KILL] = {"kill", NULL, "", "SIGKILL"},
    [CHECKPOINT] = {"checkpoint", "SECONDS", "20", "benign: writes a checkpoint before the next step"},
    [FIRST_STEP] = {"first-step", "SECONDS", "20", "benign: computes before its first operation"},
};

enum state { ARMED, ON, OVER };

struct fault {
  enum kind kind;
  char text[32];
  double value;
  int rank;        // -1: all.
  int peer;        // World rank at the other end of the link; -1: any.
  int channel;     // -1: any.
  char comm[32];   // "": the default, "any".
  uint64_t at_step, every;
  uint64_t after_ns, for_ns;
  _Atomic int state;
  _Atomic bool felt;  // Its effect has been announced.
  _Atomic uint64_t started_ns;
};

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

static double number(const char *key, const char *text) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || v < 0) die(EXIT_USAGE, "fault: %s wants a number, not \"%s\"", key, text);
  return v;
}

void fault_modify(const char *key, const char *value) {
  if (self.count == 0) die(EXIT_USAGE, "--fault-%s stands before any --fault", key);
  struct fault *f = &self.faults[self.count - 1];
  if (strcmp(key, "rank") == 0) f->rank = strcmp(value, "all") == 0 ? -1 : (int)number(key, value);
  else if (strcmp(key, "peer") == 0) f->peer = (int)number(key, value);
  else if (strcmp(key, "channel") == 0) f->channel = (int)number(key, value);
  else if (strcmp(key, "comm") == 0) snprintf(f->comm, sizeof f->comm, "%s", value);
  else if (strcmp(key, "step") == 0) f->at_step = (uint64_t)number(key, value);
  else if (strcmp(key, "every") == 0) f->every = (uint64_t)number(key, value);
  else if (strcmp(key, "after") == 0) f->after_ns = (uint64_t)(number(key, value) * (double)NS_PER_S);
  else if (strcmp(key, "for") == 0) f->for_ns = (uint64_t)(number(key, value) * (double)NS_PER_S);
  else die(EXIT_USAGE, "fault: unknown key \"%s\"", key);
}

static void set_value(struct fault *f, const char *value) {
  snprintf(f->text, sizeof f->text, "%s", value);
  bool numeric = f->kind != OP_NOT_ENTERED && f->kind != OTHER_OP && *value;
  if (numeric) f->value = number(kinds[f->kind].name, value);
  bool known = true;
  if (f->kind == OP_NOT_ENTERED) known = strcmp(value, "sleep") == 0 || strcmp(value, "spin") == 0;
  if (f->kind == OTHER_OP) {
    known = strcmp(value, "allgather") == 0 || strcmp(value, "reducescatter") == 0 || strcmp(value, "size") == 0;
  }
  if (!known) die(EXIT_USAGE, "fault: %s wants %s", kinds[f->kind].name, kinds[f->kind].value);
  if (f->kind == LINK_SLOW && (f->value <= 0 || f->value > 1)) die(EXIT_USAGE, "fault: link-slow wants a fraction");
}

void fault_add(const char *spec) {
  if (self.count == FAULTS_MAX) die(EXIT_USAGE, "more than %d faults", FAULTS_MAX);
  char copy[256];
  if (snprintf(copy, sizeof copy, "%s", spec) >= (int)sizeof copy) die(EXIT_USAGE, "fault: too long");
  char *rest = copy, *name = strsep(&rest, ":"), *value = strchr(name, '=');
  if (value) *value++ = 0;
  int kind = 0;
  while (kind < KINDS && strcmp(kinds[kind].name, name) != 0) kind++;
  if (kind == KINDS) die(EXIT_USAGE, "fault: unknown kind \"%s\"", name);
  struct fault *f = &self.faults[self.count++];
  *f = (struct fault){.kind = (enum kind)kind, .rank = -2, .peer = -1, .channel = -1, .at_step = NO_STEP};
  if (kind == FIRST_STEP) f->at_step = 0;
  set_value(f, value ? value : kinds[kind].fallback);
  while (rest) {
    char *key = strsep(&rest, ":"), *to = strchr(key, '=');
    if (!to) die(EXIT_USAGE, "fault: \"%s\" is no key=value", key);
    *to++ = 0;
    fault_modify(key, to);
  }
}

void fault_usage(void) {
  puts("Faults, KIND[=VALUE]:");
  for (int k = 0; k < KINDS; k++) {
    char head[64];
    snprintf(head, sizeof head, "%s%s%s", kinds[k].name, kinds[k].value ? "=" : "", kinds[k].value ? kinds[k].value : "");
    printf("  %-44s%s\n", head, kinds[k].help);
  }
}

void fault_arm(const struct options *options) {
  self.options = options;
  int kept = 0;
  for (int i = 0; i < self.count; i++) {
    const struct fault *f = &self.faults[i];
    if (f->rank == -2) die(EXIT_USAGE, "fault: %s has no rank", kinds[f->kind].name);
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
  event_emit(event, ",\"kind\":\"%s\",\"value\":\"%s\",\"comm\":\"%s\",\"step\":%llu", kinds[f->kind].name, f->text, f->comm,
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
static struct fault *find(enum kind kind, const struct comm *comm) {
  for (int i = 0; i < self.count; i++) {
    struct fault *f = &self.faults[i];
    if (f->kind == kind && is_on(f) && (!comm || of_comm(f, comm))) return f;
  }
  return NULL;
}

bool fault_before_op(const struct comm *comm, bool collective) {
  struct fault *f = find(OP_NOT_ENTERED, comm);
  if (f) {
    feel(f);
    bool spin = strcmp(f->text, "spin") == 0;
    while (is_on(f) && !abort_requested()) {
      if (!spin) sleep_ns(10 * NS_PER_MS);
    }
  }
  f = collective ? find(OTHER_OP, comm) : NULL;
  if (!f) return false;
  control_taint();
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

bool fault_gpu_frozen(const struct comm *comm, bool collective, uint64_t slices, uint64_t total) {
  (void)collective;
  struct fault *f = find(GPU_FREEZE, comm);
  // In the middle: after the first slice where there is more than one.
  if (!f || (!atomic_load(&f->felt) && slices == 0 && total > 1)) return false;
  feel(f);
  return true;
}

uint64_t fault_proxy_delay(const struct comm *comm) {
  (void)comm;
  const struct fault *f = find(PROXY_DELAY, NULL);
  return f ? (uint64_t)(f->value * (double)NS_PER_MS) : 0;
}

static struct fault *find_link(enum kind kind, const struct conn *conn) {
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
