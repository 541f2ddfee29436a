// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

// votes gives what each method alone would say of slowness.
func (a *slowAnalysis) votes() []Vote { return nil }
