// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the preload hooks need of NCCL's public interface; pointers to its types are void here.

#ifndef CULPRIT_NCCL_API_H
#define CULPRIT_NCCL_API_H

#define NCCL_API_SYSTEM_ERROR 2

// ncclUniqueId, passed by value.
struct nccl_unique_id {
  char internal[128];
};

#endif
