// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// hungJob builds evidence by hand: two ranks per host, communicators by name.
type hungJob struct {
	ev    rca.Evidence
	comms map[string][]int
}

func newHungJob(world int) *hungJob {
	j := &hungJob{comms: map[string][]int{}, ev: rca.Evidence{JobID: "job", WorldSize: world}}
	for r := range world {
		j.ev.Ranks = append(j.ev.Ranks, rca.Rank{
			ID: r, Host: fmt.Sprintf("node%d", r), GPU: "0", State: rca.ProcessRunning, Caps: rcatest.AllCaps,
			ReadBytesPerSec: 0, WriteBytesPerSec: 0, CPUCores: 1, ProxyRunDelay: 0,
		})
	}
	return j
}

func (j *hungJob) comm(name string, members ...int) *hungJob {
	j.comms[name] = members
	j.ev.Comms = append(j.ev.Comms, rca.Comm{ID: rca.CommID(name), Name: name, Size: len(members), Members: members})
	for i, r := range members {
		j.ev.Ranks[r].Memberships = append(j.ev.Ranks[r].Memberships, rca.Membership{
			Comm: rca.CommID(name), CommRank: i, Called: 100, Started: 100, Completed: 100, SinceCalled: 9 * time.Second, SinceCompleted: 9 * time.Second,
		})
	}
	return j
}

func (j *hungJob) rank(r int) *rca.Rank { return &j.ev.Ranks[r] }

func (j *hungJob) on(r int, comm string) *rca.Membership {
	ms := j.ev.Ranks[r].Memberships
	return &ms[slices.IndexFunc(ms, func(m rca.Membership) bool { return m.Comm == rca.CommID(comm) })]
}

// in puts ranks into the next operation of the communicator, with running kernels, and passes it to set.
func (j *hungJob) in(comm, fn string, ranks []int, set ...func(r int, o *rca.Op)) *hungJob {
	for _, r := range ranks {
		m := j.on(r, comm)
		o := rca.Op{
			Number: m.Called, Seq: m.Called, Func: fn, Peer: -1, Root: -1, Bytes: 1 << 20, Count: 1 << 18, Datatype: "float32", Algo: "ring", Proto: "simple",
			State: rca.OpMoving, Age: 6 * time.Second, Stuck: 6 * time.Second, Channels: 1, KernelStarted: 1,
		}
		for _, f := range set {
			f(r, &o)
		}
		m.Called++
		m.InFlight = append(m.InFlight, o)
	}
	return j
}

// called puts a rank into the next operation of the communicator, some time after the first one was called, as it shows without kernel events.
// peer and seq are those of a send or receive, -1 of a collective.
func (j *hungJob) called(r int, comm, fn string, peer int, seq int64, later time.Duration, f ...rca.Flow) {
	j.in(comm, fn, []int{r}, func(_ int, o *rca.Op) {
		o.KernelStarted, o.KernelStopped, o.State, o.Age, o.Flows = -1, -1, rca.OpEnqueued, o.Age-later, f
		if peer >= 0 {
			o.Peer, o.Seq = peer, seq
		}
	})
}

// withoutKernels takes the kernel events from all ranks.
func (j *hungJob) withoutKernels() *hungJob {
	for i := range j.ev.Ranks {
		j.ev.Ranks[i].Caps &^= rca.SeesKernels
	}
	return j
}

// behind queues the next operation behind the running one.
func (j *hungJob) queued(comm, fn string, ranks ...int) {
	j.in(comm, fn, ranks, func(_ int, o *rca.Op) { o.State, o.KernelStarted, o.Age = rca.OpEnqueued, 0, 5*time.Second })
}

// send and recv make flows; the counters are those of Flow's comment.
func send(peer int, posted, ready, transmitted, done int64) rca.Flow {
	return rca.Flow{Send: true, Peer: peer, Total: 100, Posted: posted, Ready: ready, Transmitted: transmitted, Done: done, Stuck: 6 * time.Second, PeerPolls: 1}
}

func recv(peer int, posted, received, given, consumed int64) rca.Flow {
	return rca.Flow{Peer: peer, Total: 100, Posted: posted, Ready: received, Transmitted: given, Done: consumed, Stuck: 6 * time.Second}
}

func flows(by map[int][]rca.Flow) func(int, *rca.Op) {
	return func(r int, o *rca.Op) { o.Flows = append(o.Flows, by[r]...) }
}

func (j *hungJob) verdict() rca.Verdict { return Analyze(j.ev, rca.Options{}) }
