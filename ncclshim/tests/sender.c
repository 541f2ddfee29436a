// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A rank whose network loses a transfer: it does a few operations over one queue pair a channel, with the verbs interposer between it and
// the stand-in libibverbs, and then posts a send on the last that never completes. For tests outside of this folder.
//
//   sender RANKS CHANNELS    its rank is 0; PLUGIN and VERBS name the plugin and the interposer.

#include "../verbs/verbs_abi.h"
#include "harness.h"
#include "nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#define OPERATIONS 5
#define STEPS 4
#define STEP_BYTES 4096u
#define MOST_CHANNELS 8
#define PEER 1
#define LOST 1000000u  // Work requests from here on are never done: their completions stay in the queue.

static struct verbs_context *(*open_device)(void *);
static struct verbs_cq *(*create_cq)(struct verbs_context *);
static struct verbs_qp *(*create_qp)(void *, struct verbs_qp_init_attr *);
static int (*modify_qp)(struct verbs_qp *, struct verbs_qp_attr *, int);

static void *symbol(void *library, const char *name) {
  void *found = dlvsym(library, name, VERBS_VERSION);
  CHECK(found != NULL);
  return found;
}

static struct verbs_cq *completions;

static void load_verbs(void) {
  void *library = dlopen(getenv("VERBS"), RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  *(void **)&open_device = symbol(library, "ibv_open_device");
  *(void **)&create_cq = symbol(library, "ibv_create_cq");
  *(void **)&create_qp = symbol(library, "ibv_create_qp");
  *(void **)&modify_qp = symbol(library, "ibv_modify_qp");
  completions = create_cq(open_device(NULL));
}

static struct verbs_qp *connect_peer(void) {
  struct verbs_qp *qp = create_qp(NULL, &(struct verbs_qp_init_attr){.sq_sig_all = 1});
  struct verbs_qp_attr attr = {.qp_state = 2, .dest_qp_num = 77, .port_num = 1, .is_global = 1,
                               .dgid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3}};
  CHECK_EQ(modify_qp(qp, &attr, VERBS_QP_STATE | VERBS_QP_AV | VERBS_QP_DEST_QPN), 0);
  attr.qp_state = 3;
  CHECK_EQ(modify_qp(qp, &attr, VERBS_QP_STATE), 0);
  return qp;
}

// post sends the data of a step, as NCCL's progress thread does between two states of it.
static void post(struct verbs_qp *qp, void *step, uint64_t id) {
  struct verbs_sge sge = {.length = STEP_BYTES};
  struct verbs_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .send_flags = VERBS_SEND_SIGNALED}, *bad = NULL;
  nccl_state(step, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
  nccl_state(step, CULPRIT_NCCL_SEND_PEER_WAIT, 0);
  CHECK_EQ(qp->context->post_send(qp, &wr, &bad), 0);
  nccl_state(step, CULPRIT_NCCL_SEND_WAIT, STEP_BYTES);
}

int main(int argc, char **argv) {
  const int channels = argc == 3 ? atoi(argv[2]) : 0;
  if (channels < 1 || channels > MOST_CHANNELS) return 2;
  nccl_load(6);
  void *comm = nccl_init(0x5e4d, NULL, 2, atoi(argv[1]), 0);
  load_verbs();
  struct verbs_qp *qps[MOST_CHANNELS];
  for (int c = 0; c < channels; c++) qps[c] = connect_peer();
  for (unsigned n = 0;; n++) {
    const struct nccl_op op = {.count = 1024, .channels = (uint8_t)channels, .seq = n};
    void *launched = nccl_op_simple(comm, &op), *proxies[MOST_CHANNELS];
    for (int c = 0; c < channels; c++) proxies[c] = nccl_proxy(comm, launched, c + 1, PEER, STEPS, 1);
    for (int i = 0; i < STEPS; i++) {
      for (int c = 0; c < channels; c++) {
        void *step = nccl_step(comm, proxies[c], i);
        if (n == OPERATIONS && c == channels - 1) {
          post(qps[c], step, LOST);
          for (;;) pause();
        }
        post(qps[c], step, n);
        struct verbs_wc wc;
        CHECK_EQ(completions->context->poll_cq(completions, 1, &wc), 1);
        nccl_stop(step);
      }
    }
    for (int c = 0; c < channels; c++) nccl_stop(proxies[c]);
  }
}
