// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// NCCL's side of the plugin: loads it with dlopen and dlsym, and raises events in the layout of one ABI version.

#ifndef CULPRIT_TESTS_NCCL_H
#define CULPRIT_TESTS_NCCL_H

#include "../profiler_abi.h"

struct nccl_op {
  const char *func;      // NULL: "AllReduce".
  const char *datatype;  // NULL: "ncclFloat32".
  const char *algo;      // NULL: "RING".
  const char *proto;     // NULL: "SIMPLE".
  size_t count;
  uint64_t seq;
  int root;
  int peer;
  int channels;
  bool p2p;
  bool captured;
};

extern int nccl_abi;   // Version in use: 2 to 7.
extern int nccl_mask;  // What the plugin asked for.
extern culprit_nccl_logger nccl_logger;
extern char nccl_log[4096];  // What the plugin has logged, warnings only.

// nccl_load loads the plugin (environment variable PLUGIN) and picks a version.
void nccl_load(int abi);
void nccl_unload(void);

void *nccl_init(uint64_t comm_id, const char *name, int nnodes, int nranks, int rank);
void nccl_finalize(void *context);
void *nccl_group_api(void *context);                // NULL before version 5.
void *nccl_group(void *context, void *group_api);
void *nccl_call(void *context, void *group_api, const struct nccl_op *op);  // NULL before version 5.
void *nccl_launch(void *context, void *call, void *group, const struct nccl_op *op);
void *nccl_ce(void *context, void *call, const struct nccl_op *op);         // Version 6.
void *nccl_proxy(void *context, void *op, int channel, int peer, int steps, int is_send);
void *nccl_proxy_of(void *context, void *op, int pid, int channel, int peer, int steps, int is_send);
void *nccl_step(void *context, void *proxy, int step);
void *nccl_kernel(void *context, void *op, int channel, uint64_t timer);
void nccl_state(void *h, int state, uint64_t value);
// nccl_proxy_state raises a state of a proxy operation as versions 2 and 3 have it: bytes and steps so far.
void nccl_proxy_state(void *h, int state, uint64_t bytes, int steps);
void nccl_stop(void *h);

// nccl_op_simple raises call and launch of one operation, with their stops, and returns the launch's handle.
void *nccl_op_simple(void *context, const struct nccl_op *op);
// nccl_send_steps and nccl_recv_steps raise whole cycles of steps [from, to) of a proxy operation.
void nccl_send_steps(void *context, void *proxy, int from, int to, uint64_t bytes);
void nccl_recv_steps(void *context, void *proxy, int from, int to, uint64_t bytes);
// nccl_kernels raises start, timer and stop of channels [0, channels).
void nccl_kernels(void *context, void *op, int channels, uint64_t gpu_ns);

#endif
