// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The functions of NCCL that the stand-in has, as a program declares them.

#ifndef CULPRIT_TESTS_FAKENCCL_H
#define CULPRIT_TESTS_FAKENCCL_H

#include "../preload/nccl_api.h"

#include <stddef.h>

// What operations want for their buffers and stream.
#define FAKE_IN ((const void *)64)
#define FAKE_OUT ((void *)128)
#define FAKE_STREAM ((void *)192)

int ncclCommInitRank(void **comm, int nranks, struct nccl_unique_id id, int rank);
int ncclCommInitAll(void **comms, int devices, const int *list);
int ncclCommGetAsyncError(void *comm, int *state);
int ncclCommSplit(void *comm, int color, int key, void **child, void *config);
int ncclCommShrink(void *comm, int *excluded, int count, void **child, void *config, int flags);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void *info);
int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, void *comm, void *stream);
int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, void *comm, void *stream);
int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *comm, void *stream);
int ncclBcast(void *data, size_t count, int type, int root, void *comm, void *stream);
int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, void *comm, void *stream);
int ncclAllGather(const void *in, void *out, size_t count, int type, void *comm, void *stream);
int ncclAlltoAll(const void *in, void *out, size_t count, int type, void *comm, void *stream);
int ncclGather(const void *in, void *out, size_t count, int type, int root, void *comm, void *stream);
int ncclScatter(const void *in, void *out, size_t count, int type, int root, void *comm, void *stream);
int ncclSend(const void *in, size_t count, int type, int peer, void *comm, void *stream);
int ncclRecv(void *out, size_t count, int type, int peer, void *comm, void *stream);

#endif
