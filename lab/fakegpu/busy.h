// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// How long a GPU was busy: kernels of this process were running on it, one or many. Goes into the GPU's state while they run.

#ifndef FAKEGPU_BUSY_H
#define FAKEGPU_BUSY_H

void busy_begin(int gpu);
void busy_end(int gpu);

#endif
