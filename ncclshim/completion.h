// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef CULPRIT_COMPLETION_H
#define CULPRIT_COMPLETION_H

#include "shim.h"

// completion_write appends the record of a finished operation and adds it to the communicator's counters. The caller
// holds the operation's slot.
void completion_write(const struct op_ctl *o, uint64_t left_ns);

// direction_add sums one flow's share (flows == 1) into a direction.
void direction_add(struct culprit_direction *to, const struct culprit_direction *flow);

#endif
