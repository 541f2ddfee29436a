// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster simulates training jobs on GPU clusters of 8 to 10,240 ranks in virtual time, with injected faults.
//
// It writes the records that real nodes serve (packages trace and trace/nodeapi) and, apart from them, a sealed Answer
// that says what was wrong. It knows nothing of the analysis: no package below analyzer/ is imported.
//
// Every rank is a host thread that runs ahead of its GPU, a GPU with one stream for computation and one per
// communicator, and a proxy thread that moves network steps. A collective's flows are computed step by step with the
// credits and windows of NCCL (max-plus recurrences over posted, ready, transmitted and done) where something is odd or
// the snapshot is taken, and by a calibrated closed form elsewhere. docs/simulator.md explains the model.
package cluster
