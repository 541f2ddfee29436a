// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/learn"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// cluster gives a topology of four hosts to a leaf.
func cluster(t *testing.T) *topology.Topology {
	t.Helper()
	text := "SwitchName=leaf0 Nodes=node[0-3]\nSwitchName=leaf1 Nodes=node[4-7]\nSwitchName=spine Switches=leaf[0-1]\n"
	open := func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	top, err := topology.Load(open, topology.Files{Slurm: "topology.conf"})
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func TestH5DevicesVote(t *testing.T) {
	t.Run("computation is its GPU", func(t *testing.T) {
		j := rcatest.NewSlowJob(4, 1, 2)
		j.Iters = 20
		j.Compute = func(r, it int) float64 { return pick(r == 5 && it >= 10, 4, 1.0) }
		m := rcatest.VoteOf(t, verdictOf(j.Evidence(), rca.Options{}), "holmes-devices")
		if m.Class != rca.SlowCompute || !slices.Equal(m.Ranks, []int{5}) || !strings.HasPrefix(m.Note, "gpu node2/gpu1") {
			t.Errorf("%s %v: %s", m.Class, m.Ranks, m.Note)
		}
	})
	t.Run("a whole group is what lies between its members", func(t *testing.T) {
		j := rcatest.NewSlowJob(4, 1, 2)
		j.Iters = 20
		j.Send = func(_, it int) float64 { return pick(it >= 10, 6, 1.0) }
		m := rcatest.VoteOf(t, verdictOf(j.Evidence(), rca.Options{Topology: cluster(t)}), "holmes-devices")
		if m.Class != rca.SlowComm || !strings.HasPrefix(m.Note, "nic node0/nic0") || !slices.Equal(m.Ranks, []int{0}) {
			t.Errorf("%s %v: %s", m.Class, m.Ranks, m.Note)
		}
	})
}

func TestH3TrainedModelVotes(t *testing.T) {
	lesson := rcatest.NewSlowJob(4, 1, 2)
	lesson.Iters = 20
	lesson.Compute = func(r, it int) float64 { return pick(r == 2 && it >= 10, 4, 1.0) }
	ev := lesson.Evidence()
	ops := Operators(job.NewIndex(&ev, rca.Options{}.WithDefaults()))
	for i := range ops {
		// What waits for rank 2: its tensor group's other member in everything, all others in the data-parallel operation.
		ops[i].Abnormal = ops[i].Iteration >= 10 && ops[i].Rank != 2 && ops[i].Seconds > 0.1
	}
	m, err := learn.Train(t.Context(), learn.Samples(ops), learn.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if m.F1 < 0.9 {
		t.Errorf("the model says F1 %.2f of itself", m.F1)
	}
	j := rcatest.NewSlowJob(4, 1, 2)
	j.Iters = 20
	j.Compute = func(r, it int) float64 { return pick(r == 5 && it >= 10, 4, 1.0) }
	if v := rcatest.VoteOf(t, verdictOf(j.Evidence(), rca.Options{Operators: m}), "holmes"); v.Class != rca.SlowCompute || !slices.Equal(v.Ranks, []int{5}) {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
}

// TestH7IrregularitiesAreNamed: the vote says which of the three kinds it is.
func TestH7IrregularitiesAreNamed(t *testing.T) {
	for want, slow := range map[string]func(it int) bool{
		"degradation": func(it int) bool { return it >= 20 },
		"fluctuation": func(it int) bool { return it%5 == 3 },
		"spikes":      func(it int) bool { return it == 11 },
	} {
		j := rcatest.NewSlowJob(4, 1, 2)
		j.Iters = 40
		j.Compute = func(r, it int) float64 { return pick(r == 5 && slow(it), 4, 1.0) }
		if m := rcatest.VoteOf(t, verdictOf(j.Evidence(), rca.Options{}), "holmes"); !strings.HasPrefix(m.Note, want) {
			t.Errorf("%s: %s", want, m.Note)
		}
	}
}
