// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

// columnRoles names what an op table's columns can be.
const columnRoles = "rank, step, op, start, duration, end, seq, comm, peer, bytes, stage, dp, microbatch, kind"
