// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "train.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "rendezvous.h"
#include "work.h"

// An evaluation is passes of this length.
#define EVAL_PASS_MS 20.0
// How often a rank looks whether the others of its process have ended their first step.
#define MEET_NS NS_PER_MS

static size_t elements(uint64_t bytes) { return ((size_t)bytes + sizeof(float) - 1) / sizeof(float); }

// The last backward pass of a step: each part of the gradient leaves as soon as it is there.
static bool backward_with_gradient(struct train *t, double ms) {
  int buckets = t->options->dp_buckets;
  bool going = true;
  for (int i = 0; going && i < buckets; i++) going = layers(t, ms / buckets) && gradient(t);
  return going;
}

static bool pass_on_dp(struct train *t, double ms, bool forward, bool last) {
  if (t->groups->dp && t->options->dp_op == DP_FSDP) return sharded_pass(t, ms, forward);
  if (t->groups->dp && last) return backward_with_gradient(t, ms);
  return layers(t, ms);
}

static void pass(void *context, int micro, bool forward) {
  struct train *t = context;
  if (!t->going) return;
  double ms = pass_ms(t, micro, forward);
  bool last = !forward && micro == t->options->microbatches - 1;
  if (last && t->swapped) t->going = all_reduce_joined(t, &t->world, BARRIER_COUNT);
  if (t->going) t->going = pass_on_dp(t, ms, forward, last);
  if (t->going && t->groups->tp) t->going = all_reduce_joined(t, &t->tp, t->tp_count);
  if (t->going && t->groups->ep) t->going = experts(t);
}

// A step.

static bool due(int every, uint64_t step) { return every > 0 && (step + 1) % (uint64_t)every == 0; }

static bool broadcast_batch(struct train *t) {
  const struct fault *out = fault_find(BROADCAST_NOT_ENTERED, NULL);
  if (out) fault_hold(BROADCAST_NOT_ENTERED, NULL, strcmp(out->text, "spin") == 0);
  uint64_t salt = salt_of(&t->batch);
  fault_before_op(t->batch.comm->name, false);
  size_t count = t->tp_count;
  return comm_enter(t->batch.comm) && verified_broadcast(&t->batch, count, 0, salt) && comm_join(t->batch.comm);
}

static void evaluate(struct train *t) {
  struct fault *f = fault_find(EVAL, NULL);
  if (!f) return;
  fault_feel(f);
  uint64_t end = now_ns() + (uint64_t)(f->value * (double)NS_PER_S);
  while (t->going && now_ns() < end) t->going = compute(t, EVAL_PASS_MS) && gpu_sync(t->groups->rank->compute);
  fault_end(f);
}

// Forward and backward passes, with all that they communicate; the compute stream waits for the end of it.
static bool enqueue_passes(struct train *t) {
  const struct options *o = t->options;
  schedule_run(&(struct schedule){.kind = o->schedule,
                                  .stage = t->stage,
                                  .stages = o->pp,
                                  .micros = o->microbatches,
                                  .context = t,
                                  .chunks = o->chunks,
                                  .pass = pass,
                                  .exchange = pipeline_exchange,
                                  .rotate = pipeline_rotate});
  if (t->going && t->groups->dp) t->going = comm_join(t->groups->dp);
  return t->going;
}

// The other ranks of the process go on with their calls.
enum { CAPTURE_OF_THREAD = 1 };

static bool capture_passes(struct train *t) {
  cudaStream compute_stream = t->groups->rank->compute;
  cudaGraph graph;
  return cuda_ok(cudaStreamBeginCapture(compute_stream, CAPTURE_OF_THREAD), "cudaStreamBeginCapture") && enqueue_passes(t) &&
         cuda_ok(cudaStreamEndCapture(compute_stream, &graph), "cudaStreamEndCapture") &&
         cuda_ok(cudaGraphInstantiate(&t->graph, graph, 0), "cudaGraphInstantiate") && cuda_ok(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

// The first step connects; the second one is captured. To the program, a replay is one call.
static bool replay_passes(struct train *t) {
  if (t->step == 0) return enqueue_passes(t);
  if (!t->graph && !capture_passes(t)) return false;
  fault_before_op("graph", false);
  return cuda_ok(cudaGraphLaunch(t->graph, t->groups->rank->compute), "cudaGraphLaunch");
}

static bool enqueue_step(struct train *t) {
  const struct options *o = t->options;
  bool many = t->groups->world && o->world_size > 1;
  bool barrier = many && due(o->barrier_every, t->step);
  t->swapped = barrier && fault_swap_order();
  if (t->batch.comm && due(o->broadcast_every, t->step) && !broadcast_batch(t)) return false;
  t->going = o->graphs ? replay_passes(t) : enqueue_passes(t);
  // In flight beside those of other communicators, until the end of the step.
  if (t->going && t->groups->rest) t->going = all_reduce(t, &t->rest, t->tp_count);
  if (t->going && barrier && !t->swapped) t->going = all_reduce_joined(t, &t->world, BARRIER_COUNT);
  if (t->going && many && due(o->norm_every, t->step)) t->going = all_reduce_joined(t, &t->world, NORM_COUNT);
  if (t->going && t->groups->rest) t->going = comm_join(t->groups->rest);
  return t->going;
}

static uint64_t slot_of(const struct train *t, uint64_t step) { return step % (uint64_t)(t->options->ahead + 1); }

// The ranks of a process begin together: its program compiles and connects once for all of its GPUs. Where no communicator joins them,
// nothing else would keep one from being hundreds of steps ahead of another's first operation.
static bool meet_after_first_step(const struct options *o) {
  static int arrived;
  __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < o->per_process && !abort_requested()) sleep_ns(MEET_NS);
  return !abort_requested();
}

// Waits for the GPU to end a step, and reports it.
static bool finish_step(struct train *t, uint64_t step) {
  const struct options *o = t->options;
  uint64_t slot = slot_of(t, step);
  if (!gpu_await(t->done[slot])) return false;
  if (step == 0 && !meet_after_first_step(o)) return false;
  if (t->groups->rank->rank == o->report_rank && due(o->report_every, step)) {
    event_emit("step", ",\"step\":%llu,\"seconds\":%.6f", (unsigned long long)step, (double)(now_ns() - t->began_ns[slot]) / NS_PER_S);
  }
  return true;
}

static bool train_step(struct train *t) {
  uint64_t ahead = (uint64_t)t->options->ahead, slot = slot_of(t, t->step);
  t->began_ns[slot] = now_ns();
  fault_step(t->step);
  evaluate(t);
  if (!t->going || !enqueue_step(t)) return false;
  if (!cuda_ok(cudaEventRecord(t->done[slot], t->groups->rank->compute), "cudaEventRecord")) return false;
  // As reading the loss: the program waits for the GPU, for the last step or for an earlier one.
  return t->step < ahead || finish_step(t, t->step - ahead);
}

static bool open_buffers(struct train *t) {
  const struct groups *g = t->groups;
  const struct options *o = t->options;
  bool around = o->schedule == SCHEDULE_INTERLEAVED;  // The last stage's next one is the first.
  bool ok = !g->world || buffers_init(&t->world, g->world, NORM_COUNT);
  if (ok && g->tp) ok = buffers_init(&t->tp, g->tp, t->tp_count);
  if (ok && g->dp) ok = buffers_init(&t->dp, g->dp, t->dp_count + (size_t)g->dp->nranks);
  if (ok && g->ep) ok = buffers_init(&t->ep, g->ep, ((size_t)((double)t->ep_count * (1 + o->ep_skew)) + 1) * (size_t)g->ep->nranks);
  if (ok && g->cp) ok = buffers_init(&t->cp, g->cp, t->cp_count);
  if (ok && g->rest) ok = buffers_init(&t->rest, g->rest, t->tp_count);
  struct comm *batch = g->tp ? g->tp : g->dp;
  if (ok && batch) ok = buffers_init(&t->batch, batch, t->tp_count);
  if (ok && g->pp && (around || t->stage < o->pp - 1)) ok = buffers_init(&t->next, g->pp, t->pp_count);
  if (ok && g->pp && (around || t->stage > 0)) ok = buffers_init(&t->prev, g->pp, t->pp_count);
  return ok;
}

static void close_buffers(struct train *t) {
  struct buffers *all[] = {&t->tp, &t->dp, &t->ep, &t->cp, &t->rest, &t->world, &t->batch, &t->next, &t->prev, &t->other};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) buffers_free(all[i]);
}

static bool run(struct train *t) {
  const struct options *o = t->options;
  while (t->going && (o->steps == 0 || t->step < o->steps) && control_step_begin(t->step)) {
    t->going = train_step(t);
    t->step++;
  }
  uint64_t ahead = (uint64_t)o->ahead;
  for (uint64_t s = t->step > ahead ? t->step - ahead : 0; t->going && s < t->step; s++) t->going = finish_step(t, s);
  return t->going;
}

bool train(const struct groups *groups) {
  const struct options *o = groups->rank->options;
  int rank = groups->rank->rank;
  struct train t = {.groups = groups, .options = o, .going = true, .dp_index = rank / o->tp % o->dp, .stage = rank / (o->tp * o->dp)};
  t.tp_count = elements(o->tp_bytes);
  t.pp_count = elements(o->pp_bytes);
  t.ep_count = elements(o->ep_bytes) / (size_t)o->ep + 1;
  t.cp_count = elements(o->cp_bytes);
  t.dp_count = elements(o->bytes / (uint64_t)o->dp_buckets) + 1;
  size_t slots = (size_t)o->ahead + 1;
  t.done = must_calloc(slots, sizeof(cudaEvent));
  t.began_ns = must_calloc(slots, sizeof *t.began_ns);
  for (size_t i = 0; i < slots; i++) cudaEventCreate(&t.done[i]);
  for (int i = 0; i < 2; i++) cudaEventCreate(&t.gathered[i]);
  bool ok = open_buffers(&t) && run(&t);
  // NCCL does not end a communicator that a graph may still use.
  if (ok && t.graph) ok = cuda_ok(cudaGraphExecDestroy(t.graph), "cudaGraphExecDestroy");
  // Torn down, the GPU may still use them.
  if (ok) close_buffers(&t);
  free(t.done);
  free(t.began_ns);
  return ok;
}
