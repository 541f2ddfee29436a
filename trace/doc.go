// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package trace reads the trace files that the NCCL shim writes: one fixed-size file per training process, layout in
// docs/trace-format.md. It treats every file as hostile: whatever its bytes, a read ends, stays in bounds and costs no
// more than the file's size.
package trace
