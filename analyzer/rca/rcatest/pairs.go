// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rcatest

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Pairs are the causes that the engine gives with each class. CheckPair holds verdicts to them, and the texts of each are reviewed.
var Pairs = map[rca.Class][]rca.Cause{
	rca.NotEntered: {
		rca.CauseProcessStopped, rca.CauseProcessGone, rca.CauseException, rca.CauseHostLost, rca.CauseNotCalled, rca.CauseStorage, rca.CauseKernelNotRunning, rca.CauseCPU,
		rca.CauseGPU, rca.CauseUnknown,
	},
	rca.Inconsistent: {rca.CauseOtherOp, rca.CauseDeadlock},
	rca.Fault: {
		rca.CauseGPU, rca.CauseNetworkSend, rca.CauseReceiver, rca.CausePCIe, rca.CauseProxy, rca.CauseProcessStopped, rca.CauseProcessGone, rca.CauseException, rca.CauseHostLost, rca.CauseUnknown,
	},
	rca.SlowCompute: {rca.CauseGPU, rca.CauseCPU, rca.CauseStorage, rca.CauseUnknown},
	rca.SlowComm:    {rca.CauseNetworkSend, rca.CausePCIe, rca.CauseProxy, rca.CauseCPU, rca.CauseGPU, rca.CauseUnknown},
	rca.SlowMixed:   {rca.CauseGPU, rca.CauseCPU, rca.CauseStorage, rca.CauseNetworkSend, rca.CausePCIe, rca.CauseProxy, rca.CauseUnknown},
	rca.Imbalance:   {rca.CauseStage, rca.CauseRouting, rca.CauseData},
	rca.GlobalSlow:  {rca.CauseUnknown},
	rca.Benign:      {rca.CauseCheckpoint, rca.CauseFirstStep, rca.CauseJobEnd},
	rca.Healthy:     {rca.CauseUnknown},
	rca.Unknown:     {rca.CauseUnknown},
}

// CheckPair fails the test where a verdict, or a culprit of it, has a class with a cause that no reviewed text explains.
func CheckPair(t testing.TB, v *rca.Verdict) {
	t.Helper()
	check := func(class rca.Class, cause rca.Cause) {
		if !slices.Contains(Pairs[class], cause) {
			t.Errorf("class %s has cause %s, which rcatest.Pairs does not list: %s", class, cause, v.Summary)
		}
	}
	check(v.Class, v.Cause)
	for i := range v.Culprits {
		if c := &v.Culprits[i]; c.Class != "" {
			check(c.Class, c.Cause)
		}
	}
}
