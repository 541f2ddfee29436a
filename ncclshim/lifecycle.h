// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef CULPRIT_LIFECYCLE_H
#define CULPRIT_LIFECYCLE_H

#include "culprit_trace.h"

#include <stdint.h>

// lifecycle_note appends one record. comm_index is UINT32_MAX for none; text is cut to what fits.
void lifecycle_note(enum culprit_lifecycle_kind kind, uint64_t at_ns, uint32_t comm_index, uint64_t comm_id,
                    uint64_t arg0, const char *text);

// lifecycle_dropped reports a full table once per kind of table.
void lifecycle_dropped(enum culprit_section_kind table, uint64_t at_ns);

#endif
