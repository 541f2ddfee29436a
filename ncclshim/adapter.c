// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "adapter.h"

#include "chain.h"
#include "events.h"
#include "gpu.h"
#include "session.h"

int adapter_open(uint32_t abi, void **context, uint64_t comm_id, int *mask, const char *name, int nnodes, int nranks, int rank,
                 culprit_nccl_logger logger) {
  struct comm_info info = {
      .abi = abi, .comm_id = comm_id, .name = name, .nnodes = nnodes, .nranks = nranks, .rank = rank,
      .device = gpu_current()};  // NCCL makes it that of the communicator before it loads a plugin.
  session_open_comm(&info, context, mask, logger);
  return CULPRIT_NCCL_SUCCESS;
}

int adapter_open_unnamed(uint32_t abi, void **context, int *mask) {
  return adapter_open(abi, context, 0, mask, NULL, -1, -1, -1, NULL);
}

int adapter_stop(void *h) {
  if (__builtin_expect(chain_on, 0)) {
    chain_stop(h);
  } else {
    event_stop(handle_from_pointer(h));
  }
  return CULPRIT_NCCL_SUCCESS;
}

static inline int state_changed(void *h, int state, uint64_t value) {
  if (__builtin_expect(chain_on, 0)) {
    chain_state(h, state, value);
  } else {
    event_state(handle_from_pointer(h), state, value);
  }
  return CULPRIT_NCCL_SUCCESS;
}

int adapter_state(void *h, int state, union culprit_nccl_state_args *args) {
  return state_changed(h, state, args == NULL ? 0 : args->kernelCh.pTimer);
}

// Only the states of proxy operations have arguments; a step's come with none.
int adapter_state_v2(void *h, int state, union culprit_nccl_state_args_v2 *args) {
  if (args == NULL) return state_changed(h, state, 0);
  if (__builtin_expect(chain_on, 0)) {
    chain_state_proxy_op(h, state, args);
  } else {
    event_state_proxy_op(handle_from_pointer(h), state, args);
  }
  return CULPRIT_NCCL_SUCCESS;
}

int adapter_finalize(void *context) {
  session_close_comm(context);
  return CULPRIT_NCCL_SUCCESS;
}
