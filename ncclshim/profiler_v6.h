// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef CULPRIT_PROFILER_V6_H
#define CULPRIT_PROFILER_V6_H

#include "handle.h"
#include "profiler_abi.h"

// profiler_v6_start takes an event in version 6's layout.
handle profiler_v6_start(handle comm, const struct culprit_nccl_descr_v6 *d);

#endif
