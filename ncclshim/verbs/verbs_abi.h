// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The few members of libibverbs' structs that the interposer reads, by their published places on 64-bit Linux (interface
// version IBVERBS_1.1). Our own declarations: gaps are named `skip`.

#ifndef CULPRIT_VERBS_ABI_H
#define CULPRIT_VERBS_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_VERSION "IBVERBS_1.1"

struct verbs_device {
  void *skip[2];
  int32_t node_type;
  int32_t transport_type;
  char name[64];
};

struct verbs_cq;
struct verbs_qp;
struct verbs_send_wr;
struct verbs_recv_wr;
struct verbs_wc;

struct verbs_context {
  struct verbs_device *device;
  void *skip0[11];
  int (*poll_cq)(struct verbs_cq *cq, int entries, struct verbs_wc *wc);
  void *skip1[13];
  int (*post_send)(struct verbs_qp *qp, struct verbs_send_wr *wr, struct verbs_send_wr **bad);
  int (*post_recv)(struct verbs_qp *qp, struct verbs_recv_wr *wr, struct verbs_recv_wr **bad);
};

struct verbs_cq {
  struct verbs_context *context;
};

struct verbs_qp {
  struct verbs_context *context;
  void *skip[5];
  uint32_t handle;
  uint32_t qp_num;
};

struct verbs_qp_init_attr {
  void *skip[4];
  uint32_t cap[5];
  int32_t qp_type;
  int32_t sq_sig_all;
};

struct verbs_sge {
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};

struct verbs_send_wr {
  uint64_t wr_id;
  struct verbs_send_wr *next;
  struct verbs_sge *sg_list;
  int32_t num_sge;
  int32_t opcode;
  uint32_t send_flags;
};

struct verbs_recv_wr {
  uint64_t wr_id;
  struct verbs_recv_wr *next;
};

struct verbs_wc {
  uint64_t wr_id;
  int32_t status;  // 0 success.
  int32_t opcode;  // Only good with success.
  uint32_t vendor_err;
  uint32_t byte_len;
  uint32_t imm_data;
  uint32_t qp_num;
  uint32_t src_qp;
  uint32_t wc_flags;
  uint16_t pkey_index;
  uint16_t slid;
  uint8_t sl;
  uint8_t dlid_path_bits;
};

struct verbs_qp_attr {
  int32_t qp_state;
  int32_t cur_qp_state;
  int32_t path_mtu;
  int32_t path_mig_state;
  uint32_t qkey;
  uint32_t rq_psn;
  uint32_t sq_psn;
  uint32_t dest_qp_num;
  uint32_t qp_access_flags;
  uint32_t cap[5];
  uint8_t dgid[16];  // Where the address begins.
  uint32_t flow_label;
  uint8_t sgid_index;
  uint8_t hop_limit;
  uint8_t traffic_class;
  uint8_t skip;
  uint16_t dlid;
  uint8_t sl;
  uint8_t src_path_bits;
  uint8_t static_rate;
  uint8_t is_global;
  uint8_t port_num;
};

#define VERBS_QP_STATE (1 << 0)  // Bits of ibv_modify_qp's mask.
#define VERBS_QP_AV (1 << 7)
#define VERBS_QP_DEST_QPN (1 << 20)
#define VERBS_SEND_SIGNALED (1u << 1)
#define VERBS_WC_RECV (1 << 7)

static_assert(offsetof(struct verbs_device, name) == 24, "device.name");
static_assert(offsetof(struct verbs_context, poll_cq) == 96, "context.poll_cq");
static_assert(offsetof(struct verbs_context, post_send) == 208, "context.post_send");
static_assert(offsetof(struct verbs_context, post_recv) == 216, "context.post_recv");
static_assert(offsetof(struct verbs_qp, qp_num) == 52, "qp.qp_num");
static_assert(offsetof(struct verbs_qp_init_attr, sq_sig_all) == 56, "qp_init_attr.sq_sig_all");
static_assert(offsetof(struct verbs_send_wr, send_flags) == 32, "send_wr.send_flags");
static_assert(sizeof(struct verbs_sge) == 16, "sge");
static_assert(offsetof(struct verbs_wc, qp_num) == 28 && sizeof(struct verbs_wc) == 48, "wc");
static_assert(offsetof(struct verbs_qp_attr, dest_qp_num) == 28, "qp_attr.dest_qp_num");
static_assert(offsetof(struct verbs_qp_attr, dgid) == 56, "qp_attr.ah_attr");
static_assert(offsetof(struct verbs_qp_attr, sgid_index) == 76, "qp_attr.ah_attr.grh.sgid_index");
static_assert(offsetof(struct verbs_qp_attr, dlid) == 80, "qp_attr.ah_attr.dlid");
static_assert(offsetof(struct verbs_qp_attr, port_num) == 86, "qp_attr.ah_attr.port_num");

#endif
