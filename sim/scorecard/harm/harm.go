// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package harm makes what nodes tell worse than it should be: hosts that do not answer, lost records, wrong clocks, and hosts
// that lie. What a harm does is drawn by the name of the run, so that it is the same every time.
package harm

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Harm is a way in which evidence is worse than it should be.
type Harm struct {
	name string
	What string
	// alone: it also means something in a job on one host.
	alone bool
	draw  func(rng *rand.Rand, hosts []string) Spoiler
}

// Spoiler does one harm to what the nodes of one run tell, the same on every call. Whatever is nil does nothing.
type Spoiler struct {
	Silent []string // Hosts that do not answer the analyzer,
	Unseen bool     // nor Prometheus, ever.
	// State spoils a node's answer in place.
	State func(st *nodeapi.State)
	// Record spoils a finished operation of a host's history; false: it is lost.
	Record func(host string, c *trace.Completion) bool
	Liar   string // The host that lies.
}

// Names are the names of all harms, in the order of the report.
func Names() []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].name
	}
	return out
}

var all = []Harm{
	{"silent-20", "a fifth of the hosts, at least one, does not answer", false, drawSilent},
	{"records-10", "a tenth of the operations, flows and finished operations is lost and counted as lost", true, drawLost},
	{"drift", "the hosts' clocks differ by up to 50 ms and drift by up to 100 ppm", false, drawDrift},
	{"clock", "one host's clock is wrong by seconds to a day, and with every second one the ages that it tells", false, drawClock},
	{"liar", "one host reports what contradicts the others: counters, flows, process states, hardware errors or durations", false, drawLiar},
}

// Named gives the harm of a name; nil: there is none.
func Named(name string) *Harm {
	i := slices.IndexFunc(all, func(h Harm) bool { return h.name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// On draws what a harm does to a run on some hosts, by the run's name; ok is false where it would mean nothing.
func (h *Harm) On(run string, hosts []string) (s Spoiler, ok bool) {
	if !h.alone && len(hosts) < 2 {
		return Spoiler{}, false
	}
	seed := fnv.New64a()
	seed.Write([]byte(run + "/" + h.name))
	return h.draw(rand.New(rand.NewPCG(seed.Sum64(), 1)), slices.Clone(hosts)), true // Not for secrets.
}

// drawSilent silences hosts: their exporters have been down from the start, or answer Prometheus and not the analyzer.
func drawSilent(rng *rand.Rand, hosts []string) Spoiler {
	rng.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	return Spoiler{Silent: hosts[:max(1, (len(hosts)+2)/5)], Unseen: rng.IntN(2) == 0}
}

// drawLost loses a tenth of the records, each by itself.
func drawLost(rng *rand.Rand, _ []string) Spoiler {
	const one = 10
	salt := rng.Uint64()
	lost := func(what ...uint64) bool {
		h := fnv.New64a()
		for _, w := range append(what, salt) {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], w)
			h.Write(b[:])
		}
		return h.Sum64()%one == 0
	}
	completion := func(c *trace.Completion) bool { return lost(1, uint64(c.CommID), uint64(c.Rank), c.Number) }
	return Spoiler{
		State: func(st *nodeapi.State) {
			for i := range st.Processes {
				p := &st.Processes[i]
				rank := uint64(p.Rank)
				ops, flows := len(p.Ops), len(p.Flows)
				p.Ops = slices.DeleteFunc(p.Ops, func(o trace.Op) bool { return lost(2, rank, uint64(o.CommIndex), o.Number) })
				p.Flows = slices.DeleteFunc(p.Flows, func(f trace.Flow) bool { return lost(3, rank, uint64(f.Index), f.OpNumber) })
				p.Completions = slices.DeleteFunc(p.Completions, func(c trace.Completion) bool { return completion(&c) })
				p.Status.DroppedOps += uint64(1 + ops - len(p.Ops)) // One at least: of the history that is lost.
				p.Status.DroppedFlows += uint64(flows - len(p.Flows))
			}
		},
		Record: func(_ string, c *trace.Completion) bool { return !completion(c) },
	}
}

// drawDrift gives each host a clock of its own.
func drawDrift(rng *rand.Rand, hosts []string) Spoiler {
	const off, ppm = 50 * time.Millisecond, 100
	clocks := map[string]wrongClock{}
	for _, h := range hosts {
		clocks[h] = wrongClock{off: int64((2*rng.Float64() - 1) * float64(off)), drift: (2*rng.Float64() - 1) * ppm / 1e6}
	}
	return Spoiler{Record: turned(clocks)}
}

// drawClock makes one host's clock wrong, and in half of the runs the ages that it tells.
func drawClock(rng *rand.Rand, hosts []string) Spoiler {
	host := hosts[rng.IntN(len(hosts))]
	wrong := []time.Duration{-24 * time.Hour, -7 * time.Second, 3 * time.Second, 24 * time.Hour}[rng.IntN(4)]
	s := Spoiler{Record: turned(map[string]wrongClock{host: {off: int64(wrong)}})}
	if rng.IntN(2) == 0 {
		s.State = func(st *nodeapi.State) {
			if st.Node == host {
				st.NowNS = shift(st.NowNS, int64(wrong))
			}
		}
	}
	return s
}

// wrongClock is ahead by off nanoseconds, and by a share of the time that passes.
type wrongClock struct {
	off   int64
	drift float64
}

// shift moves a time stamp; one that was never set stays so.
func shift(ns uint64, by int64) uint64 {
	if ns == 0 {
		return 0
	}
	return uint64(max(1, int64(ns)+by)) // Monotonic clocks fit.
}

// turned gives a spoiler of histories that moves every time to its host's clock.
func turned(clocks map[string]wrongClock) func(string, *trace.Completion) bool {
	return func(host string, c *trace.Completion) bool {
		k, wrong := clocks[host]
		if !wrong {
			return true
		}
		for _, ns := range stamps(c) {
			*ns = shift(*ns, k.off+int64(k.drift*float64(*ns)))
		}
		return true
	}
}

// stamps are all times of a finished operation.
func stamps(c *trace.Completion) []*uint64 {
	return []*uint64{&c.CalledNS, &c.EnqueuedNS, &c.EnteredNS, &c.LeftNS, &c.GPUReadyNS, &c.Send.FirstStepNS, &c.Send.LastStepNS, &c.Recv.FirstStepNS, &c.Recv.LastStepNS}
}
