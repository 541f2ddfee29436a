// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What is asked of a GPU while programs run on it: the file gpuN.control in the played host's directory.
//
// Its lines are `key value`; a key that is not there, like a file that is not there, means a healthy GPU. Anybody may rewrite the
// file, best by rename. It is looked at again 20 ms after the last look. README.md lists the keys.

#ifndef FAKEGPU_CONTROL_H
#define FAKEGPU_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

// Faults of the GPU and of the links of its processes.
bool control_frozen(int gpu);             // blocks stand still
bool control_held(int gpu);               // kernels do not start
bool control_lost(int gpu);               // fallen off the bus
double control_speed(int gpu);            // share of the normal speed, above 0
bool control_link_stalled(int gpu);       // data connections send nothing
double control_link_rate(int gpu);        // bytes a second that data connections send; 0: no limit
double control_proxy_delay(int gpu);      // milliseconds before each transfer that NCCL's progress thread posts

// The key's value, without the line's end; false if the key is not there.
bool control_text(int gpu, const char *key, char *value, size_t size);

// The key's value as a number; otherwise if it is not there or is no number.
double control_number(int gpu, const char *key, double otherwise);

#endif
