// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "api.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "event.h"
#include "fault_model.h"
#include "gpu.h"
#include "profiler.h"

#define GROUP_MAX 64
#define STREAM ((void *)1)  // Only an opaque word to the profiler.

enum {
  MASK_TASK = CULPRIT_NCCL_PROXY_OP | CULPRIT_NCCL_PROXY_STEP | CULPRIT_NCCL_KERNEL_CH | CULPRIT_NCCL_NET_PLUGIN,
  MASK_COLL = MASK_TASK | CULPRIT_NCCL_COLL,
  MASK_P2P = MASK_TASK | CULPRIT_NCCL_P2P,
  MASK_CE = CULPRIT_NCCL_CE_COLL | CULPRIT_NCCL_CE_SYNC | CULPRIT_NCCL_CE_BATCH,
  MASK_COLL_API = MASK_COLL | CULPRIT_NCCL_COLL_API | MASK_CE,
  MASK_P2P_API = MASK_P2P | CULPRIT_NCCL_P2P_API,
  MASK_GROUP = MASK_COLL | MASK_P2P | CULPRIT_NCCL_GROUP,
  MASK_GROUP_API = MASK_COLL_API | MASK_P2P_API | MASK_GROUP | CULPRIT_NCCL_GROUP_API | CULPRIT_NCCL_KERNEL_LAUNCH,
};

enum group_state { GROUP_RESET, GROUP_STARTED, GROUP_STARTED_STOPPED };

// The open group. NCCL keeps it per thread; one thread calls here.
static struct {
  int depth;
  struct comm *comm;
  struct task tasks[GROUP_MAX];
  int ntasks;
  // Profiler.
  int mask;  // Sampled at the API call.
  int profiler_depth;
  enum group_state state;
  void *group_api, *coll_api, *p2p_api;
} self;

static void record_group(enum group_state from, enum group_state to, int state) {
  if (self.state != from) return;
  self.state = to;
  prof_record(self.group_api, state, NULL);
}

// The group's event begins with its first operation.
static void profile_group_start(const struct comm *comm) {
  self.mask = prof_mask();
  if ((self.mask & MASK_GROUP_API) && self.profiler_depth == 0) {
    prof_descr descr = {.type = CULPRIT_NCCL_GROUP_API, .groupApi = {.groupDepth = self.depth}};
    prof_start(comm->prof_context, &self.group_api, &descr);
    self.profiler_depth = self.depth;
    self.state = GROUP_STARTED;
  }
  record_group(GROUP_STARTED, GROUP_STARTED_STOPPED, CULPRIT_NCCL_GROUP_START_API_STOP);
}

static struct task *append(struct comm *comm, const struct task *task) {
  if (self.comm && self.comm != comm) die(EXIT_USAGE, "a group may use one communicator only");
  if (self.ntasks == GROUP_MAX) die(EXIT_USAGE, "more than %d operations in a group", GROUP_MAX);
  self.comm = comm;
  self.tasks[self.ntasks] = *task;
  return &self.tasks[self.ntasks++];
}

static void call_coll(struct comm *comm, const struct task *from) {
  api_group_start();
  profile_group_start(comm);
  if (self.mask & MASK_COLL_API) {
    prof_descr descr = {.type = CULPRIT_NCCL_COLL_API, .parentObj = self.group_api};
    descr.collApi.func = func_name(from->func);
    descr.collApi.count = from->count;
    descr.collApi.datatype = "ncclFloat32";
    descr.collApi.root = from->root;
    descr.collApi.stream = STREAM;
    prof_start(comm->prof_context, &self.coll_api, &descr);
  }
  struct task *task = append(comm, from);
  task->channels = comm->options->channels;
  task->tag = ++comm->coll_number;
  task->mask = self.mask;
  task->group_api = self.group_api;
  task->api = self.coll_api;
  if (task->func == FUNC_BROADCAST && api_broadcast_is_hidden()) task->mask = 0;
  // Not reset, as in NCCL: a plugin that does not write the next one's handle sees this one again.
  prof_stop(self.coll_api);
  api_group_end();
}

static void call_p2p(struct comm *comm, const struct task *from) {
  api_group_start();
  profile_group_start(comm);
  if (self.mask & MASK_P2P_API) {
    prof_descr descr = {.type = CULPRIT_NCCL_P2P_API, .parentObj = self.group_api};
    descr.p2pApi.func = func_name(from->func);
    descr.p2pApi.count = from->count;
    descr.p2pApi.datatype = "ncclFloat32";
    descr.p2pApi.stream = STREAM;
    prof_start(comm->prof_context, &self.p2p_api, &descr);
  }
  struct task *task = append(comm, from);
  task->channels = p2p_channels(comm, from->count * sizeof(float));
  uint64_t *numbers = from->func == FUNC_SEND ? comm->send_number : comm->recv_number;
  task->tag = ++numbers[from->peer];
  task->mask = self.mask;
  task->group_api = self.group_api;
  task->api = self.p2p_api;
  prof_stop(self.p2p_api);
  self.p2p_api = NULL;
  api_group_end();
}

static void coll_event(struct plan *plan, struct task *task, void *group) {
  struct comm *comm = plan->comm;
  uint64_t seq = comm->seq[task->func];
  bool hidden = task->func == FUNC_BROADCAST && api_broadcast_is_hidden();
  if (!hidden) comm->seq[task->func]++;
  if (!(task->mask & MASK_COLL)) return;
  bool bytes = task->func == FUNC_ALLGATHER || task->func == FUNC_BROADCAST;
  prof_descr descr = {.type = CULPRIT_NCCL_COLL, .parentObj = task->api, .rank = comm->rank};
  descr.coll.parentGroup = group;
  descr.coll.seqNumber = seq;
  descr.coll.func = func_name(task->func);
  descr.coll.sendBuff = task->send;
  descr.coll.recvBuff = task->recv;
  descr.coll.count = bytes ? task->count * sizeof(float) : task->count;
  descr.coll.root = task->root;
  descr.coll.datatype = bytes ? "ncclInt8" : "ncclFloat32";
  descr.coll.nChannels = (uint8_t)task->channels;
  descr.coll.nWarps = 16;
  descr.coll.algo = task->algo == ALGO_TREE ? "TREE" : "RING";
  descr.coll.proto = "SIMPLE";
  prof_start(comm->prof_context, &task->event, &descr);
}

static void p2p_event(struct plan *plan, struct task *task, void *group) {
  if (!(task->mask & MASK_P2P)) return;
  struct comm *comm = plan->comm;
  prof_descr descr = {.type = CULPRIT_NCCL_P2P, .parentObj = task->api, .rank = comm->rank};
  descr.p2p.parentGroup = group;
  descr.p2p.func = func_name(task->func);
  descr.p2p.buff = task->func == FUNC_SEND ? (void *)(uintptr_t)task->send : task->recv;
  descr.p2p.datatype = "ncclFloat32";
  descr.p2p.count = task->count;
  descr.p2p.peer = task->peer;
  descr.p2p.nChannels = (uint8_t)task->channels;
  prof_start(comm->prof_context, &task->event, &descr);
}

static int first_mask(const struct plan *plan, void **group_api) {
  for (int i = 0; i < plan->ntasks; i++) {
    *group_api = plan->tasks[i].group_api;
    if (plan->tasks[i].mask) return plan->tasks[i].mask;
  }
  return 0;
}

// Launches the kernel of a plan, then does what NCCL does on the host right behind: events, work for the proxy.
static void launch(struct plan *plan) {
  struct comm *comm = plan->comm;
  void *launch_event = NULL, *group_api = NULL, *group = NULL;
  int mask = first_mask(plan, &group_api);
  if (mask & CULPRIT_NCCL_KERNEL_LAUNCH) {
    prof_descr descr = {.type = CULPRIT_NCCL_KERNEL_LAUNCH, .parentObj = group_api, .kernelLaunch = {.stream = STREAM}};
    prof_start(comm->prof_context, &launch_event, &descr);
  }
  fault_before_launch(comm);
  gpu_kernel(comm->gpu, plan);
  prof_stop(launch_event);

  if (mask & MASK_GROUP) {
    prof_descr descr = {.type = CULPRIT_NCCL_GROUP};
    prof_start(comm->prof_context, &group, &descr);
  }
  for (int i = 0; i < plan->ntasks; i++) {
    if (plan->collective) coll_event(plan, &plan->tasks[i], group);
    else p2p_event(plan, &plan->tasks[i], group);
  }
  // The events' handles are known only now.
  for (struct proxy_op *op = plan->proxy_ops; op; op = op->next) op->task_handle = plan->tasks[op->task].event;
  proxy_upload(comm->proxy, plan->proxy_ops);
  for (int i = 0; i < plan->ntasks; i++) prof_stop(plan->tasks[i].event);
  prof_stop(group);
  plan_release(plan);
}

void api_group_start(void) {
  if (self.profiler_depth > 0) self.profiler_depth++;
  self.depth++;
}

// The first operation of a kind on a communicator makes its connections, on the user's thread inside ncclGroupEnd.
static void connect_first(struct comm *comm, bool collective) {
  if (comm->connected[collective]) return;
  comm->connected[collective] = true;
  sleep_ns(comm->options->connect_ns);
}

// NCCL makes one plan, and one kernel, of the collectives of a group and another of its sends and receives.
static void launch_group(void) {
  struct task colls[GROUP_MAX], p2ps[GROUP_MAX];
  int ncolls = 0, np2ps = 0;
  for (int i = 0; i < self.ntasks; i++) {
    bool p2p = self.tasks[i].func == FUNC_SEND || self.tasks[i].func == FUNC_RECV;
    if (p2p) p2ps[np2ps++] = self.tasks[i];
    else colls[ncolls++] = self.tasks[i];
  }
  if (ncolls > 0) connect_first(self.comm, true);
  if (np2ps > 0) connect_first(self.comm, false);
  // Works of one channel run one after the other on the device: one collective a kernel.
  for (int i = 0; i < ncolls; i++) {
    struct plan *plan = plan_new(self.comm, true, &colls[i], 1);
    if (colls[i].algo == ALGO_TREE) tree_plan(plan, plan->tasks);
    else ring_plan(plan, plan->tasks);
    launch(plan);
  }
  if (np2ps > 0) {
    struct plan *plan = plan_new(self.comm, false, p2ps, np2ps);
    p2p_plan(plan);
    launch(plan);
  }
}

void api_group_end(void) {
  if (self.profiler_depth > 0) self.profiler_depth--;
  if (self.profiler_depth == 0) record_group(GROUP_STARTED_STOPPED, GROUP_RESET, CULPRIT_NCCL_GROUP_END_API_START);
  if (--self.depth > 0) return;
  launch_group();
  self.ntasks = 0;
  self.comm = NULL;
  prof_stop(self.group_api);
  self.group_api = NULL;
}

void api_all_reduce(struct comm *comm, const float *send, float *recv, size_t count, enum algo algo) {
  call_coll(comm, &(struct task){.func = FUNC_ALLREDUCE, .algo = algo, .send = send, .recv = recv, .count = count});
}

void api_all_gather(struct comm *comm, const float *send, float *recv, size_t count) {
  call_coll(comm, &(struct task){.func = FUNC_ALLGATHER, .send = send, .recv = recv, .count = count});
}

void api_reduce_scatter(struct comm *comm, const float *send, float *recv, size_t count) {
  call_coll(comm, &(struct task){.func = FUNC_REDUCESCATTER, .send = send, .recv = recv, .count = count});
}

void api_broadcast(struct comm *comm, const float *send, float *recv, size_t count, int root) {
  call_coll(comm, &(struct task){.func = FUNC_BROADCAST, .send = send, .recv = recv, .count = count, .root = root});
}

void api_send(struct comm *comm, const float *send, size_t count, int peer) {
  call_p2p(comm, &(struct task){.func = FUNC_SEND, .send = send, .count = count, .peer = peer});
}

void api_recv(struct comm *comm, float *recv, size_t count, int peer) {
  call_p2p(comm, &(struct task){.func = FUNC_RECV, .recv = recv, .count = count, .peer = peer});
}

bool api_broadcast_is_hidden(void) {
  const char *enabled = getenv("NCCL_ALLGATHERV_ENABLE");
  return !enabled || strcmp(enabled, "0") != 0;
}
