// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestWhoHasNotCome: eight ranks have launched a ring AllReduce over the network, their source sees no kernels. A rank that gave data
// is in it; one that did not may still compute. One of few is named, with patience; where most gave nothing, nobody is.
func TestWhoHasNotCome(t *testing.T) {
	for _, c := range []struct {
		name   string
		come   func(rank int) bool
		accuse []int
	}{
		{"all but one", func(r int) bool { return r != 5 }, []int{5}},
		{"all but two", func(r int) bool { return r != 5 && r != 2 }, nil},
		{"nobody", func(int) bool { return false }, nil},
		{"one alone", func(r int) bool { return r == 5 }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newHungJob(8).comm("dp", 0, 1, 2, 3, 4, 5, 6, 7)
			for r := range 8 {
				j.rank(r).Caps &^= rca.SeesKernels
				j.rank(r).Host = string(rune('a' + r))
				sent, arrived := pick(c.come(r), int64(2), 0), pick(c.come((r+7)%8), int64(2), 0)
				taken := pick(c.come(r), arrived, 0)
				j.in("dp", "AllReduce", []int{r}, func(_ int, o *rca.Op) {
					o.KernelStarted, o.KernelStopped, o.Age, o.Stuck = -1, -1, 12*time.Second, 12*time.Second
					o.Flows = []rca.Flow{send((r+1)%8, 8, sent, sent, sent), recv((r+7)%8, 8, arrived, arrived, taken)}
				})
			}
			v := j.verdict()
			got := rcatest.Accused(v)
			slices.Sort(got)
			if !slices.Equal(got, c.accuse) || len(c.accuse) > 0 && (v.Cause != rca.CauseGPU || !v.MayGetOn) || len(c.accuse) == 0 && v.Class != rca.Unknown {
				t.Errorf("%s/%s accuses %v, may get on %v: %s", v.Class, v.Cause, got, v.MayGetOn, v.Summary)
			}
		})
	}
}

// TestWhoMovesUnseen: ranks inside a host see nothing of an operation's progress; those with flows over the network say that it moves.
func TestWhoMovesUnseen(t *testing.T) {
	j := newHungJob(6).comm("dp", 0, 1, 2, 3, 4, 5)
	for r := range 6 {
		j.rank(r).Caps &^= rca.SeesKernels
		j.rank(r).Host = pick(r < 3, "a", "b")
		j.in("dp", "AllReduce", []int{r}, func(_ int, o *rca.Op) {
			o.KernelStarted, o.KernelStopped, o.Age, o.Stuck = -1, -1, 12*time.Second, 12*time.Second
			switch r {
			case 2:
				o.Flows, o.Stuck = []rca.Flow{send(3, 80, 41, 41, 33)}, time.Millisecond
			case 3:
				o.Flows, o.Stuck = []rca.Flow{recv(2, 80, 33, 33, 33)}, time.Millisecond
			}
		})
	}
	if v := j.verdict(); len(v.Culprits) > 0 && v.Class != rca.Unknown || v.Page {
		t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, v.Culprits, v.Summary)
	}
}
