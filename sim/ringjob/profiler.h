// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The profiler plugin as NCCL 2.29 and later drives it: loading, versions, the process-wide activation mask. Callers
// speak the newest ABI (v6); an older plugin is served through what NCCL's converters let through.

#ifndef RINGJOB_PROFILER_H
#define RINGJOB_PROFILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../ncclshim/profiler_abi.h"

typedef struct culprit_nccl_descr_v6 prof_descr;
typedef union culprit_nccl_state_args prof_args;

// Entry points in the shape of v6.
struct prof_api {
  const char *name;
  int version;
  int (*init)(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nnodes, int nranks, int rank,
              culprit_nccl_logger logger);
  int (*start)(void *context, void **handle, prof_descr *descr);
  int (*stop)(void *handle);
  int (*record)(void *handle, int state, prof_args *args);
  // States of proxy operations with the bytes and steps so far; NULL: of this version none are told.
  int (*record_op)(void *handle, int state, size_t bytes, int steps);
  int (*finalize)(void *context);
};

// Fills `api` from the plugin `lib`, newest version first, or only `version` if not 0. False when it has none.
bool prof_api_find(struct prof_api *api, void *lib, int version);

// The same for version 3 as NCCL 2.26 has it natively.
bool prof_api_find_native(struct prof_api *api, void *lib);

// Loads the plugin if it is not loaded and calls its init for one communicator. `*context` stays NULL without plugin.
void prof_comm_init(void **context, uint64_t comm_id, const char *comm_name, int nnodes, int nranks, int rank, int version);
// Calls finalize; the plugin is unloaded with the last communicator.
void prof_comm_finalize(void *context);

// The activation mask now; 0 without a plugin.
int prof_mask(void);
bool prof_loaded(void);

// Event calls; nothing happens without a plugin. A NULL handle is not passed on.
void prof_start(void *context, void **handle, prof_descr *descr);
void prof_stop(void *handle);
void prof_record(void *handle, int state, const prof_args *args);
// Whether proxy operations have states of their own (NCCL up to 2.26), and telling one.
bool prof_native(void);
void prof_record_op(void *handle, int state, size_t bytes, int steps);

#endif
