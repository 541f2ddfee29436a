// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What every version of the profiler ABI has alike: only the descriptors of events differ, and how init is called.

#ifndef CULPRIT_ADAPTER_H
#define CULPRIT_ADAPTER_H

#include "profiler_abi.h"

#define EXPORT __attribute__((visibility("default")))

// adapter_open: init of ABI 4 and later. abi: the version; comm_id: NCCL's hash of the communicator.
int adapter_open(uint32_t abi, void **context, uint64_t comm_id, int *mask, const char *name, int nnodes, int nranks, int rank,
                 culprit_nccl_logger logger);
// adapter_open_unnamed: init of ABI 2 and 3, which tell of the communicator with each operation.
int adapter_open_unnamed(uint32_t abi, void **context, int *mask);
int adapter_stop(void *h);
int adapter_state(void *h, int state, union culprit_nccl_state_args *args);
int adapter_state_v2(void *h, int state, union culprit_nccl_state_args_v2 *args);
int adapter_finalize(void *context);

#endif
