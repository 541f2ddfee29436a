// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "chain.h"

#include <string.h>

// The members that every version has, by assignment; what a version lacks is left out or zero.

#define COPY_HEAD(to, from) (to).type = (from)->type, (to).parentObj = (from)->parentObj, (to).rank = (from)->rank

#define COPY_COLL(to, from) \
  ((to).coll.seqNumber = (from)->coll.seqNumber, (to).coll.func = (from)->coll.func, \
   (to).coll.sendBuff = (from)->coll.sendBuff, (to).coll.recvBuff = (from)->coll.recvBuff, \
   (to).coll.count = (from)->coll.count, (to).coll.root = (from)->coll.root, (to).coll.datatype = (from)->coll.datatype, \
   (to).coll.nWarps = (from)->coll.nWarps, (to).coll.algo = (from)->coll.algo, (to).coll.proto = (from)->coll.proto)

#define COPY_P2P(to, from) \
  ((to).p2p.func = (from)->p2p.func, (to).p2p.buff = (from)->p2p.buff, (to).p2p.datatype = (from)->p2p.datatype, \
   (to).p2p.count = (from)->p2p.count, (to).p2p.peer = (from)->p2p.peer)

// Before version 5 the parent of an operation is its group; from then on its call, and the group has its own place.
#define WIDEN_OLD(wide, d, channels) \
  do { \
    COPY_HEAD(wide, d); \
    if ((d)->type == CULPRIT_NCCL_COLL) { \
      COPY_COLL(wide, d); \
      (wide).coll.nChannels = (d)->coll.channels; \
      (wide).coll.parentGroup = (d)->parentObj; \
      (wide).parentObj = NULL; \
    } else if ((d)->type == CULPRIT_NCCL_P2P) { \
      COPY_P2P(wide, d); \
      (wide).p2p.parentGroup = (d)->parentObj; \
      (wide).parentObj = NULL; \
    } else if ((d)->type == CULPRIT_NCCL_PROXY_OP) { \
      (wide).proxyOp = (d)->proxyOp; \
    } else if ((d)->type == CULPRIT_NCCL_PROXY_STEP) { \
      (wide).proxyStep = (d)->proxyStep; \
    } \
  } while (0)

#define NARROW_OLD(old, d, channels) \
  do { \
    (old).type = (uint8_t)(d)->type; \
    (old).parentObj = (d)->parentObj; \
    (old).rank = (d)->rank; \
    if ((d)->type == CULPRIT_NCCL_COLL) { \
      COPY_COLL(old, d); \
      (old).coll.channels = (d)->coll.nChannels; \
      (old).parentObj = (d)->coll.parentGroup; \
    } else if ((d)->type == CULPRIT_NCCL_P2P) { \
      COPY_P2P(old, d); \
      (old).parentObj = (d)->p2p.parentGroup; \
    } else if ((d)->type == CULPRIT_NCCL_PROXY_OP) { \
      (old).proxyOp = (d)->proxyOp; \
    } else if ((d)->type == CULPRIT_NCCL_PROXY_STEP) { \
      (old).proxyStep = (d)->proxyStep; \
    } \
  } while (0)

#define TAKE_COMM(comm, d) \
  do { \
    if ((d)->type == CULPRIT_NCCL_COLL) { \
      (comm)->name = (d)->coll.name; \
      (comm)->comm_hash = (d)->coll.commHash; \
    } else if ((d)->type == CULPRIT_NCCL_P2P) { \
      (comm)->name = (d)->p2p.name; \
      (comm)->comm_hash = (d)->p2p.commHash; \
    } \
  } while (0)

#define GIVE_COMM(old, d, comm) \
  do { \
    if ((d)->type == CULPRIT_NCCL_COLL) { \
      (old).coll.name = (comm).name; \
      (old).coll.commHash = (comm).comm_hash; \
    } else if ((d)->type == CULPRIT_NCCL_P2P) { \
      (old).p2p.name = (comm).name; \
      (old).p2p.commHash = (comm).comm_hash; \
    } \
  } while (0)

struct culprit_nccl_descr_v6 chain_widen_v2(const struct culprit_nccl_descr_v2 *d, struct chain_comm *comm) {
  struct culprit_nccl_descr_v6 wide = {0};
  WIDEN_OLD(wide, d, nMaxChannels);
  TAKE_COMM(comm, d);
  return wide;
}

struct culprit_nccl_descr_v6 chain_widen_v3(const struct culprit_nccl_descr_v3 *d, struct chain_comm *comm) {
  struct culprit_nccl_descr_v6 wide = {0};
  WIDEN_OLD(wide, d, nMaxChannels);
  TAKE_COMM(comm, d);
  if (d->type == CULPRIT_NCCL_KERNEL_CH) wide.kernelCh.channelId = d->kernelCh.channelId;
  if (d->type == CULPRIT_NCCL_NET_PLUGIN) wide.netPlugin = d->netPlugin;
  return wide;
}

struct culprit_nccl_descr_v6 chain_widen_v4(const struct culprit_nccl_descr_v4 *d) {
  struct culprit_nccl_descr_v6 wide = {0};
  WIDEN_OLD(wide, d, nChannels);
  if (d->type == CULPRIT_NCCL_P2P) wide.p2p.nChannels = d->p2p.nChannels;
  if (d->type == CULPRIT_NCCL_KERNEL_CH) wide.kernelCh = d->kernelCh;
  if (d->type == CULPRIT_NCCL_NET_PLUGIN) wide.netPlugin = d->netPlugin;
  return wide;
}

// Version 6 only adds members to version 5.
static_assert(sizeof(struct culprit_nccl_descr_v5) == sizeof(struct culprit_nccl_descr_v6), "same size");

struct culprit_nccl_descr_v6 chain_widen_v5(const struct culprit_nccl_descr_v5 *d) {
  struct culprit_nccl_descr_v6 wide;
  memcpy(&wide, d, sizeof wide);
  return wide;
}

struct culprit_nccl_descr_v2 chain_narrow_v2(const struct culprit_nccl_descr_v6 *d, struct chain_comm comm) {
  struct culprit_nccl_descr_v2 old = {0};
  NARROW_OLD(old, d, nMaxChannels);
  GIVE_COMM(old, d, comm);
  return old;
}

struct culprit_nccl_descr_v3 chain_narrow_v3(const struct culprit_nccl_descr_v6 *d, struct chain_comm comm) {
  struct culprit_nccl_descr_v3 old = {0};
  NARROW_OLD(old, d, nMaxChannels);
  GIVE_COMM(old, d, comm);
  if (d->type == CULPRIT_NCCL_KERNEL_CH) old.kernelCh.channelId = d->kernelCh.channelId;
  if (d->type == CULPRIT_NCCL_NET_PLUGIN) old.netPlugin = d->netPlugin;
  return old;
}

struct culprit_nccl_descr_v4 chain_narrow_v4(const struct culprit_nccl_descr_v6 *d) {
  struct culprit_nccl_descr_v4 old = {0};
  NARROW_OLD(old, d, nChannels);
  if (d->type == CULPRIT_NCCL_P2P) old.p2p.nChannels = d->p2p.nChannels;
  if (d->type == CULPRIT_NCCL_KERNEL_CH) old.kernelCh = d->kernelCh;
  if (d->type == CULPRIT_NCCL_NET_PLUGIN) old.netPlugin = d->netPlugin;
  return old;
}

struct culprit_nccl_descr_v5 chain_narrow_v5(const struct culprit_nccl_descr_v6 *d) {
  struct culprit_nccl_descr_v5 old;
  memcpy(&old, d, sizeof old);
  return old;
}
