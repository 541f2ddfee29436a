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

// TestWhoHasNotCome: eight ranks have launched a ring AllReduce over the network, and their source sees no kernels. A rank that
// gave data is in the operation; one that did not may still compute. If few gave nothing, they are named, with patience. If most
// gave nothing, no rank is named.
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

// TestWhoMovesUnseen: ranks inside a host see nothing of an operation's progress. Ranks with flows over the network show that it
// makes progress.
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

// TestQueuedBehindWhatMoves: a rank may still compute before its turn in one operation. While that operation makes progress, the
// rank stands still in none: the other operations that it has called may not have begun. Those of a replayed graph are called at one
// time, on each rank in another order.
func TestQueuedBehindWhatMoves(t *testing.T) {
	const age = 12 * time.Second
	for _, c := range []struct {
		name   string
		called func(rank int) time.Duration // How long ago the operation behind was called.
	}{
		{"called one after the other", func(int) time.Duration { return age - 100*time.Microsecond }},
		{"called by a graph", func(r int) time.Duration { return age + pick(r%2 == 0, -2*time.Millisecond, 2*time.Millisecond) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newHungJob(6).comm("dp", 0, 1, 2, 3, 4, 5).comm("world", 0, 1, 2, 3, 4, 5).withoutKernels()
			for r := range 6 {
				j.rank(r).Host = string(rune('a' + r))
				j.in("dp", "AllReduce", []int{r}, func(_ int, o *rca.Op) {
					o.KernelStarted, o.KernelStopped, o.Age, o.Stuck = -1, -1, age, time.Millisecond
					gave, came := pick(r == 3, int64(0), 20), pick(r == 4, int64(0), 20)
					o.Flows = []rca.Flow{send((r+1)%6, 80, gave, gave, gave), recv((r+5)%6, 80, came, came, gave)}
				})
				j.in("world", "AllReduce", []int{r}, func(_ int, o *rca.Op) {
					o.KernelStarted, o.KernelStopped, o.Age, o.Stuck = -1, -1, c.called(r), c.called(r)
					o.Flows = []rca.Flow{send((r+1)%6, 1, 0, 0, 0), recv((r+5)%6, 1, 0, 0, 0)}
				})
			}
			if v := j.verdict(); v.Class.StandsStill() || v.Page {
				t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Summary)
			}
		})
	}
}

// TestNoGPUHasBegun: both ranks of a tensor-parallel group called an operation, neither kernel runs, and others wait for what
// these ranks send next: they may compute. Where one of them is in the operation, the other holds it up.
func TestNoGPUHasBegun(t *testing.T) {
	for _, c := range []struct {
		name     string
		begun    bool
		mayGetOn bool
	}{{"neither", false, true}, {"one", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			j := newHungJob(4).comm("tp", 2, 3).comm("pp0", 0, 2).comm("pp1", 1, 3)
			for r := range 4 {
				for k := range j.rank(r).Memberships {
					m := &j.rank(r).Memberships[k]
					m.Called, m.Started, m.Completed = 1000, 1000, 1000
				}
			}
			j.in("tp", "AllReduce", []int{2, 3}, func(r int, o *rca.Op) {
				o.KernelStarted, o.KernelStopped = pick(c.begun && r == 2, 1, 0), 0
			})
			for r, comm := range []string{"pp0", "pp1"} {
				j.in(comm, "Recv", []int{r}, func(_ int, o *rca.Op) {
					o.Peer, o.Flows = 1, []rca.Flow{recv(1, 8, 0, 0, 0)}
				})
			}
			v := j.verdict()
			if len(v.Culprits) == 0 || v.MayGetOn != c.mayGetOn {
				t.Errorf("%s/%s accuses %v, may get on %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.MayGetOn, v.Summary)
			}
		})
	}
}

// TestLastAtOneMoment: a look at a job that got slower finds a GPU that others wait for at this moment and that may still
// compute. Finished work shows that another rank is late each time: that one is named.
func TestLastAtOneMoment(t *testing.T) {
	for _, c := range []struct {
		name    string
		asked   bool // Finished work was fetched.
		accused []int
	}{{"finished work was read", true, []int{5}}, {"the present alone", false, []int{2}}} {
		t.Run(c.name, func(t *testing.T) {
			job := rcatest.NewSlowJob(8, 1, 1)
			job.Compute = rcatest.One(5, 1.6)
			ev := job.Evidence()
			ev.PastAsked = c.asked
			j := &hungJob{ev: ev, comms: map[string][]int{}}
			j.comm("ring", 0, 1, 2, 3, 4, 5, 6, 7)
			for r := range 8 {
				j.rank(r).Caps = rcatest.AllCaps &^ rca.SeesKernels
				j.rank(r).Host = string(rune('a' + r))
				sent, arrived := pick(r == 2, int64(0), 2), pick(r == 3, int64(0), 2)
				j.in("ring", "AllReduce", []int{r}, func(_ int, o *rca.Op) {
					o.KernelStarted, o.KernelStopped, o.Age, o.Stuck = -1, -1, 12*time.Second, 12*time.Second
					o.Flows = []rca.Flow{send((r+1)%8, 8, sent, sent, sent), recv((r+7)%8, 8, arrived, arrived, pick(r == 2, 0, arrived))}
				})
			}
			if got := rcatest.Accused(j.verdict()); !slices.Equal(got, c.accused) {
				t.Errorf("accuses %v, want %v: %s", got, c.accused, j.verdict().Summary)
			}
		})
	}
}

// TestChannelThatMoves: one channel of an operation stands because of a host's NIC, the other one goes on at both ends. The rank of that host
// that is in the latter alone is not to blame.
func TestChannelThatMoves(t *testing.T) {
	j := newHungJob(4).comm("dp", 0, 1, 2, 3)
	for r := range 4 {
		j.rank(r).Host = string(rune('a' + r%2))
	}
	j.ev.Facts = []rca.Fact{{Host: "b", Rank: -1, Component: "nic", Device: "mlx5_1", Kind: "port_down", Expected: 1}}
	channel := func(r int, fs ...rca.Flow) []rca.Flow { // Ranks 0 and 1 share the first one, which moves.
		for i := range fs {
			if fs[i].Channel = r / 2; r < 2 {
				fs[i].Stuck = 0
			}
		}
		return fs
	}
	j.in("dp", "AllReduce", []int{0, 1, 2, 3}, func(r int, o *rca.Op) {
		o.Algo, o.Channels = "tree", 2
		if r < 2 {
			o.Stuck = 0
		}
		peer := r ^ 1
		o.Flows = channel(r, send(peer, 50, 43, 43, 42), recv(peer, 50, 42, 42, 42))
	})
	if v := j.verdict(); v.Cause != rca.CauseNetworkSend || !slices.Equal(rcatest.Accused(v), []int{3}) {
		t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Summary)
	}
}
