// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// Recording is what the nodes of a run saw, at its end.
type Recording struct{ s *sim }
