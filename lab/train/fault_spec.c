// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "fault_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "program.h"

static const struct {
  const char *name;
  const char *value;  // What VALUE is; NULL none.
  const char *fallback;
  const char *help;
} kinds[KINDS] = {
    [LINK_STALL] = {"link-stall", NULL, "", "transfers are accepted and never delivered"},
    [LINK_SLOW] = {"link-slow", "FRACTION", "0.1", "share of the bandwidth that is left"},
    [FLUSH_STALL] = {"flush-stall", NULL, "", "what arrives is never given to the GPU"},
    [FLUSH_SLOW] = {"flush-slow", "MS", "5", "what arrives is given to the GPU so much later"},
    [GPU_FREEZE] = {"gpu-freeze", NULL, "", "the GPU stands still in the middle of an operation"},
    [GPU_SLOW] = {"gpu-slow", "FACTOR", "3", "compute takes longer"},
    [KERNEL_STALL] = {"kernel-stall", NULL, "", "the next operation's kernel does not start"},
    [PROXY_DELAY] = {"proxy-delay", "MS", "5", "the proxy thread sleeps before each transfer"},
    [OP_NOT_ENTERED] = {"op-not-entered", "sleep|spin", "sleep", "the program stays out of the next operation"},
    [GROUP_STALL] = {"group-stall", NULL, "", "the program stays inside the call of the next operation"},
    [OTHER_OP] = {"other-op", "allgather|reducescatter|size", "allgather", "one call is another operation than the peers'"},
    [SWAP_ORDER] = {"swap-order", NULL, "", "the barrier on all ranks is called before the gradient's operation, not after"},
    [STOP] = {"stop", NULL, "", "SIGSTOP"},
    [KILL] = {"kill", NULL, "", "SIGKILL"},
    [EXIT] = {"exit", NULL, "", "the program ends by itself"},
    [CHECKPOINT] = {"checkpoint", "SECONDS", "20", "benign: writes a checkpoint before the next step"},
    [FIRST_STEP] = {"first-step", "SECONDS", "20", "benign: computes before its first operation"},
    [EVAL] = {"eval", "SECONDS", "8", "benign: computes on its GPU before the next step"},
    [DATA_LATE] = {"data-late", "SECONDS", "0.3", "the program waits so long for the data of every step"},
    [INIT_HANG] = {"init-hang", NULL, "", "the program does not call ncclCommInitRank"},
    [SPLIT_HANG] = {"split-hang", NULL, "", "the program does not call ncclCommSplit"},
    [BROADCAST_NOT_ENTERED] = {"broadcast-not-entered", "sleep|spin", "sleep", "the program stays out of the next broadcast"},
    [GPU_LOST] = {"gpu-lost", NULL, "", "the GPU has fallen off the bus"},
    [XID] = {"xid", "CODE", "79", "the GPU's driver reports an error"},
    [CONTROL] = {"control", "KEY=VALUE", "speed=0.5", "any line of the GPU's control file"},
};

static bool has(int kind) { return (program.kinds >> kind & 1) != 0; }

static double number(const char *key, const char *text) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || v < 0) die(EXIT_USAGE, "fault: %s wants a number, not \"%s\"", key, text);
  return v;
}

static double share(const char *key, const char *text) {
  double v = number(key, text);
  if (v > 1) die(EXIT_USAGE, "fault: %s is at most 1, not \"%s\"", key, text);
  return v;
}

void fault_set_key(struct fault *f, const char *key, const char *value) {
  if (strcmp(key, "rank") == 0) f->rank = strcmp(value, "all") == 0 ? RANK_ALL : (int)number(key, value);
  else if (strcmp(key, "peer") == 0) f->peer = (int)number(key, value);
  else if (strcmp(key, "channel") == 0) f->channel = (int)number(key, value);
  else if (strcmp(key, "comm") == 0) snprintf(f->comm, sizeof f->comm, "%s", value);
  else if (strcmp(key, "step") == 0) f->at_step = (uint64_t)number(key, value);
  else if (strcmp(key, "moment") == 0) f->moment = share(key, value);
  else if (strcmp(key, "every") == 0) f->every = (uint64_t)number(key, value);
  else if (strcmp(key, "after") == 0) f->after_ns = (uint64_t)(number(key, value) * (double)NS_PER_S);
  else if (strcmp(key, "for") == 0) f->for_ns = (uint64_t)(number(key, value) * (double)NS_PER_S);
  else die(EXIT_USAGE, "fault: unknown key \"%s\"", key);
}

static bool takes_words(enum fault_kind kind) {
  return kind == OP_NOT_ENTERED || kind == BROADCAST_NOT_ENTERED || kind == OTHER_OP || kind == CONTROL;
}

static void set_value(struct fault *f, const char *value) {
  snprintf(f->text, sizeof f->text, "%s", value);
  if (*value && !takes_words(f->kind)) f->value = number(kinds[f->kind].name, value);
  bool known = true;
  if (f->kind == OP_NOT_ENTERED || f->kind == BROADCAST_NOT_ENTERED) known = strcmp(value, "sleep") == 0 || strcmp(value, "spin") == 0;
  if (f->kind == OTHER_OP) {
    known = strcmp(value, "allgather") == 0 || strcmp(value, "reducescatter") == 0 || strcmp(value, "size") == 0;
  }
  if (f->kind == CONTROL) known = strchr(value, '=') != NULL;
  if (!known) die(EXIT_USAGE, "fault: %s wants %s", kinds[f->kind].name, kinds[f->kind].value);
  if (f->kind == GPU_SLOW && f->value <= 0) die(EXIT_USAGE, "fault: gpu-slow wants a factor");
  if (f->kind == LINK_SLOW && (f->value <= 0 || f->value > 1)) die(EXIT_USAGE, "fault: link-slow wants a fraction");
}

void fault_parse(struct fault *f, const char *spec) {
  char copy[256];
  if (snprintf(copy, sizeof copy, "%s", spec) >= (int)sizeof copy) die(EXIT_USAGE, "fault: too long");
  char *rest = copy, *name = strsep(&rest, ":"), *value = strchr(name, '=');
  if (value) *value++ = 0;
  int kind = 0;
  while (kind < KINDS && strcmp(kinds[kind].name, name) != 0) kind++;
  if (kind == KINDS || !has(kind)) die(EXIT_USAGE, "fault: unknown kind \"%s\"", name);
  *f = (struct fault){.kind = (enum fault_kind)kind, .rank = RANK_UNSET, .peer = -1, .channel = -1, .at_step = NO_STEP, .moment = -1};
  if (kind == FIRST_STEP || kind == INIT_HANG || kind == SPLIT_HANG) f->at_step = 0;
  set_value(f, value ? value : kinds[kind].fallback);
  while (rest) {
    char *key = strsep(&rest, ":"), *to = strchr(key, '=');
    if (!to) die(EXIT_USAGE, "fault: \"%s\" is no key=value", key);
    *to++ = 0;
    fault_set_key(f, key, to);
  }
}

void fault_usage(void) {
  puts("Faults, KIND[=VALUE]:");
  for (int k = 0; k < KINDS; k++) {
    if (!has(k)) continue;
    char head[64];
    snprintf(head, sizeof head, "%s%s%s", kinds[k].name, kinds[k].value ? "=" : "", kinds[k].value ? kinds[k].value : "");
    printf("  %-44s%s\n", head, kinds[k].help);
  }
}

const char *fault_kind_name(enum fault_kind kind) { return kinds[kind].name; }
