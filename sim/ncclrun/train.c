// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "train.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "pattern.h"
#include "rendezvous.h"
#include "schedule.h"
#include "verified.h"

// Distance in salt between operations, and between microbatches of a stage.
enum { SALT_OP = 3, SALT_FORWARD = 7, SALT_BACKWARD = 29, SALT_STEP = 13 };
enum { NORM_COUNT = 2, BARRIER_COUNT = 1 };
// An evaluation is passes of this length.
#define EVAL_PASS_MS 20.0
// How often a rank looks whether the others of its process have ended their first step.
#define MEET_NS NS_PER_MS
// What one round of the ring takes of a rank on one channel at most, bytes; and the channels if NCCL chooses them.
enum { RING_CHUNK = 2 << 20, RING_CHANNELS = 16 };

struct train {
  const struct groups *groups;
  const struct options *options;
  int dp_index, stage;
  uint64_t step;
  bool swapped;  // In this step the barrier comes before the gradient.
  bool going;
  size_t tp_count, pp_count, dp_count, ep_count;
  struct buffers tp, dp, ep, world, batch;
  struct buffers next, prev;  // To and from the neighbour stages.
  struct buffers other;       // Of a call that does not fit, once there was one.
  cudaEvent *done;            // Ends of the last steps, by step modulo ahead + 1.
  uint64_t *began_ns;         // When they began.
};

static size_t elements(uint64_t bytes) { return ((size_t)bytes + sizeof(float) - 1) / sizeof(float); }

static uint64_t salt_of(struct buffers *b) { return b->comm->ops++ * SALT_OP; }

// Compute.

// splitmix64: any digest does.
static uint64_t digest(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Batches differ between data-parallel replicas, not between the ranks that work on one.
static double pass_ms(const struct train *t, int micro, bool forward) {
  uint64_t x = digest(digest(t->step) ^ (uint64_t)(micro * 2 + forward) ^ (uint64_t)t->dp_index << 32);
  double uniform = (double)(x >> 11) / (double)(1ull << 53) * 2 - 1;
  return (double)t->options->compute_ns / NS_PER_MS * (1 + t->options->jitter * uniform);
}

static bool compute(const struct train *t, double ms) {
  return ms <= 0 || cuda_ok(fakegpu_compute(t->groups->rank->compute, ms), "compute");
}

// Operations. The compute stream waits for all of them but the gradient's.

// More rounds of the ring than an operation of `count` elements takes. With as many, the ranks would take as many steps, and NCCL
// would go on with rubbish.
static size_t more_rounds(const struct comm *c, size_t count) {
  int channels = c->owner->options->channels;
  return count + 2 * (size_t)c->nranks * (size_t)(channels ? channels : RING_CHANNELS) * RING_CHUNK / sizeof(float);
}

// The call that does not fit; its result is rubbish and is not looked at.
static bool call_other(struct train *t, struct comm *c, size_t count) {
  struct buffers *b = &t->other;
  const char *what = fault_other_op();
  size_t share = count / (size_t)c->nranks + 1, more = more_rounds(c, count);
  if (!b->comm && !buffers_init(b, c, more)) return false;
  if (strcmp(what, "allgather") == 0) {
    return nccl_ok(nccl.AllGather(b->in, b->out, share, NCCL_FLOAT32, c->handle, c->stream), "ncclAllGather");
  }
  if (strcmp(what, "reducescatter") == 0) {
    return nccl_ok(nccl.ReduceScatter(b->in, b->out, share, NCCL_FLOAT32, NCCL_SUM, c->handle, c->stream), "ncclReduceScatter");
  }
  return nccl_ok(nccl.AllReduce(b->in, b->out, more, NCCL_FLOAT32, NCCL_SUM, c->handle, c->stream), "ncclAllReduce");
}

static bool all_reduce(struct train *t, struct buffers *b, size_t count) {
  uint64_t salt = salt_of(b);
  bool other = fault_before_op(b->comm->name, true);
  if (!comm_enter(b->comm)) return false;
  return other ? call_other(t, b->comm, count) : verified_all_reduce(b, count, NCCL_SUM, salt);
}

static bool all_reduce_joined(struct train *t, struct buffers *b, size_t count) {
  return all_reduce(t, b, count) && comm_join(b->comm);
}

// An expert layer: tokens go to their experts and come back.
static bool experts(struct train *t) {
  for (int way = 0; way < 2; way++) {
    uint64_t salt = salt_of(&t->ep);
    fault_before_op(t->ep.comm->name, false);
    if (!comm_enter(t->ep.comm) || !verified_all_to_all(&t->ep, t->ep_count, salt) || !comm_join(t->ep.comm)) return false;
  }
  return true;
}

static bool gradient(struct train *t) {
  struct buffers *b = &t->dp;
  if (t->options->dp_op == DP_ALLREDUCE) return all_reduce(t, b, t->dp_count);
  size_t share = t->dp_count / (size_t)b->comm->nranks + 1;
  uint64_t salt = salt_of(b);
  bool other = fault_before_op(b->comm->name, true);
  if (!comm_enter(b->comm)) return false;
  if (!(other ? call_other(t, b->comm, t->dp_count) : verified_reduce_scatter(b, share, salt))) return false;
  salt = salt_of(b);
  fault_before_op(b->comm->name, false);
  return verified_all_gather(b, share, salt);
}

// The last backward pass of a step: each part of the gradient leaves as soon as it is there.
static bool backward_with_gradient(struct train *t, double ms) {
  int buckets = t->options->dp_buckets;
  bool going = true;
  for (int i = 0; going && i < buckets; i++) going = compute(t, ms / buckets) && gradient(t);
  return going;
}

static void pass(void *context, int micro, bool forward) {
  struct train *t = context;
  if (!t->going) return;
  double ms = pass_ms(t, micro, forward);
  bool last = !forward && micro == t->options->microbatches - 1;
  if (last && t->swapped) t->going = all_reduce_joined(t, &t->world, BARRIER_COUNT);
  if (t->going) t->going = last && t->groups->dp ? backward_with_gradient(t, ms) : compute(t, ms);
  if (t->going && t->groups->tp) t->going = all_reduce_joined(t, &t->tp, t->tp_count);
  if (t->going && t->groups->ep) t->going = experts(t);
}

// Pipeline neighbours.

static uint64_t salt_of_micro(const struct train *t, int micro, bool forward) {
  return t->step * SALT_STEP + (uint64_t)micro * (forward ? SALT_FORWARD : SALT_BACKWARD) + (forward ? 0 : 1);
}

static bool send_and_receive(struct buffers *b, size_t count, int peer, bool sends, bool receives) {
  struct comm *c = b->comm;
  if (!nccl_ok(nccl.GroupStart(), "ncclGroupStart")) return false;
  if (sends && !nccl_ok(nccl.Send(b->in, count, NCCL_FLOAT32, peer, c->handle, c->stream), "ncclSend")) return false;
  if (receives && !nccl_ok(nccl.Recv(b->out, count, NCCL_FLOAT32, peer, c->handle, c->stream), "ncclRecv")) return false;
  fault_hold(GROUP_STALL, c->name, false);
  return nccl_ok(nccl.GroupEnd(), "ncclGroupEnd");
}

static void exchange(void *context, bool with_next, int send_micro, int recv_micro) {
  struct train *t = context;
  if (!t->going) return;
  struct buffers *b = with_next ? &t->next : &t->prev;
  int peer = t->stage + (with_next ? 1 : -1);
  bool sends = send_micro >= 0, receives = recv_micro >= 0;
  fault_before_op(b->comm->name, false);
  t->going = comm_enter(b->comm);
  if (t->going && sends) {
    t->going = buffers_fill(b, 0, t->pp_count, salt_of_micro(t, send_micro, with_next), pattern_weight(b->comm->rank));
  }
  if (t->going) t->going = send_and_receive(b, t->pp_count, peer, sends, receives);
  if (t->going && receives) {
    t->going = buffers_check(b, "Recv", 0, t->pp_count, salt_of_micro(t, recv_micro, !with_next), pattern_weight(peer));
  }
  if (t->going) t->going = comm_join(b->comm);
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

static bool enqueue_step(struct train *t) {
  const struct options *o = t->options;
  bool many = t->groups->world && o->world_size > 1;
  bool barrier = many && due(o->barrier_every, t->step);
  t->swapped = barrier && fault_swap_order();
  if (t->batch.comm && due(o->broadcast_every, t->step) && !broadcast_batch(t)) return false;
  schedule_run(&(struct schedule){.kind = o->schedule,
                                  .stage = t->stage,
                                  .stages = o->pp,
                                  .micros = o->microbatches,
                                  .context = t,
                                  .pass = pass,
                                  .exchange = exchange});
  if (t->going && t->groups->dp) t->going = comm_join(t->groups->dp);
  if (t->going && barrier && !t->swapped) t->going = all_reduce_joined(t, &t->world, BARRIER_COUNT);
  if (t->going && many && due(o->norm_every, t->step)) t->going = all_reduce_joined(t, &t->world, NORM_COUNT);
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
  bool ok = !g->world || buffers_init(&t->world, g->world, NORM_COUNT);
  if (ok && g->tp) ok = buffers_init(&t->tp, g->tp, t->tp_count);
  if (ok && g->dp) ok = buffers_init(&t->dp, g->dp, t->dp_count + (size_t)g->dp->nranks);
  if (ok && g->ep) ok = buffers_init(&t->ep, g->ep, t->ep_count * (size_t)g->ep->nranks);
  struct comm *batch = g->tp ? g->tp : g->dp;
  if (ok && batch) ok = buffers_init(&t->batch, batch, t->tp_count);
  if (ok && g->pp && t->stage < t->options->pp - 1) ok = buffers_init(&t->next, g->pp, t->pp_count);
  if (ok && g->pp && t->stage > 0) ok = buffers_init(&t->prev, g->pp, t->pp_count);
  return ok;
}

static void close_buffers(struct train *t) {
  struct buffers *all[] = {&t->tp, &t->dp, &t->ep, &t->world, &t->batch, &t->next, &t->prev, &t->other};
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
  t.dp_count = elements(o->bytes / (uint64_t)o->dp_buckets) + 1;
  size_t slots = (size_t)o->ahead + 1;
  t.done = must_calloc(slots, sizeof(cudaEvent));
  t.began_ns = must_calloc(slots, sizeof *t.began_ns);
  for (size_t i = 0; i < slots; i++) cudaEventCreate(&t.done[i]);
  bool ok = open_buffers(&t) && run(&t);
  // Torn down, the GPU may still use them.
  if (ok) close_buffers(&t);
  free(t.done);
  free(t.began_ns);
  return ok;
}
