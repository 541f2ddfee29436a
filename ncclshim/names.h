// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// From NCCL's words to the format's numbers. Unknown words and NULL give 0.

#ifndef CULPRIT_NAMES_H
#define CULPRIT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

uint16_t name_func(const char *func);          // "AllReduce" …: enum culprit_func.
uint16_t name_algo(const char *algo);          // "RING" …: enum culprit_algo.
uint16_t name_proto(const char *proto);        // "SIMPLE" …: enum culprit_proto.
uint16_t name_datatype_bytes(const char *datatype);  // "ncclFloat16" …: size of one element.
bool func_has_root(uint16_t func);
const char *func_text(uint16_t func);

// algo_hides_proxies: the proxy operations of this algorithm start and never stop (CollNet) or may do so (NVLS over
// several nodes, which runs on CollNet; on one node it has none).
bool algo_hides_proxies(uint16_t algo);

#endif
