// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The verbs interposer before a stand-in libibverbs, looked up as NCCL does it, and the records that come of it.

#include "../verbs/verbs_abi.h"
#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct verbs_context *(*open_device)(void *);
static struct verbs_cq *(*create_cq)(struct verbs_context *);
static struct verbs_qp *(*create_qp)(void *, struct verbs_qp_init_attr *);
static int (*modify_qp)(struct verbs_qp *, struct verbs_qp_attr *, int);
static int (*destroy_qp)(struct verbs_qp *);

// symbol looks a function up as NCCL does: in the library's scope, by version.
static void *symbol(void *library, const char *name) {
  void *found = dlvsym(library, name, VERBS_VERSION);
  CHECK(found != NULL);
  return found;
}

static void *load_verbs(void) {
  void *library = dlopen(getenv("VERBS"), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) harness_fail(__FILE__, __LINE__, "dlopen: %s", dlerror());
  *(void **)&open_device = symbol(library, "ibv_open_device");  // The stand-in's own.
  *(void **)&create_cq = symbol(library, "ibv_create_cq");
  *(void **)&create_qp = symbol(library, "ibv_create_qp");
  *(void **)&modify_qp = symbol(library, "ibv_modify_qp");
  *(void **)&destroy_qp = symbol(library, "ibv_destroy_qp");
  return library;
}

// traced starts a job with the interposer and the plugin, and opens its trace.
static struct view traced(void) {
  load_verbs();
  nccl_load(6);
  nccl_init(1, NULL, 2, 4, 0);
  return view_open();
}

static struct culprit_qp qp_of(const struct view *v, uint32_t i) {
  const struct culprit_section *s = view_section(v, CULPRIT_SECTION_QPS);
  CHECK(i < s->count);
  struct culprit_qp q;
  memcpy(&q, v->base + s->offset + (size_t)i * s->entry_bytes, sizeof q);
  CHECK_EQ(q.version % 2, 0);
  return q;
}

static int send_one(struct verbs_qp *qp, uint64_t id, uint32_t bytes, unsigned flags) {
  struct verbs_sge sge[2] = {{.length = bytes - 10}, {.length = 10}};
  struct verbs_send_wr wr = {.wr_id = id, .sg_list = sge, .num_sge = 2, .send_flags = flags}, *bad = NULL;
  return qp->context->post_send(qp, &wr, &bad);
}

// A queue pair is seen when it is made, and says where it leads once it is connected.
static void queue_pair_connects(void) {
  struct view v = traced();
  CHECK((v.header->capabilities & CULPRIT_CAP_QPS) == 0);
  struct verbs_context *context = open_device(NULL);
  CHECK(create_cq(context) != NULL);
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){0});
  CHECK((v.header->capabilities & CULPRIT_CAP_QPS) != 0);
  struct culprit_qp q = qp_of(&v, 0);
  CHECK_EQ(q.in_use, 1);
  CHECK_EQ(q.qp_num, qp->qp_num);
  CHECK_TEXT(q.device, "mlx5_7");
  CHECK_EQ(q.peer, -1);
  CHECK_EQ(q.flow_index, UINT32_MAX);

  struct verbs_qp_attr attr = {.qp_state = 2, .dest_qp_num = 77, .dgid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3},
                               .sgid_index = 3, .port_num = 1, .is_global = 1};
  CHECK_EQ(modify_qp(qp, &attr, 0), 22);  // A failure is passed on and not believed.
  CHECK_EQ(qp_of(&v, 0).dest_qp_num, 0);
  CHECK_EQ(modify_qp(qp, &attr, VERBS_QP_STATE | VERBS_QP_AV | VERBS_QP_DEST_QPN), 0);
  attr.qp_state = 3;
  CHECK_EQ(modify_qp(qp, &attr, VERBS_QP_STATE), 0);
  q = qp_of(&v, 0);
  CHECK_EQ(q.dest_qp_num, 77);
  CHECK_EQ(q.state, 3);
  CHECK_EQ(q.gid_index, 3);
  CHECK_EQ(q.port, 1);
  CHECK(memcmp(q.remote_gid, attr.dgid, 16) == 0);
  CHECK(q.connected_ns >= q.created_ns);
}

// NCCL's progress thread: a flow's data is ready, and is posted next. By that a queue pair is known to be the flow's.
static void queue_pair_finds_its_flow(void) {
  load_verbs();
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 2, 4, 0);
  struct view v = view_open();
  struct verbs_cq *cq = create_cq(open_device(NULL));
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){0});
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  void *p = nccl_proxy(comm, op, 2, 3, 4, 1);
  void *s = nccl_step(comm, p, 0);
  nccl_state(s, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  CHECK_EQ(send_one(qp, 1, 100, 0), 0);  // Not this one's: nothing has said so.
  CHECK_EQ(qp_of(&v, 0).flow_index, UINT32_MAX);
  nccl_state(s, CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  CHECK_EQ(send_one(qp, 2, 1000, VERBS_SEND_SIGNALED), 0);
  nccl_state(s, CULPRIT_NCCL_SEND_WAIT, 1000);
  struct culprit_qp q = qp_of(&v, 0);
  CHECK_EQ(q.peer, 3);
  struct culprit_flow f;
  CHECK(view_flow(&v, q.flow_index, &f));
  CHECK_EQ(f.channel, 2);
  CHECK_EQ(f.generation, q.flow_generation);
  CHECK_EQ(q.sends_posted, 2);
  CHECK_EQ(q.sends_completed, 0);
  CHECK_EQ(q.send_bytes, 1100);

  struct verbs_wc wc[4];
  CHECK_EQ(cq->context->poll_cq(cq, 4, wc), 1);  // One completion, for both.
  q = qp_of(&v, 0);
  CHECK_EQ(q.sends_completed, 2);
  CHECK(q.active_ns > 0 && q.epochs >= 1);
  nccl_finalize(comm);
}

// Posts and completions count for the queue pair that they are on, and so does its end.
static void queue_pairs_are_told_apart(void) {
  struct view v = traced();
  struct verbs_cq *cq = create_cq(open_device(NULL));
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){0}), *other = create_qp(NULL, &(struct verbs_qp_init_attr){0});
  CHECK_EQ(send_one(other, 3, 50, VERBS_SEND_SIGNALED), 0);
  CHECK_EQ(qp_of(&v, 1).flow_index, UINT32_MAX);
  CHECK_EQ(qp_of(&v, 1).send_bytes, 50);
  CHECK_EQ(qp_of(&v, 0).send_bytes, 0);

  struct verbs_recv_wr second = {.wr_id = 5}, first = {.wr_id = 4, .next = &second}, *bad = NULL;
  CHECK_EQ(qp->context->post_recv(qp, &first, &bad), 0);
  CHECK_EQ(send_one(qp, 666, 20, VERBS_SEND_SIGNALED), 0);
  struct verbs_wc wc[4];
  CHECK_EQ(cq->context->poll_cq(cq, 4, wc), 4);
  const struct culprit_qp q = qp_of(&v, 0);
  CHECK_EQ(q.receives_posted, 2);
  CHECK_EQ(q.receives_completed, 2);
  CHECK_EQ(q.errors, 1);
  CHECK_EQ(q.last_error, 12);

  CHECK_EQ(destroy_qp(qp), 0);
  CHECK_EQ(qp_of(&v, 0).in_use, 0);
  CHECK_EQ(qp_of(&v, 1).in_use, 1);
}

// More signaled sends outstanding than can be told apart: the counts stay bounded and come right in the end.
static void many_outstanding(void) {
  struct view v = traced();
  struct verbs_cq *cq = create_cq(open_device(NULL));
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){.sq_sig_all = 1});
  struct verbs_wc wc[64];
  for (int round = 0; round < 10; round++) {
    for (uint64_t i = 0; i < 60; i++) send_one(qp, i, 20, 0);
    CHECK_EQ(cq->context->poll_cq(cq, 64, wc), 60);
  }
  CHECK_EQ(qp_of(&v, 0).sends_posted, 600);
  CHECK_EQ(qp_of(&v, 0).sends_completed, 600);
}

// Without a trace the interposer only passes on.
static void without_tracing(void) {
  setenv("CULPRIT_DISABLE", "1", 1);
  load_verbs();
  nccl_load(6);
  nccl_init(1, NULL, 2, 4, 0);
  struct verbs_cq *cq = create_cq(open_device(NULL));
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){0});
  CHECK(qp != NULL);
  CHECK_EQ(send_one(qp, 1, 20, VERBS_SEND_SIGNALED), 0);
  struct verbs_wc wc[4];
  CHECK_EQ(cq->context->poll_cq(cq, 4, wc), 1);
  CHECK_EQ(destroy_qp(qp), 0);
  CHECK_EQ(view_files(), 0);
}

// Slots of destroyed queue pairs are given away, numbers come again.
static void queue_pairs_come_and_go(void) {
  struct view v = traced();
  create_cq(open_device(NULL));
  for (int i = 0; i < 20000; i++) CHECK_EQ(destroy_qp(create_qp(NULL, &(struct verbs_qp_init_attr){0})), 0);
  CHECK_EQ(v.header->qps_high, 1);
  CHECK_EQ(qp_of(&v, 0).generation, 20000);
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){0});
  CHECK_EQ(send_one(qp, 1, 20, 0), 0);
  CHECK_EQ(qp_of(&v, 0).sends_posted, 1);
}

// Two devices number their queue pairs alike.
static void two_devices(void) {
  struct view v = traced();
  struct verbs_qp_init_attr init = {.sq_sig_all = 1};
  struct verbs_cq *first_cq = create_cq(open_device(NULL));
  struct verbs_qp *first = create_qp(NULL, &init);
  struct verbs_wc wc[4];
  CHECK_EQ(send_one(first, 1, 100, 0), 0);
  CHECK_EQ(first_cq->context->poll_cq(first_cq, 4, wc), 1);
  create_cq(open_device(first));
  struct verbs_qp *second = create_qp(NULL, &init);
  CHECK_EQ(first->qp_num, second->qp_num);
  CHECK_EQ(send_one(second, 1, 30, 0), 0);
  CHECK_EQ(qp_of(&v, 0).send_bytes, 100);
  CHECK_EQ(qp_of(&v, 1).send_bytes, 30);
  CHECK_TEXT(qp_of(&v, 0).device, "mlx5_7");
  CHECK_TEXT(qp_of(&v, 1).device, "mlx5_8");
}

// The time with a send outstanding, and the epochs of 32,768 ns that it touches.
static void epochs(void) {
  struct view v = traced();
  struct verbs_cq *cq = create_cq(open_device(NULL));
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){.sq_sig_all = 1});
  struct verbs_wc wc[4];
  for (int round = 0; round < 3; round++) {
    send_one(qp, 1, 20, 0);
    const uint64_t posted = qp_of(&v, 0).last_post_ns;
    struct timespec t;
    do {
      clock_gettime(CLOCK_MONOTONIC, &t);
    } while ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec < posted + 10 * CULPRIT_EPOCH_NS);
    CHECK_EQ(cq->context->poll_cq(cq, 4, wc), 1);
    const struct culprit_qp q = qp_of(&v, 0);
    CHECK(q.active_ns >= (uint64_t)(round + 1) * 9 * CULPRIT_EPOCH_NS);
    CHECK(q.active_ns <= q.last_completion_ns - q.created_ns);
    CHECK(q.epochs >= q.active_ns / CULPRIT_EPOCH_NS);
    CHECK(q.epochs <= q.active_ns / CULPRIT_EPOCH_NS + 2 * (uint64_t)(round + 1));
  }
  // Nothing is outstanding: time passes and does not count.
  const uint64_t active = qp_of(&v, 0).active_ns;
  send_one(qp, 2, 20, 0);
  CHECK_EQ(qp_of(&v, 0).active_ns, active);
}

// A completion with an error says that much and no more.
static void errors(void) {
  struct view v = traced();
  struct verbs_cq *cq = create_cq(open_device(NULL));
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){.sq_sig_all = 1});
  struct verbs_wc wc[8];
  for (int i = 0; i < 5; i++) send_one(qp, 666, 20, 0);
  CHECK_EQ(cq->context->poll_cq(cq, 8, wc), 5);
  const struct culprit_qp q = qp_of(&v, 0);
  CHECK_EQ(q.errors, 5);
  CHECK_EQ(q.sends_posted, 5);
  CHECK_EQ(q.sends_completed, 0);
  struct verbs_qp_attr attr = {.qp_state = 6};
  CHECK_EQ(modify_qp(qp, &attr, VERBS_QP_STATE), 0);
  CHECK_EQ(qp_of(&v, 0).state, 6);
}

// A child of a fork uses its queue pairs, and writes nothing.
static void forked_child(void) {
  struct view v = traced();
  struct verbs_cq *cq = create_cq(open_device(NULL));
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){.sq_sig_all = 1});
  const pid_t child = fork();
  if (child == 0) {
    struct verbs_wc wc[4];
    send_one(qp, 1, 20, 0);
    if (cq->context->poll_cq(cq, 4, wc) != 1) _exit(1);
    if (destroy_qp(create_qp(NULL, &(struct verbs_qp_init_attr){0})) != 0 || destroy_qp(qp) != 0) _exit(1);
    _exit(0);
  }
  int status = 1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK_EQ(qp_of(&v, 0).sends_posted, 0);
  CHECK_EQ(qp_of(&v, 0).in_use, 1);
  CHECK_EQ(v.header->qps_high, 1);
}

// The library is let go while a context still calls its functions.
static void closed_library(void) {
  void *library = load_verbs();
  nccl_load(6);
  nccl_init(1, NULL, 2, 4, 0);
  struct view v = view_open();
  create_cq(open_device(NULL));
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){0});
  CHECK_EQ(dlclose(library), 0);
  nccl_unload();
  CHECK_EQ(send_one(qp, 1, 20, 0), 0);
  CHECK_EQ(qp_of(&v, 0).sends_posted, 1);
}

// One transfer is recorded when it is done, of each direction.
static void transfers(void) {
  setenv("CULPRIT_TRANSFERS", "1", 1);
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 2, 4, 0);
  struct view v = view_open();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  void *send = nccl_proxy(comm, op, 0, 1, 3, 1);
  void *recv = nccl_proxy(comm, op, 0, 1, 2, 0);
  nccl_send_steps(comm, send, 0, 3, 500);
  nccl_recv_steps(comm, recv, 0, 2, 700);
  CHECK_EQ(VIEW_HEAD(&v, transfers_head), 5);
  const struct culprit_section *s = view_section(&v, CULPRIT_SECTION_TRANSFERS);
  for (uint32_t i = 0; i < 5; i++) {
    struct culprit_transfer t;
    memcpy(&t, v.base + s->offset + (size_t)i * s->entry_bytes, sizeof t);
    CHECK_EQ(t.ticket, i + 1);
    CHECK_EQ(t.step, i < 3 ? i : i - 3);
    CHECK_EQ(t.bytes, i < 3 ? 500 : 700);
    CHECK(t.started_ns != 0 && t.ended_ns >= t.started_ns);
    struct culprit_flow f;
    CHECK(view_flow(&v, t.flow_index, &f));
    CHECK_EQ(f.is_send, i < 3);
    CHECK_EQ(f.generation, t.flow_generation);
  }
}

static const struct test_case cases[] = {
    {"queue_pair_connects", queue_pair_connects},
    {"queue_pair_finds_its_flow", queue_pair_finds_its_flow},
    {"queue_pairs_are_told_apart", queue_pairs_are_told_apart},
    {"many_outstanding", many_outstanding},
    {"without_tracing", without_tracing},
    {"queue_pairs_come_and_go", queue_pairs_come_and_go},
    {"two_devices", two_devices},
    {"epochs", epochs},
    {"errors", errors},
    {"forked_child", forked_child},
    {"closed_library", closed_library},
    {"transfers", transfers},
};

TEST_MAIN(cases)
