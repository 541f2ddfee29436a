// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef CULPRIT_COMPLETION_H
#define CULPRIT_COMPLETION_H

#include "shim.h"

// completion_write appends the record of a finished operation and adds it to the communicator's counters. The caller
// holds the operation's slot.
void completion_write(const struct op_ctl *o, uint64_t left_ns);

// share_add adds what one flow has (flows == 1) to what the others of its direction have.
void share_add(struct flow_share *to, const struct flow_share *flow);

#endif
