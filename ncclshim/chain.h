// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Another profiler plugin behind this one: NCCL loads only one. CULPRIT_CHAIN names its library; every event goes to
// both, in whatever version of the ABI the other speaks.
//
// NCCL then gets handles of pairs (ours, theirs) in place of ours. A pair outlives its stop, because NCCL names stopped
// operations as parents; it is overwritten when its turn comes again.

#ifndef CULPRIT_CHAIN_H
#define CULPRIT_CHAIN_H

#include "profiler_abi.h"

#include <stdbool.h>

extern bool chain_on __attribute__((visibility("hidden")));  // Set once, before the first communicator's init returns.

// chain_load loads the other plugin; a line in the log says why when that fails, and nothing else changes.
void chain_load(const char *path, uint32_t abi, culprit_nccl_logger logger);

// chain_open opens the communicator in the other plugin, adds the events that it wants to *mask, and makes *context a pair.
// comm_id 0: ABI 2 and 3.
void chain_open(void **context, int *mask, uint64_t comm_id, const char *name, int nnodes, int nranks, int rank,
                culprit_nccl_logger logger);
// chain_close closes it there and gives our own context.
void *chain_close(void *context);

// What ABI 2 and 3 tell of the communicator with each operation.
struct chain_comm {
  const char *name;
  uint64_t comm_hash;
};

// chain_start, chain_stop and chain_state take an event to both. The descriptor's pointers are pairs.
void chain_start(void *context, void **h, const struct culprit_nccl_descr_v6 *d, struct chain_comm comm);
void chain_stop(void *h);
void chain_state(void *h, int state, uint64_t value);
// chain_state_proxy_op is chain_state with the arguments of versions 2 and 3.
void chain_state_proxy_op(void *h, int state, union culprit_nccl_state_args_v2 *args);

// The descriptors of older versions as version 6 has them.
struct culprit_nccl_descr_v6 chain_widen_v2(const struct culprit_nccl_descr_v2 *d, struct chain_comm *comm);
struct culprit_nccl_descr_v6 chain_widen_v3(const struct culprit_nccl_descr_v3 *d, struct chain_comm *comm);
struct culprit_nccl_descr_v6 chain_widen_v4(const struct culprit_nccl_descr_v4 *d);
struct culprit_nccl_descr_v6 chain_widen_v5(const struct culprit_nccl_descr_v5 *d);

// The other way. Events that the version does not have must not come here.
struct culprit_nccl_descr_v2 chain_narrow_v2(const struct culprit_nccl_descr_v6 *d, struct chain_comm comm);
struct culprit_nccl_descr_v3 chain_narrow_v3(const struct culprit_nccl_descr_v6 *d, struct chain_comm comm);
struct culprit_nccl_descr_v4 chain_narrow_v4(const struct culprit_nccl_descr_v6 *d);
struct culprit_nccl_descr_v5 chain_narrow_v5(const struct culprit_nccl_descr_v6 *d);

#endif
