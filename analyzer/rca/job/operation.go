// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

func usesP2P(m *rca.Membership) bool {
	if m.FuncCalled["Send"] > 0 || m.FuncCalled["Recv"] > 0 {
		return true
	}
	return slices.ContainsFunc(m.InFlight, func(o rca.Op) bool { return IsP2P(&o) }) ||
		slices.ContainsFunc(m.Recent, func(o rca.Op) bool { return IsP2P(&o) })
}

// IsP2P reports whether the operation is a send or a receive.
func IsP2P(o *rca.Op) bool { return o.Func == "Send" || o.Func == "Recv" }

// UnevenSizes names the operations whose size may differ between ranks of a correct program.
func UnevenSizes(fn string) bool {
	switch fn {
	case "AlltoAll", "AllToAll", "AllToAllv", "Gather", "Scatter", "all_to_all", "alltoall_base":
		return true
	}
	return false
}
