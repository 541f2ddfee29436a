// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Operations one by one, each waited for: all operations in awkward sizes, or those of a list.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "parse.h"
#include "pattern.h"
#include "rendezvous.h"
#include "train.h"
#include "verified.h"

enum { GROUPED = 4, SALT_STEP = 17, NAME_BYTES = 32 };

struct selftest {
  const struct groups *groups;
  struct comm *comm;  // The communicator of the operations.
  struct comm *half;  // What split made; NULL none.
  uint64_t calls;
};

static bool all_reduce(struct buffers *b, size_t count, uint64_t salt) { return verified_all_reduce(b, count, NCCL_SUM, salt); }
static bool all_reduce_max(struct buffers *b, size_t count, uint64_t salt) { return verified_all_reduce(b, count, NCCL_MAX, salt); }
static bool all_reduce_min(struct buffers *b, size_t count, uint64_t salt) { return verified_all_reduce(b, count, NCCL_MIN, salt); }

static bool broadcast(struct buffers *b, size_t count, uint64_t salt) {
  return verified_broadcast(b, count, (int)(salt % (uint64_t)b->comm->nranks), salt);
}

static bool reduce(struct buffers *b, size_t count, uint64_t salt) {
  return verified_reduce(b, count, (int)(salt % (uint64_t)b->comm->nranks), salt);
}

// Several collectives in one group: one launch.
static bool grouped_all_reduces(struct buffers *b, size_t count, uint64_t salt) {
  struct comm *c = b->comm;
  size_t each = count / GROUPED + 1;
  bool ok = buffers_fill(b, 0, each * GROUPED, salt, pattern_weight(c->rank)) && nccl_ok(nccl.GroupStart(), "ncclGroupStart");
  for (size_t i = 0; ok && i < GROUPED; i++) {
    ok = nccl_ok(nccl.AllReduce(b->in + i * each, b->out + i * each, each, NCCL_FLOAT32, NCCL_SUM, c->handle, c->stream), "ncclAllReduce");
  }
  return ok && nccl_ok(nccl.GroupEnd(), "ncclGroupEnd") &&
         buffers_check(b, "AllReduce", 0, each * GROUPED, salt, pattern_weight_of_all(c->nranks));
}

// A broadcast from each member in one group.
static bool grouped_broadcasts(struct buffers *b, size_t count, uint64_t salt) {
  struct comm *c = b->comm;
  bool ok = buffers_fill(b, 0, count * (size_t)c->nranks, salt, pattern_weight(c->rank)) && nccl_ok(nccl.GroupStart(), "ncclGroupStart");
  for (int r = 0; ok && r < c->nranks; r++) {
    size_t at = (size_t)r * count;
    ok = nccl_ok(nccl.Broadcast(b->in + at, b->out + at, count, NCCL_FLOAT32, r, c->handle, c->stream), "ncclBroadcast");
  }
  ok = ok && nccl_ok(nccl.GroupEnd(), "ncclGroupEnd");
  for (int r = 0; ok && r < c->nranks; r++) {
    ok = buffers_check(b, "Broadcast", (size_t)r * count, count, salt + (uint64_t)r * count, pattern_weight(r));
  }
  return ok;
}

static const struct operation {
  const char *name;
  bool (*run)(struct buffers *b, size_t count, uint64_t salt);
  bool of_all;  // Input or output is of all members.
} operations[] = {
    {"allreduce", all_reduce, false},
    {"allreduce-max", all_reduce_max, false},
    {"allreduce-min", all_reduce_min, false},
    {"reduce", reduce, false},
    {"broadcast", broadcast, false},
    {"allgather", verified_all_gather, true},
    {"reducescatter", verified_reduce_scatter, true},
    {"sendrecv", verified_shift, false},
    {"alltoall", verified_all_to_all, true},
    {"group", grouped_all_reduces, false},
    {"groupbroadcast", grouped_broadcasts, true},
};

enum { OPERATIONS = sizeof operations / sizeof *operations };

static bool run_op(struct selftest *s, const struct operation *op, size_t count) {
  struct comm *c = s->comm;
  struct buffers b;
  size_t room = (op->of_all ? count * (size_t)c->nranks : count) + 2 * GROUPED;
  if (!buffers_init(&b, c, room)) return false;
  uint64_t began = now_ns();
  fault_before_op(c->name, false);
  bool ok = op->run(&b, count, s->calls * SALT_STEP) && gpu_sync(c->stream);
  if (!ok) return false;
  if (s->groups->rank->rank == 0) {
    event_emit("op", ",\"name\":\"%s\",\"comm\":\"%s\",\"bytes\":%zu,\"seconds\":%.6f", op->name, c->name, count * sizeof(float),
               (double)(now_ns() - began) / NS_PER_S);
  }
  buffers_free(&b);
  return true;
}

static bool use_world(struct selftest *s) {
  s->comm = s->groups->world;
  bool ok = comm_destroy(s->half);
  s->half = NULL;
  return ok;
}

// Every other rank, in reverse order.
static bool use_half(struct selftest *s) {
  if (!use_world(s)) return false;
  const struct comm *world = s->groups->world;
  int color = world->rank % 2, members = (world->nranks + 1 - color) / 2;
  if (!comm_split(s->groups->world, color, world->nranks - world->rank, "half", members, members - 1 - world->rank / 2, &s->half)) {
    return false;
  }
  s->comm = s->half;
  return true;
}

static bool pause_for(uint64_t milliseconds) {
  sleep_ns(milliseconds * NS_PER_MS);
  return !abort_requested();
}

// One entry of a list: an operation, split, world or pause.
static bool run_entry(struct selftest *s, const char *name, uint64_t value) {
  if (!control_step_begin(s->calls)) return true;
  fault_step(s->calls++);
  if (strcmp(name, "split") == 0) return use_half(s);
  if (strcmp(name, "world") == 0) return use_world(s);
  if (strcmp(name, "pause") == 0) return pause_for(value);
  for (int k = 0; k < OPERATIONS; k++) {
    size_t count = value < sizeof(float) ? 1 : (size_t)value / sizeof(float);
    if (strcmp(operations[k].name, name) == 0) return s->comm->nranks == 1 || run_op(s, &operations[k], count);
  }
  die(EXIT_USAGE, "--selftest: unknown operation \"%s\"", name);
}

static bool run_list(struct selftest *s, const char *list) {
  bool ok = true;
  while (ok && *list) {
    char entry[NAME_BYTES];
    size_t length = strcspn(list, ",");
    if (length >= sizeof entry) die(EXIT_USAGE, "--selftest: \"%s\" is too long", list);
    memcpy(entry, list, length);
    entry[length] = 0;
    list += length + (list[length] == ',');
    char *value = strchr(entry, ':');
    if (value) *value++ = 0;
    ok = run_entry(s, entry, value ? parse_whole("selftest", value) : 1024);
  }
  return ok;
}

static bool run_all(struct selftest *s) {
  static const size_t counts[] = {1, 3, 61, 1000, 4097, 50000, 400003};
  bool ok = true;
  for (size_t i = 0; ok && i < sizeof counts / sizeof *counts; i++) {
    for (int k = 0; ok && k < OPERATIONS; k++) ok = run_entry(s, operations[k].name, counts[i] * sizeof(float));
  }
  return ok;
}

bool selftest(const struct groups *groups) {
  struct selftest s = {.groups = groups, .comm = groups->world};
  const struct options *o = groups->rank->options;
  bool ok = true;
  if (strcmp(o->selftest, "ops") == 0) {
    ok = run_all(&s) && run_entry(&s, "split", 0) && run_all(&s);
  } else {
    for (uint64_t i = 0; ok && i < (o->steps ? o->steps : 1); i++) ok = run_list(&s, o->selftest);
  }
  ok = ok && use_world(&s);
  if (ok) event_emit("selftest", ",\"result\":\"ok\",\"operations\":%llu", (unsigned long long)s.calls);
  return ok;
}
