// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for libibverbs.so.1: two devices, queue pairs that complete what is posted when they are polled.

#include "../verbs/verbs_abi.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PENDING 64

struct fake_cq {
  struct verbs_cq base;
  struct verbs_wc pending[PENDING];
  int count;
};

struct fake_qp {
  struct verbs_qp base;
  struct fake_cq *cq;
  int32_t signal_all;
};

static struct fake_cq *current_cq;  // Of the last ibv_create_cq; tests make one.

static void complete(const struct fake_qp *qp, uint64_t wr_id, int opcode, int status) {
  struct fake_cq *cq = qp->cq;
  if (cq->count == PENDING) abort();
  cq->pending[cq->count++] =
      (struct verbs_wc){.wr_id = wr_id, .status = status, .opcode = opcode, .qp_num = qp->base.qp_num};
}

static int post_send(struct verbs_qp *qp, struct verbs_send_wr *wr, struct verbs_send_wr **bad) {
  (void)bad;
  const struct fake_qp *f = (const struct fake_qp *)qp;
  for (; wr != NULL; wr = wr->next) {
    // wr_id 666 fails.
    if (f->signal_all != 0 || (wr->send_flags & VERBS_SEND_SIGNALED) != 0) complete(f, wr->wr_id, 1, wr->wr_id == 666 ? 12 : 0);
  }
  return 0;
}

static int post_recv(struct verbs_qp *qp, struct verbs_recv_wr *wr, struct verbs_recv_wr **bad) {
  (void)bad;
  for (; wr != NULL; wr = wr->next) complete((const struct fake_qp *)qp, wr->wr_id, VERBS_WC_RECV | 1, 0);
  return 0;
}

static int poll_cq(struct verbs_cq *cq, int entries, struct verbs_wc *wc) {
  struct fake_cq *f = (struct fake_cq *)cq;
  const int n = entries < f->count ? entries : f->count;
  memcpy(wc, f->pending, (size_t)n * sizeof *wc);
  memmove(f->pending, f->pending + n, (size_t)(f->count - n) * sizeof *wc);
  f->count -= n;
  return n;
}

EXPORT struct verbs_context *ibv_open_device(struct verbs_device *device);
EXPORT struct verbs_cq *ibv_create_cq(struct verbs_context *context);
EXPORT struct verbs_qp *ibv_create_qp(void *pd, struct verbs_qp_init_attr *attr);
EXPORT int ibv_modify_qp(struct verbs_qp *qp, struct verbs_qp_attr *attr, int mask);
EXPORT int ibv_destroy_qp(struct verbs_qp *qp);

static struct verbs_device devices[2] = {{.name = "mlx5_7"}, {.name = "mlx5_8"}};
static struct verbs_context contexts[2];
static struct verbs_context *current_context;  // Of the last ibv_open_device; queue pairs are made in it.

EXPORT struct verbs_context *ibv_open_device(struct verbs_device *device) {
  const int i = device == NULL ? 0 : 1;  // Tests have no list of devices: NULL is the first one.
  contexts[i] =
      (struct verbs_context){.device = &devices[i], .poll_cq = poll_cq, .post_send = post_send, .post_recv = post_recv};
  current_context = &contexts[i];
  return current_context;
}

EXPORT struct verbs_cq *ibv_create_cq(struct verbs_context *context) {
  static struct fake_cq cq;
  cq = (struct fake_cq){.base = {.context = context}};
  current_cq = &cq;
  return &cq.base;
}

EXPORT struct verbs_qp *ibv_create_qp(void *pd, struct verbs_qp_init_attr *attr) {
  static struct fake_qp qps[32];
  static unsigned next, made;
  (void)pd;
  struct fake_qp *qp = &qps[made++ % 32];
  // As devices do, numbers come again only after long, and each device has its own.
  const unsigned number = 1000 + (current_context == contexts ? next++ : next - 1) % (1 << 20);
  *qp = (struct fake_qp){.base = {.context = current_context, .qp_num = number}, .cq = current_cq, .signal_all = attr->sq_sig_all};
  return &qp->base;
}

EXPORT int ibv_modify_qp(struct verbs_qp *qp, struct verbs_qp_attr *attr, int mask) {
  (void)qp, (void)attr;
  return mask == 0 ? 22 : 0;
}

EXPORT int ibv_destroy_qp(struct verbs_qp *qp) {
  (void)qp;
  return 0;
}
