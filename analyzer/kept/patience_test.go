// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestMayGetOn: who lives and has not launched yet is waited for; whatever else stands still is not.
func TestMayGetOn(t *testing.T) {
	for _, x := range []struct {
		class  rca.Class
		causes []rca.Cause // Of the culprits; empty: the verdict's own.
		cause  rca.Cause
		want   bool
	}{
		{rca.NotEntered, []rca.Cause{""}, rca.CauseNotCalled, true},
		{rca.NotEntered, []rca.Cause{""}, rca.CauseStorage, true},
		// The first operation of a communicator connects inside its call: with too few processors for seconds.
		{rca.NotEntered, []rca.Cause{""}, rca.CauseCPU, true},
		{rca.NotEntered, []rca.Cause{rca.CauseCPU, rca.CauseNotCalled}, rca.CauseCPU, true},
		{rca.NotEntered, []rca.Cause{rca.CauseNotCalled, rca.CauseProcessStopped}, rca.CauseNotCalled, false},
		{rca.NotEntered, []rca.Cause{""}, rca.CauseProcessGone, false},
		{rca.NotEntered, []rca.Cause{""}, rca.CauseKernelNotRunning, false},
		{rca.Fault, []rca.Cause{""}, rca.CauseGPU, false},
		{rca.SlowCompute, []rca.Cause{""}, rca.CauseCPU, false},
		{rca.NotEntered, nil, rca.CauseNotCalled, false},
	} {
		v := rca.Verdict{Class: x.class, Cause: x.cause}
		for i, c := range x.causes {
			v.Culprits = append(v.Culprits, rca.Culprit{Rank: i, Cause: c})
		}
		if v.MayGetOn = true; !mayGetOn(&v) {
			t.Errorf("%s, %s: a GPU in a job's first operations is not waited for", x.class, x.cause)
		}
		v.MayGetOn = false
		if got := mayGetOn(&v); got != x.want {
			t.Errorf("%s, %s, culprits %v: %t", x.class, x.cause, x.causes, got)
		}
	}
}
