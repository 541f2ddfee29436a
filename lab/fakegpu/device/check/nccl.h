// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// NCCL's functions, found in the loaded library at run time.

#ifndef FAKEGPU_DEVICE_CHECK_NCCL_H
#define FAKEGPU_DEVICE_CHECK_NCCL_H

#include <stddef.h>

typedef struct {
  char internal[128];
} unique_id;
typedef void *comm_t;
typedef struct stream *stream_t;

extern struct nccl {
  int (*GetUniqueId)(unique_id *);
  int (*CommInitRank)(comm_t *, int, unique_id, int);
  int (*CommInitAll)(comm_t *, int, const int *);
  int (*CommDestroy)(comm_t);
  int (*CommAbort)(comm_t);
  int (*CommGetAsyncError)(comm_t, int *);
  int (*AllReduce)(const void *, void *, size_t, int, int, comm_t, stream_t);
  int (*ReduceScatter)(const void *, void *, size_t, int, int, comm_t, stream_t);
  int (*AllGather)(const void *, void *, size_t, int, comm_t, stream_t);
  int (*Broadcast)(const void *, void *, size_t, int, int, comm_t, stream_t);
  int (*Reduce)(const void *, void *, size_t, int, int, int, comm_t, stream_t);
  int (*Send)(const void *, size_t, int, int, comm_t, stream_t);
  int (*Recv)(void *, size_t, int, int, comm_t, stream_t);
  int (*GroupStart)(void);
  int (*GroupEnd)(void);
  int (*RedOpCreatePreMulSum)(int *, void *, int, int, comm_t);
  int (*RedOpDestroy)(int, comm_t);
  const char *(*GetErrorString)(int);
} nccl;

// The name of a function that the library lacks, NULL if all are there.
const char *nccl_bind(void *handle);

#endif
