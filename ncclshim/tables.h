// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef CULPRIT_TABLES_H
#define CULPRIT_TABLES_H

#include <stdbool.h>

// tables_reserve takes address space for the shim's private tables, as many entries as the file has; pages come into being
// as slots are used. A forked child, which shares the trace file and must not write to it, finds them empty, and with
// them every handle stale.
bool tables_reserve(void);

#endif
