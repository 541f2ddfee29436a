// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// TestConnectionRefused: a host that refuses a connection is up. The verdict says what the others show of its rank, and calls no
// host lost.
func TestConnectionRefused(t *testing.T) {
	j := newHungJob(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 1, 2})
	j.ev.Ranks = j.ev.Ranks[:3]
	j.ev.Missing = []rca.Missing{{What: "exporter", Name: "node3", Ranks: []int{3}, Why: "connection refused", Alive: true, Heard: 6 * time.Second}}
	v := j.verdict()
	if v.Cause == rca.CauseHostLost || len(v.Culprits) != 1 || v.Culprits[0].Group != "rank 3 or its host, not observed" || v.Culprits[0].Host != "node3" {
		t.Errorf("%s/%s %+v: %s", v.Class, v.Cause, v.Culprits, v.Summary)
	}
	if v.Page || !strings.Contains(v.Summary, "The host is up") {
		t.Errorf("page %v: %s", v.Page, v.Summary)
	}
}

// TestFirstOperationConnects: a rank inside the call of a communicator's first operation makes connections there, and may return
// by itself. In a later operation nothing should hold it there.
func TestFirstOperationConnects(t *testing.T) {
	for _, c := range []struct {
		number int64
		want   rca.Cause
	}{{0, rca.CauseNotCalled}, {100, rca.CauseCPU}} {
		j := newHungJob(4).comm("dp", 0, 1, 2, 3)
		for r := range 4 {
			m := j.on(r, "dp")
			m.Called, m.Started, m.Completed = c.number, c.number, c.number
			j.rank(r).Memberships = append(j.rank(r).Memberships, rca.Membership{Comm: rca.CommID("other"), CommRank: r, Called: 900, Started: 900, Completed: 900, SinceCompleted: 10 * time.Second})
		}
		j.in("dp", "AllReduce", []int{0, 1, 2}).in("dp", "AllReduce", []int{3}, func(_ int, o *rca.Op) { o.State, o.KernelStarted = rca.OpCalled, 0 })
		j.rank(3).GroupOpen = 6 * time.Second
		if v := j.verdict(); v.Class != rca.NotEntered || v.Cause != c.want || len(v.Culprits) != 1 || v.Culprits[0].Rank != 3 {
			t.Errorf("operation %d: %s/%s %+v: %s", c.number, v.Class, v.Cause, v.Culprits, v.Summary)
		}
	}
}

// TestFirstCallOfAJob: in a job that has completed hardly anything, a rank inside the call of a first operation connects and
// loads, as does a rank that has not called it. Neither pages before a first step has taken too long.
func TestFirstCallOfAJob(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		want rca.Class
	}{{11 * time.Second, rca.Benign}, {21 * time.Minute, rca.NotEntered}} {
		j := newHungJob(4).comm("dp", 0, 1, 2, 3)
		for r := range 4 {
			m := j.on(r, "dp")
			m.Called, m.Started, m.Completed = 0, 0, 0
		}
		j.in("dp", "AllReduce", []int{0, 1, 2, 3}, func(r int, o *rca.Op) {
			o.Age, o.Stuck = c.age, c.age
			if r == 3 {
				o.State, o.KernelStarted = rca.OpCalled, 0
			}
		})
		j.rank(3).GroupOpen = c.age
		v := j.verdict()
		if v.Class != c.want || v.Page != (c.want != rca.Benign) || len(v.Culprits) != 1 || v.Culprits[0].Rank != 3 {
			t.Errorf("after %s: %s/%s, page %v, %+v: %s", c.age, v.Class, v.Cause, v.Page, v.Culprits, v.Summary)
		}
		if c.want == rca.Benign && (v.Cause != rca.CauseFirstStep || !strings.Contains(v.Summary, words.HardlyBegun)) {
			t.Errorf("after %s: %s: %s", c.age, v.Cause, v.Summary)
		}
	}
}

// TestFirstOperationInsideAHost: where all ranks of one host are inside an operation, one of their GPUs or links holds it up,
// except while they make their connections.
func TestFirstOperationInsideAHost(t *testing.T) {
	for _, c := range []struct {
		number int64
		want   rca.Class
	}{{0, rca.Unknown}, {100, rca.Fault}} {
		j := newHungJob(2).comm("tp", 0, 1)
		for r := range 2 {
			j.rank(r).Host = "node0"
			m := j.on(r, "tp")
			m.Called, m.Started, m.Completed = c.number, c.number, c.number
		}
		if v := j.in("tp", "AllReduce", []int{0, 1}).verdict(); v.Class != c.want {
			t.Errorf("operation %d: %s/%s %+v: %s", c.number, v.Class, v.Cause, v.Culprits, v.Summary)
		}
	}
}
