// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// elastic is a job of four ranks that lost rank 3 and runs on with three: its exporter still shows the dead process with its
// communicator.
func elastic() *hungJob {
	j := newHungJob(4).comm("new", 0, 1, 2)
	for r := range 3 {
		j.rank(r).World, j.rank(r).Began = 3, 5*time.Minute
	}
	old := j.rank(3)
	old.State, old.World, old.Began, old.Ended = rca.ProcessGone, 4, time.Hour, 6*time.Minute
	old.Memberships = []rca.Membership{{Comm: "old", CommRank: 3, Called: 900, Started: 900, Completed: 899, InFlight: []rca.Op{{
		Number: 899, Seq: 899, Func: "AllReduce", Peer: -1, State: rca.OpMoving, Age: 7 * time.Minute, Stuck: 7 * time.Minute,
	}}}}
	j.ev.Comms = append(j.ev.Comms, rca.Comm{ID: "old", Name: "old", Size: 4, Members: []int{0, 1, 2, 3}})
	return j
}

// TestProcessesBelongToARun: a process that ended before the living processes began has no part in what they do.
func TestProcessesBelongToARun(t *testing.T) {
	for _, c := range []struct {
		name    string
		job     func() *hungJob
		accused []int
		class   rca.Class
	}{
		{"the smaller job is well", elastic, nil, rca.Healthy},
		{"a rank of the smaller job stays away", func() *hungJob {
			return elastic().in("new", "AllReduce", []int{0, 2})
		}, []int{1}, rca.NotEntered},
		{"a rank of the smaller job dies", func() *hungJob {
			j := elastic().in("new", "AllReduce", []int{0, 2})
			j.rank(1).State, j.rank(1).Ended = rca.ProcessGone, 7*time.Second
			return j
		}, []int{1}, rca.NotEntered},
		{"nobody knows when it died", func() *hungJob {
			j := elastic().in("new", "AllReduce", []int{0, 2})
			j.rank(3).Ended = 0
			return j
		}, []int{1}, rca.NotEntered},
		{"the exporter of the lost rank's host is silent", func() *hungJob {
			j := elastic().in("new", "AllReduce", []int{0, 2})
			j.ev.Ranks = j.ev.Ranks[:3]
			j.ev.Missing = []rca.Missing{{What: "exporter", Name: "node3", Ranks: []int{3}, Why: "no answer"}}
			return j
		}, []int{1}, rca.NotEntered},
		{"a job restarted at its size, a rank has not come up", func() *hungJob {
			j := elastic()
			for r := range 3 {
				j.rank(r).World = 4
			}
			j.in("new", "AllReduce", []int{0, 1, 2}, flows(map[int][]rca.Flow{0: {send(1, 4, 4, 4, 0)}}))
			return j
		}, nil, rca.Unknown},
		{"a rank dies with its communicator's other members alive", func() *hungJob {
			j := newHungJob(4).comm("new", 0, 1, 2, 3)
			for r := range 3 {
				j.rank(r).Began = 5 * time.Minute
			}
			j.rank(3).State, j.rank(3).Ended = rca.ProcessGone, 6*time.Minute
			return j.in("new", "AllReduce", []int{0, 1, 2})
		}, []int{3}, rca.NotEntered},
		{"a rank dies before its first communicator", func() *hungJob {
			j := elastic()
			j.rank(3).Memberships, j.rank(3).World, j.rank(3).Began, j.rank(3).Ended = nil, 3, 0, 10*time.Second
			return j
		}, []int{3}, rca.NotEntered},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.job().verdict()
			if !slices.Equal(rcatest.Accused(v), c.accused) || v.Class != c.class {
				t.Errorf("%s/%s (%g) accuses %v, want %s %v: %s", v.Class, v.Cause, v.Confidence, rcatest.Accused(v), c.class, c.accused, v.Summary)
			}
			for _, m := range v.Missing {
				if strings.Contains(m, "rank") && c.accused != nil {
					t.Errorf("missing: %s", m)
				}
			}
		})
	}
}
