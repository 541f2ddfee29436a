// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

// network finds transfers that take longer than they should, and whose NIC, PCIe, proxy or path that is.
func (a *slowAnalysis) network() []finding {
	return nil
}
