// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A record per transfer (CULPRIT_TRANSFERS): the raw rate curve of a flow, for a close look. The caller holds the flow.

#ifndef CULPRIT_TRANSFER_H
#define CULPRIT_TRANSFER_H

#include <stdint.h>

// transfer_begin notes the start of a step's transfer, transfer_end writes its record. bytes: where the event tells.
void transfer_begin(uint32_t proxy, uint32_t step, uint64_t bytes, uint64_t now);
void transfer_end(uint32_t proxy, uint32_t step, uint64_t bytes, uint64_t now);

#endif
