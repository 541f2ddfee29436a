// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// How NCCL's threads wait: the library polls. Between two looks progress threads call sched_yield; who waits for a socket while
// communicators are made calls recv again at once.

#ifndef FAKEGPU_POLL_H
#define FAKEGPU_POLL_H

#include <stdbool.h>
#include <stddef.h>

// Lets the threads of the library behind the dlopen handle sleep for FAKEGPU_POLL_US microseconds between two looks. Unset or 0: they
// poll as published. False and a reason when the library imports no such function.
bool poll_divert(void *handle, char *why, size_t size);

#endif
