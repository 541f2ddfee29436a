// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"testing"
	"time"

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

// TestHeldBackBesideOthers: of two faults at once the one that pages at once does, and a rank that lives and stays away is waited for as
// long as if it were alone.
func TestHeldBackBesideOthers(t *testing.T) {
	for _, x := range []struct {
		name   string
		other  rca.Cause // Of the second culprit, who has not entered.
		waited float64
		told   time.Duration
		pageIn float64
	}{
		{"away for 8 s", rca.CauseNotCalled, 8, 0, 22},
		{"away for 40 s", rca.CauseNotCalled, 40, 0, 0},
		{"the trigger tells how long", rca.CauseNotCalled, 0, 12 * time.Second, 18},
		{"stopped", rca.CauseProcessStopped, 8, 0, 0},
	} {
		v := rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Page: true, Culprits: []rca.Culprit{
			{Rank: 1, Waited: 9}, {Rank: 4, Class: rca.NotEntered, Cause: x.other, Waited: x.waited},
		}}
		Decide(&v, Stage{Patience: &Patience{For: 30 * time.Second, Told: x.told}})
		if !v.Page || v.PageIn != 0 || v.Culprits[0].PageIn != 0 || v.Culprits[1].PageIn != x.pageIn {
			t.Errorf("%s: page %t, page in %g s, culprits %+v; want the second paged for in %g s", x.name, v.Page, v.PageIn, v.Culprits, x.pageIn)
		}
	}
}

// TestByEvidence: a person is woken for an accusation that is likely right and that nothing speaks against, and for a hang that lasts.
func TestByEvidence(t *testing.T) {
	opt := rca.Options{}.WithDefaults()
	lasting := opt.UnexplainedAfter
	for _, x := range []struct {
		name string
		v    rca.Verdict
		want bool
	}{
		{"a sure accusation", rca.Verdict{Class: rca.Fault, Confidence: 0.9}, true},
		{"a weak one", rca.Verdict{Class: rca.Fault, Confidence: 0.3}, false},
		{"a weak one of a hang that lasts", rca.Verdict{Class: rca.Fault, Confidence: 0.3, Stuck: lasting}, true},
		{"nobody known", rca.Verdict{Class: rca.Unknown, Confidence: 0.9, Stuck: lasting - 1}, false},
		{"nobody known, of a hang that lasts", rca.Verdict{Class: rca.Unknown, Confidence: 0.2, Stuck: lasting}, true},
		{"a checkpoint that lasts", rca.Verdict{Class: rca.Benign, Confidence: 0.9, Stuck: lasting}, false},
		{"a slow rank", rca.Verdict{Class: rca.SlowCompute, Confidence: 0.9}, true},
		{"a slow rank that chance explains", rca.Verdict{Class: rca.SlowCompute, Confidence: 0.9, Against: rca.AgainstChance}, false},
		{"uneven work", rca.Verdict{Class: rca.Imbalance, Confidence: 0.9}, false},
		{"everybody is slow", rca.Verdict{Class: rca.GlobalSlow, Confidence: 0.9}, false},
	} {
		Decide(&x.v, Stage{Options: &opt, Level: rca.LevelKernels})
		if x.v.Page != x.want {
			t.Errorf("%s: page %v", x.name, x.v.Page)
		}
	}
}

// TestTakenBack: what is known later takes a page back, and never adds one.
func TestTakenBack(t *testing.T) {
	for name, s := range map[string]Stage{"unconfirmed": {Unconfirmed: true}, "told": {Told: true}} {
		for _, paged := range []bool{true, false} {
			v := rca.Verdict{Class: rca.Fault, Cause: rca.CauseGPU, Page: paged}
			if Decide(&v, s); v.Page {
				t.Errorf("%s: it pages", name)
			}
		}
	}
}
