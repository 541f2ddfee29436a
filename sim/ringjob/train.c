// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "train.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "gpu.h"
#include "rendezvous.h"
#include "schedule.h"
#include "verified.h"

// Distance in salt between operations of a step.
enum { SALT_FORWARD = 7, SALT_BACKWARD = 29, SALT_OP = 3, SALT_STEP = 13 };

struct train {
  const struct job *job;
  const struct options *options;
  int stage;
  uint64_t step;
  uint64_t ops;  // In this step; the same on all ranks of a stage.
  size_t tp_count, pp_count, dp_count;
  struct buffers tp, dp, barrier;
  struct buffers next, prev;  // To and from the neighbour stages.
};

static size_t elements(size_t bytes) { return (bytes + sizeof(float) - 1) / sizeof(float); }

static uint64_t salt_of(struct train *t) { return t->step * SALT_STEP + t->ops++ * SALT_OP; }

static enum algo algo_of(const struct train *t) { return t->options->tree ? ALGO_TREE : ALGO_RING; }

// One more round of the ring on each channel, whatever the size.
static size_t extra_loop(const struct comm *comm) {
  size_t chunk = 4 * comm->options->step_bytes / sizeof(float);
  return chunk * (size_t)comm->nranks * (size_t)comm->options->channels;
}

// The call that does not fit; its result is rubbish and is not looked at.
static void call_other(struct buffers *b, size_t count) {
  const char *what = fault_other_op();
  size_t share = count / (size_t)b->comm->nranks + 1;
  if (strcmp(what, "allgather") == 0) api_all_gather(b->comm, b->in, b->out, share);
  else if (strcmp(what, "reducescatter") == 0) api_reduce_scatter(b->comm, b->in, b->out, share);
  else api_all_reduce(b->comm, b->in, b->out, count + extra_loop(b->comm), ALGO_RING);
}

static void all_reduce(struct train *t, struct buffers *b, size_t count) {
  uint64_t salt = salt_of(t);
  if (fault_before_op(b->comm->name, true)) call_other(b, count);
  else verified_all_reduce(b, count, algo_of(t), salt);
}

static void pass(void *context, int micro, bool forward) {
  struct train *t = context;
  (void)micro;
  (void)forward;
  gpu_compute(t->job->gpu, t->options->compute_ns);
  if (t->job->tp) all_reduce(t, &t->tp, t->tp_count);
}

// Pipeline neighbours.

static bool has_prev(const struct train *t) { return t->stage > 0; }

static bool has_next(const struct train *t) { return t->stage < t->options->pp - 1; }

static uint64_t salt_of_micro(const struct train *t, int micro, bool forward) {
  return t->step * SALT_STEP + (uint64_t)micro * (forward ? SALT_FORWARD : SALT_BACKWARD) + (forward ? 0 : 1);
}

static void exchange(void *context, bool with_next, int send_micro, int recv_micro) {
  struct train *t = context;
  struct buffers *b = with_next ? &t->next : &t->prev;
  int peer = t->stage + (with_next ? 1 : -1);
  fault_before_op(b->comm->name, false);
  if (send_micro >= 0) verified_fill_send(b, t->pp_count, salt_of_micro(t, send_micro, with_next));
  api_group_start();
  if (send_micro >= 0) api_send(b->comm, b->in, t->pp_count, peer);
  if (recv_micro >= 0) api_recv(b->comm, b->out, t->pp_count, peer);
  api_group_end();
  if (recv_micro >= 0) verified_check_recv(b, t->pp_count, peer, salt_of_micro(t, recv_micro, !with_next));
}

static void gradients(struct train *t) {
  if (!t->job->dp) return;
  for (int i = 0; i < t->options->dp_buckets; i++) {
    if (t->options->dp_op == DP_ALLREDUCE) {
      all_reduce(t, &t->dp, t->dp_count);
      continue;
    }
    size_t share = t->dp_count / (size_t)t->job->dp->nranks + 1;
    uint64_t salt = salt_of(t);
    if (fault_before_op(t->job->dp->name, true)) {
      call_other(&t->dp, t->dp_count);
    } else {
      verified_reduce_scatter(&t->dp, share, salt);
    }
    salt = salt_of(t);
    fault_before_op(t->job->dp->name, false);
    verified_all_gather(&t->dp, share, salt);
  }
}

struct train *train_new(const struct job *job) {
  const struct options *o = job->options;
  struct train *t = must_calloc(1, sizeof *t);
  *t = (struct train){.job = job, .options = o, .stage = o->rank / (o->tp * o->dp)};
  t->tp_count = elements(o->tp_bytes);
  t->pp_count = elements(o->pp_bytes);
  t->dp_count = elements(o->bytes / (size_t)o->dp_buckets);
  if (t->dp_count == 0) t->dp_count = 1;
  // Room for an operation of the wrong size, too.
  if (job->tp) buffers_init(&t->tp, job->tp, t->tp_count + extra_loop(job->tp));
  if (job->dp) buffers_init(&t->dp, job->dp, t->dp_count + extra_loop(job->dp));
  buffers_init(&t->barrier, job->world, 1 + extra_loop(job->world));
  if (has_next(t)) buffers_init(&t->next, job->pp, t->pp_count);
  if (has_prev(t)) buffers_init(&t->prev, job->pp, t->pp_count);
  return t;
}

void train_free(struct train *t) {
  struct buffers *all[] = {&t->tp, &t->dp, &t->barrier, &t->next, &t->prev};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) buffers_free(all[i]);
  free(t);
}

static bool train_step(struct train *t) {
  const struct options *o = t->options;
  t->ops = 0;
  schedule_run(&(struct schedule){.kind = o->schedule,
                                  .stage = t->stage,
                                  .stages = o->pp,
                                  .micros = o->microbatches,
                                  .context = t,
                                  .pass = pass,
                                  .exchange = exchange});
  bool barrier = o->barrier_every > 0 && (t->step + 1) % (uint64_t)o->barrier_every == 0 && o->world_size > 1;
  bool swapped = barrier && fault_swap_order();
  if (swapped) all_reduce(t, &t->barrier, 1);
  gradients(t);
  if (barrier && !swapped) all_reduce(t, &t->barrier, 1);
  // As reading the loss: the program waits for the GPU once a step.
  return gpu_sync(t->job->gpu);
}

bool train_run(struct train *t) {
  const struct options *o = t->options;
  bool going = true;
  for (t->step = 0; going && (o->steps == 0 || t->step < o->steps) && control_step_begin(t->step); t->step++) {
    uint64_t began = now_ns();
    fault_step(t->step);
    going = train_step(t);
    if (going && o->rank == 0 && o->report_every > 0 && (t->step + 1) % (uint64_t)o->report_every == 0) {
      event_emit("step", ",\"step\":%llu,\"seconds\":%.6f", (unsigned long long)t->step, (double)(now_ns() - began) / NS_PER_S);
    }
  }
  return going;
}
