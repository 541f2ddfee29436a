// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"fmt"
	"slices"
	"time"
)

// job builds evidence by hand: ranks two to a host, communicators by name.
type job struct {
	ev    Evidence
	comms map[string][]int
}

func newJob(world int) *job {
	j := &job{comms: map[string][]int{}, ev: Evidence{JobID: "job", WorldSize: world}}
	for r := range world {
		j.ev.Ranks = append(j.ev.Ranks, Rank{
			ID: r, Host: fmt.Sprintf("node%d", r), GPU: "0", State: ProcessRunning, Caps: allCaps,
			ReadBytesPerSec: 0, WriteBytesPerSec: 0, CPUCores: 1, ProxyRunDelay: 0,
		})
	}
	return j
}

func (j *job) comm(name string, members ...int) *job {
	j.comms[name] = members
	j.ev.Comms = append(j.ev.Comms, Comm{ID: CommID(name), Name: name, Size: len(members), Members: members})
	for i, r := range members {
		j.ev.Ranks[r].Memberships = append(j.ev.Ranks[r].Memberships, Membership{
			Comm: CommID(name), CommRank: i, Called: 100, Started: 100, Completed: 100, SinceCalled: 9 * time.Second, SinceCompleted: 9 * time.Second,
		})
	}
	return j
}

func (j *job) rank(r int) *Rank { return &j.ev.Ranks[r] }

func (j *job) on(r int, comm string) *Membership {
	ms := j.ev.Ranks[r].Memberships
	return &ms[slices.IndexFunc(ms, func(m Membership) bool { return m.Comm == CommID(comm) })]
}

// in puts ranks inside the next operation of the communicator, kernels running, and gives it to set.
func (j *job) in(comm, fn string, ranks []int, set ...func(r int, o *Op)) *job {
	for _, r := range ranks {
		m := j.on(r, comm)
		o := Op{
			Number: m.Called, Seq: m.Called, Func: fn, Peer: -1, Root: -1, Bytes: 1 << 20, Count: 1 << 18, Datatype: "float32", Algo: "ring", Proto: "simple",
			State: OpMoving, Age: 6 * time.Second, Stuck: 6 * time.Second, Channels: 1, KernelStarted: 1,
		}
		for _, f := range set {
			f(r, &o)
		}
		m.Called++
		m.InFlight = append(m.InFlight, o)
	}
	return j
}

// behind queues the next operation behind what runs.
func (j *job) queued(comm, fn string, ranks ...int) {
	j.in(comm, fn, ranks, func(_ int, o *Op) { o.State, o.KernelStarted, o.Age = OpEnqueued, 0, 5*time.Second })
}

// send and recv make flows; counters as in Flow's comment.
func send(peer int, posted, ready, transmitted, done int64) Flow {
	return Flow{Send: true, Peer: peer, Total: 100, Posted: posted, Ready: ready, Transmitted: transmitted, Done: done, Stuck: 6 * time.Second, PeerPolls: 1}
}

func recv(peer int, posted, received, given, consumed int64) Flow {
	return Flow{Peer: peer, Total: 100, Posted: posted, Ready: received, Transmitted: given, Done: consumed, Stuck: 6 * time.Second}
}

func flows(by map[int][]Flow) func(int, *Op) {
	return func(r int, o *Op) { o.Flows = append(o.Flows, by[r]...) }
}

func (j *job) verdict() Verdict { return Analyze(j.ev, Options{}) }
