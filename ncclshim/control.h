// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Changing the event mask of a running job. Whoever may (root or the job's own user) puts a file beside the trace file,
// named as that with ".ctl" behind it, holding one line in the syntax of CULPRIT_EVENTS. It is looked at about once a
// second, on an operation-level event; removing it brings the first mask back. The change holds for operations issued
// from then on.

#ifndef CULPRIT_CONTROL_H
#define CULPRIT_CONTROL_H

#include <stdint.h>

#define CONTROL_SUFFIX ".ctl"

// control_poll looks at the control file and applies what is new in it.
void control_poll(uint64_t now);

// control_give_up_kernel stops asking for KernelCh, for good.
void control_give_up_kernel(uint64_t now, const char *why);

#endif
