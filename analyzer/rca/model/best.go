// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package model explains a job that stands still: it asks what each possible fault would make every rank show, and compares that with
// what the ranks show. A World is a set of faults, in which the programs run forward as far as they can; its score compares the result with
// the letters of package observe, and best looks for the faults that explain most. It runs beside the engine and decides nothing.
package model

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// Fit is a world with its score.
type Fit struct {
	Faults []Fault
	Nats   float64 // Log-likelihood with priors, above that of a job in which nothing is wrong.
	Open   int     // Terms that it leaves open.
}

// rank is the score less what the open terms take off.
func (f *Fit) rank() float64 { return f.Nats + vague*float64(f.Open) }

// last is the fault that was added last.
func (f *Fit) last() Fault { return f.Faults[len(f.Faults)-1] }

// Found is one fault of the best world, with what may be in its place.
type Found struct {
	Fits      []Fit   // Worlds that cannot be told apart, the best first. They differ in this fault, which is the last of each.
	Elsewhere float64 // Nats of it that the ranks of other hosts show.
}

// search is one run of Best.
type search struct {
	world *World
	base  float64 // Score of a job in which nothing is wrong.
	all   []Fault // Candidates.
	alone []Fit   // The worlds of one fault, the best first.
	found Fit     // The best so far.
}

// best looks for the faults that explain the job: the one that raises the score most, then one more while the gain is above its prior. Then
// it puts others in the place of each, since the first was chosen before the last was known. It finds none where nothing stands still, or
// where nothing explains it.
func best(w *World) (found []Found) {
	j := w.Job
	ended := slices.ContainsFunc(j.Index.Nodes, func(n job.Node) bool {
		return n.Rank != nil && (n.Rank.State == rca.ProcessGone || n.Rank.State == rca.ProcessStopped)
	})
	if !ended && !j.Still() && !j.Disagrees() {
		return nil
	}
	s := &search{world: w, base: w.score().nats, all: candidates(w)}
	// That a host lies explains nothing that stands still.
	s.alone = s.fits(nil, slices.DeleteFunc(slices.Clone(s.all), func(f Fault) bool { return f.Kind == Liar }))
	for len(s.found.Faults) < mostFaults {
		fits := s.alone
		if len(s.found.Faults) > 0 {
			fits = s.fits(s.found.Faults, s.unexplained(s.found.Faults))
		}
		if len(fits) == 0 || fits[0].Nats <= s.found.Nats {
			break
		}
		s.found = fits[0]
	}
	if len(s.found.Faults) > 1 {
		s.improve()
	}
	for i, f := range s.found.Faults {
		others := slices.Delete(slices.Clone(s.found.Faults), i, i+1)
		fits := slices.Clone(s.alone)
		if len(others) > 0 || f.Kind == Liar {
			fits = s.fits(others, append(slices.DeleteFunc(s.unexplained(others), func(g Fault) bool { return g == f }), f))
		}
		best := fits[slices.IndexFunc(fits, func(x Fit) bool { return x.last() == f })]
		without := s.of(others).Nats
		fits = slices.DeleteFunc(fits, func(x Fit) bool { return x.last() == f || x.Nats <= without || !s.rivals(&best, &x) })
		found = append(found, Found{Fits: append([]Fit{best}, fits...), Elsewhere: s.elsewhere(f, others)})
	}
	return found
}

// improve puts better faults in the place of those that were found, and leaves out those that have become idle.
func (s *search) improve() {
	for range mostPasses {
		before := s.found.Nats
		for i := 0; i < len(s.found.Faults); i++ {
			others := slices.Delete(slices.Clone(s.found.Faults), i, i+1)
			if w := s.of(others); w.Nats >= s.found.Nats {
				s.found = w
				i--
				continue
			}
			if fits := s.fits(others, s.unexplained(others)); len(fits) > 0 && fits[0].Nats > s.found.Nats {
				s.found = fits[0]
			}
		}
		if s.found.Nats <= before {
			return
		}
	}
}

// fits gives the worlds with one fault more, the best first. Of those that are near each other the one that leaves least open is best: a world
// that leaves open what is seen says less than one that predicts it.
func (s *search) fits(faults, more []Fault) []Fit {
	out := make([]Fit, 0, len(more))
	s.world.become(faults)
	for _, f := range more {
		if !slices.Contains(faults, f) {
			s.world.push(f)
			out = append(out, s.fit())
			s.world.pop()
		}
	}
	slices.SortStableFunc(out, func(a, b Fit) int { return cmp.Compare(b.Nats, a.Nats) })
	end := 0
	for end < len(out) && out[end].Nats > out[0].Nats-near && out[0].last().Kind != Unseen {
		end++
	}
	slices.SortStableFunc(out[:end], func(a, b Fit) int { return cmp.Compare(b.rank(), a.rank()) })
	return out
}

// rivals reports whether a world cannot be told from the best one. What a rank would have shown that was not seen is open by its nature.
func (s *search) rivals(best, f *Fit) bool {
	if best.last().Kind == Unseen || f.last().Kind == Unseen {
		return f.Nats > best.Nats-nearUnseen
	}
	return f.Nats > best.Nats-near && f.rank() > best.rank()-near
}

// elsewhere is how much better the ranks of other hosts are explained with a fault than without it, in nats.
func (s *search) elsewhere(f Fault, others []Fault) float64 {
	host := s.world.Index.Host(f.A)
	here := map[int32]float64{} // Nodes of its host, by the node at which their letters are read.
	if host != "" {
		for _, n := range s.world.Index.Mates[host] {
			here[s.world.StandsFor(n)]++
		}
	}
	sum := func(faults []Fault) (sum float64) {
		s.world.become(faults)
		s.world.each(func(t Term) {
			sum += t.Nats * (1 - here[t.Node]/float64(t.Of))
		})
		return sum
	}
	return sum(append(slices.Clone(others), f)) - sum(others)
}

// of scores a world of faults.
func (s *search) of(faults []Fault) Fit {
	s.world.become(faults)
	return s.fit()
}

// fit gives the world as it is, with its score.
func (s *search) fit() Fit {
	got := s.world.score()
	return Fit{Faults: slices.Clone(s.world.Faults), Nats: got.nats - s.base + priors(s.world.Job, s.world.Faults), Open: int(got.open)}
}

// priors sums how rare the faults are.
func priors(j *observe.Job, fs []Fault) (sum float64) {
	for i, f := range fs {
		sum += prior[f.Kind]
		if f.Kind != Liar && slices.ContainsFunc(fs[:i], func(g Fault) bool { return g.Kind != Liar }) {
			sum += another
		}
		host := j.Index.Host(f.A)
		if f.Kind == NIC && host != "" && slices.ContainsFunc(fs[:i], func(g Fault) bool { return g.Kind == f.Kind && j.Index.Host(g.A) == host }) {
			sum += beside
		}
	}
	return sum
}

// unexplained gives the candidates at nodes where these faults explain something badly, and near those: only there can one more pay.
func (s *search) unexplained(faults []Fault) []Fault {
	if len(faults) == 0 {
		return slices.Clone(s.all)
	}
	w, bad := s.world, map[int32]bool{}
	w.become(faults)
	w.each(func(t Term) {
		if !t.bad() {
			return
		}
		for _, n := range w.Alike(t.Node) {
			bad[n] = true
		}
		if t.Part < 0 {
			return
		}
		if t.Flow >= 0 {
			if q := w.Parts[t.Part].Flows[t.Flow].Peer; q >= 0 {
				bad[w.Parts[q].Node] = true
			}
		}
		if in := &w.Operations[w.Parts[t.Part].Operation]; in.Size <= mostRanks {
			for _, q := range in.Parts {
				bad[w.Parts[q].Node] = true
			}
		}
	})
	for _, f := range w.Facts {
		for _, n := range f.Nodes {
			bad[n] = bad[n] || bad[f.Nodes[0]]
		}
	}
	return slices.DeleteFunc(slices.Clone(s.all), func(f Fault) bool {
		return !slices.ContainsFunc(w.at(f), func(n int32) bool { return bad[n] })
	})
}
