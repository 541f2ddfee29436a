// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Groups: GroupApi tells when a thread is inside a group of calls; Group names the plan that operations were launched
// with.

#ifndef CULPRIT_GROUP_H
#define CULPRIT_GROUP_H

#include "shim.h"

// group_plan gives the handle of a new plan. It owns nothing and needs no stop.
handle group_plan(void);

// group_api_open notes that a thread has begun a group; 0 when too many have.
handle group_api_open(uint64_t now);

// group_api_ending notes that the thread has come to ncclGroupEnd.
void group_api_ending(handle h, uint64_t now);

// group_api_close notes that ncclGroupEnd has returned.
void group_api_close(handle h, uint64_t now);

// group_api_first gives the operation that joined an open group last; group_api_add puts another before it, which must
// know it as its next (op_called).
handle group_api_first(handle h);
void group_api_add(handle h, handle op);

// group_api_owns says whether h names an open group.
bool group_api_owns(handle h);

#endif
