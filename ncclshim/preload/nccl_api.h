// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the preload hooks need of NCCL's public interface; pointers to its types are void here.

#ifndef CULPRIT_NCCL_API_H
#define CULPRIT_NCCL_API_H

// ncclResult_t.
#define NCCL_API_SUCCESS 0
#define NCCL_API_INVALID_ARGUMENT 4
#define NCCL_API_INVALID_USAGE 5
#define NCCL_API_IN_PROGRESS 7

// ncclDataType_t.
#define NCCL_API_INT8 0
#define NCCL_API_FLOAT16 6
#define NCCL_API_FLOAT32 7
#define NCCL_API_DATATYPES 12

// ncclUniqueId, passed by value.
struct nccl_unique_id {
  char internal[128];
};

#endif
