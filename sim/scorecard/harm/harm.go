// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package harm makes evidence worse than it should be: hosts that do not answer, lost records, sampled events, wrong clocks,
// and hosts that lie. What a harm does is drawn by the name of the run, so that it is the same every time.
package harm

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
)

// Harm is a way in which evidence is worse than it should be.
type Harm struct {
	name string
	What string
	// alone: it also means something in a job on one host.
	alone bool
	draw  func(rng *rand.Rand, ev *rca.Evidence) Spoiler
}

// Spoiler does one harm to the evidence of one run, the same on every call.
type Spoiler struct {
	// States spoils what the nodes say of now; nil: nothing.
	States func(ev *rca.Evidence)
	// History spoils finished work: what of the timeline comes from an index on.
	History func(ev *rca.Evidence, from int)
	// Record spoils one finished operation as its node has it, before it is fetched; nil: nothing.
	Record func(c *trace.Completion)
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
	{"sampled", "the shim is asked for less: no proxy steps, no kernel events, or neither", true, drawMasked},
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

// On draws what a harm does to a run, by the run's name; ok is false where it would mean nothing.
func (h *Harm) On(run string, ev *rca.Evidence) (s Spoiler, ok bool) {
	if !h.alone && len(hostsOf(ev)) < 2 {
		return Spoiler{}, false
	}
	seed := fnv.New64a()
	seed.Write([]byte(run + "/" + h.name))
	return h.draw(rand.New(rand.NewPCG(seed.Sum64(), 1)), ev), true //nolint:gosec // Not for secrets.
}

// hostsOf gives the hosts of the evidence's ranks.
func hostsOf(ev *rca.Evidence) []string {
	var out []string
	for i := range ev.Ranks {
		out = append(out, ev.Ranks[i].Host)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Copy is evidence that can be spoiled: nothing in it that a harm changes is shared. The timeline is left out.
func Copy(ev *rca.Evidence) rca.Evidence {
	out := *ev
	out.Facts, out.Missing, out.Timeline = slices.Clone(ev.Facts), slices.Clone(ev.Missing), nil
	out.Ranks = slices.Clone(ev.Ranks)
	for i := range out.Ranks {
		r := &out.Ranks[i]
		r.Memberships = slices.Clone(r.Memberships)
		for j := range r.Memberships {
			m := &r.Memberships[j]
			m.InFlight, m.Recent = slices.Clone(m.InFlight), slices.Clone(m.Recent)
			for k := range m.InFlight {
				m.InFlight[k].Flows = slices.Clone(m.InFlight[k].Flows)
			}
		}
	}
	return out
}

// ops calls f for every operation in flight of the ranks that are meant.
func ops(ev *rca.Evidence, meant func(*rca.Rank) bool, f func(*rca.Op)) {
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if !meant(r) {
			continue
		}
		for j := range r.Memberships {
			for k := range r.Memberships[j].InFlight {
				f(&r.Memberships[j].InFlight[k])
			}
		}
	}
}

func onHostNamed(host string) func(*rca.Rank) bool {
	return func(r *rca.Rank) bool { return r.Host == host }
}

// drawSilent silences hosts: their exporters have been down for an hour, or answer Prometheus and not the analyzer. Prometheus
// still knows who was in which communicator.
func drawSilent(rng *rand.Rand, ev *rca.Evidence) Spoiler {
	hosts := hostsOf(ev)
	rng.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	silent := hosts[:max(1, (len(hosts)+2)/5)]
	slices.Sort(silent)
	gone := map[int]bool{}
	heard := time.Hour
	if rng.IntN(2) == 0 {
		const scrape = 5 * time.Second
		heard = 1 + time.Duration(rng.Int64N(int64(scrape)))
	}
	return Spoiler{
		States: func(ev *rca.Evidence) {
			for _, h := range silent {
				m := rca.Missing{What: "exporter", Name: h, Why: "no answer", Heard: heard}
				for i := range ev.Ranks {
					if r := &ev.Ranks[i]; r.Host == h {
						m.Ranks = append(m.Ranks, r.ID)
						gone[r.ID] = true
					}
				}
				ev.Missing = append(ev.Missing, m)
			}
			isSilent := func(host string) bool { return slices.Contains(silent, host) }
			ev.Ranks = slices.DeleteFunc(ev.Ranks, func(r rca.Rank) bool { return isSilent(r.Host) })
			ev.Facts = slices.DeleteFunc(ev.Facts, func(f rca.Fact) bool { return isSilent(f.Host) })
		},
		History: func(ev *rca.Evidence, from int) {
			kept := slices.DeleteFunc(ev.Timeline[from:], func(s rca.Segment) bool { return gone[s.Rank] })
			ev.Timeline = ev.Timeline[:from+len(kept)]
		},
	}
}

// drawLost loses a tenth of the records, each by itself.
func drawLost(rng *rand.Rand, _ *rca.Evidence) Spoiler {
	const one = 10
	lost := func(r *rca.Rank) bool {
		if rng.IntN(one) > 0 {
			return false
		}
		r.Lost++
		return true
	}
	return Spoiler{
		States: func(ev *rca.Evidence) {
			for i := range ev.Ranks {
				r := &ev.Ranks[i]
				for j := range r.Memberships {
					m := &r.Memberships[j]
					m.InFlight = slices.DeleteFunc(m.InFlight, func(rca.Op) bool { return lost(r) })
					for k := range m.InFlight {
						m.InFlight[k].Flows = slices.DeleteFunc(m.InFlight[k].Flows, func(rca.Flow) bool { return lost(r) })
					}
				}
			}
		},
		History: func(ev *rca.Evidence, from int) {
			at := make(map[int]int, len(ev.Ranks))
			for i := range ev.Ranks {
				at[ev.Ranks[i].ID] = i
			}
			kept := slices.DeleteFunc(ev.Timeline[from:], func(s rca.Segment) bool {
				i, seen := at[s.Rank]
				return seen && lost(&ev.Ranks[i])
			})
			ev.Timeline = ev.Timeline[:from+len(kept)]
		},
	}
}

// drawDrift gives each host a clock of its own.
func drawDrift(rng *rand.Rand, ev *rca.Evidence) Spoiler {
	const off, ppm = 50 * time.Millisecond, 100
	clocks := map[string]wrongClock{}
	for _, h := range hostsOf(ev) {
		clocks[h] = wrongClock{off: int64((2*rng.Float64() - 1) * float64(off)), drift: (2*rng.Float64() - 1) * ppm / 1e6}
	}
	return Spoiler{States: func(*rca.Evidence) {}, History: turned(clocks, ev)}
}

// drawClock makes one host's clock wrong, and in half of the runs the ages that it tells.
func drawClock(rng *rand.Rand, ev *rca.Evidence) Spoiler {
	hosts := hostsOf(ev)
	host := hosts[rng.IntN(len(hosts))]
	wrong := []time.Duration{-24 * time.Hour, -7 * time.Second, 3 * time.Second, 24 * time.Hour}[rng.IntN(4)]
	ages := rng.IntN(2) == 0
	return Spoiler{
		States: func(ev *rca.Evidence) {
			if !ages {
				return
			}
			ops(ev, onHostNamed(host), func(o *rca.Op) {
				o.Age, o.Stuck = max(0, o.Age+wrong), max(0, o.Stuck+wrong)
				for f := range o.Flows {
					o.Flows[f].Stuck = max(0, o.Flows[f].Stuck+wrong)
				}
			})
		},
		History: turned(map[string]wrongClock{host: {off: int64(wrong)}}, ev),
	}
}

// wrongClock is ahead by off nanoseconds, and by a share of the time that passes.
type wrongClock struct {
	off   int64
	drift float64
}

// turned gives a spoiler of histories that moves every time to its host's clock.
func turned(clocks map[string]wrongClock, ev *rca.Evidence) func(*rca.Evidence, int) {
	hosts := make(map[int]string, len(ev.Ranks))
	for i := range ev.Ranks {
		hosts[ev.Ranks[i].ID] = ev.Ranks[i].Host
	}
	return func(ev *rca.Evidence, from int) {
		for i := from; i < len(ev.Timeline); i++ {
			s := &ev.Timeline[i]
			c := clocks[hosts[s.Rank]]
			turn := func(t int64) int64 { return t + c.off + int64(c.drift*float64(t)) }
			if s.Entered != 0 {
				s.Entered = turn(s.Entered)
			}
			s.Start, s.End = turn(s.Start), turn(s.End)
		}
	}
}
