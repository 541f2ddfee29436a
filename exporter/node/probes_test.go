// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"testing"

	"github.com/culprit-project/culprit/trace"
)

func shown(p *Probes, n int, ended ...trace.CommID) map[trace.CommID]ProbeSum {
	gone := map[trace.CommID]bool{}
	for _, id := range ended {
		gone[id] = true
	}
	out := map[trace.CommID]ProbeSum{}
	p.Show(n, func(id trace.CommID) bool { return gone[id] }, func(id trace.CommID, s ProbeSum) { out[id] = s })
	return out
}

// TestProbes sums up by communicator, shows those with most, and lets those go that have ended.
func TestProbes(t *testing.T) {
	var p Probes
	for _, c := range []trace.Completion{
		{CommID: 1, SendProbes: 2, RecvProbes: 3}, {CommID: 1, SendProbes: 7}, {CommID: 2, RecvProbes: 20}, {CommID: 3, SendProbes: 1}, {CommID: 4},
	} {
		p.Add(&c)
	}
	all := map[trace.CommID]ProbeSum{1: {Send: 9, Recv: 3}, 2: {Recv: 20}, 3: {Send: 1}}
	for _, c := range []struct {
		n    int
		want map[trace.CommID]ProbeSum
	}{
		{-1, map[trace.CommID]ProbeSum{}},
		{2, map[trace.CommID]ProbeSum{1: all[1], 2: all[2]}},
		{9, all},
	} {
		if got := shown(&p, c.n); !maps.Equal(got, c.want) {
			t.Errorf("%d communicators: %v, want %v", c.n, got, c.want)
		}
	}
	if got := shown(&p, 2, 2); !maps.Equal(got, map[trace.CommID]ProbeSum{1: all[1], 3: all[3]}) {
		t.Errorf("without the one that ended: %v", got)
	}
}

// TestProbesAreBounded: a program may make any number of communicators.
func TestProbesAreBounded(t *testing.T) {
	var p Probes
	for i := range 10 * mostProbeComms {
		p.Add(&trace.Completion{CommID: trace.CommID(i), SendProbes: 1})
	}
	if got := len(shown(&p, 10*mostProbeComms)); got != mostProbeComms {
		t.Errorf("%d communicators are counted, want %d", got, mostProbeComms)
	}
	p.Add(&trace.Completion{CommID: 0, SendProbes: 1})
	if got := shown(&p, mostProbeComms)[0].Send; got != 2 {
		t.Errorf("one that was known counts %d, want 2", got)
	}
}
