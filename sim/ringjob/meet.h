// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What NCCL's bootstrap does, through the files of the rendezvous:
//
//   rank.N.port       listening port of rank N
//   unique_id         hex, written by rank 0: the ncclUniqueId
//   split.ID.K.R      what rank R of communicator ID said at its K-th all-gather

#ifndef RINGJOB_MEET_H
#define RINGJOB_MEET_H

#include <stdint.h>

#include "options.h"

// Publishes `port` and waits for the ports of all ranks; returns them, indexed by rank.
uint16_t *meet(const struct options *options, uint16_t port, uint64_t *unique_id);

// All-gathers one (color, key) pair among the members of a communicator; entry r of the results is rank r's.
void meet_gather(uint64_t comm_id, int round, int rank, int nranks, int color, int key, int *colors, int *keys);

#endif
