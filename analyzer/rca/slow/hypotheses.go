// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// symptom is an observation that a job is slow. Several rows may explain one; the first that does is the most specific one, and holds.
type symptom string

const (
	ownExcess    symptom = "own_excess"
	ownGrowth    symptom = "own_growth"
	unevenCut    symptom = "stages_differ"
	unevenLoad   symptom = "load_rotates"
	transferTime symptom = "transfers"
	longerForAll symptom = "onset"
	longSpells   symptom = "spells"
)

// hypothesis is one reason why a job may be slow: a row of the table.
type hypothesis struct {
	name    string
	symptom symptom
	class   rca.Class
	cause   rca.Cause // What the node says of a rank may tell more.
	// needs says that the evidence can show it.
	needs func(*analysis) bool
	// explain looks in the row's window for the ranks or the group, and for what their removal gains.
	explain func(*analysis) (finding, bool)
	window  window
}

// window is the part of the job's finished work that a row looks at.
type window uint8

const (
	sinceOnset window = iota // The iterations since the job became slower; all of them where it did not while watched.
	inSpells                 // Of all iterations those that took longer than usual, beside the usual ones.
)

// hypotheses is the table. To look for another cause is to add a row here and a test of it.
var hypotheses = []hypothesis{
	{"stage_beyond_others", ownExcess, rca.Imbalance, rca.CauseStage, (*analysis).seesWork, suspected(againstPeers, (*analysis).stageBeyondPeers), sinceOnset},
	{"experts_beyond_others", ownExcess, rca.Imbalance, rca.CauseRouting, (*analysis).seesWork, suspected(againstPeers, (*analysis).experts), sinceOnset},
	{"rank_beyond_peers", ownExcess, rca.SlowCompute, rca.CauseGPU, (*analysis).repeats, suspected(againstPeers, (*analysis).rankBeyondPeers), sinceOnset},
	{"stage_beyond_past", ownGrowth, rca.Imbalance, rca.CauseStage, (*analysis).seesWork, suspected(againstPast, (*analysis).stageBeyondPast), sinceOnset},
	{"experts_beyond_past", ownGrowth, rca.Imbalance, rca.CauseRouting, (*analysis).seesWork, suspected(againstPast, (*analysis).experts), sinceOnset},
	{"rank_beyond_past", ownGrowth, rca.SlowCompute, rca.CauseGPU, (*analysis).seesWork, suspected(againstPast, (*analysis).rankBeyondPast), sinceOnset},
	{"uneven_stages", unevenCut, rca.Imbalance, rca.CauseStage, (*analysis).seesStages, (*analysis).stage, sinceOnset},
	{"rotating_load", unevenLoad, rca.Imbalance, rca.CauseData, (*analysis).seesWork, (*analysis).rotating, sinceOnset},
	{"network_place", transferTime, rca.SlowComm, rca.CauseNetworkSend, (*analysis).losesInTransfers, (*analysis).slowPlace, sinceOnset},
	{"late_thread", transferTime, rca.SlowComm, rca.CauseProxy, (*analysis).losesInTransfers, (*analysis).lateHandingOn, sinceOnset},
	{"gpu_of_slow_group", transferTime, rca.SlowComm, rca.CauseGPU, (*analysis).seesSlowGroups, (*analysis).ailingInSlowGroups, sinceOnset},
	{"most_groups", transferTime, rca.GlobalSlow, rca.CauseUnknown, (*analysis).seesSlowGroups, (*analysis).mostGroups, sinceOnset},
	{"slow_group", transferTime, rca.SlowComm, rca.CauseUnknown, (*analysis).seesSlowGroups, (*analysis).slowGroup, sinceOnset},
	{"gpu_inside_host", transferTime, rca.SlowComm, rca.CauseGPU, (*analysis).hasPast, (*analysis).insideHost, sinceOnset},
	{"throttled_gpu", longerForAll, rca.SlowCompute, rca.CauseGPU, (*analysis).slowerUnseen, (*analysis).throttledGPU, sinceOnset},
	{"whole_host_computes", longerForAll, rca.SlowCompute, rca.CauseUnknown, (*analysis).becameSlower, (*analysis).ailingHost, sinceOnset},
	{"everybody_computes", longerForAll, rca.GlobalSlow, rca.CauseUnknown, (*analysis).becameSlower, (*analysis).allCompute, sinceOnset},
	{"everybody_sends", longerForAll, rca.GlobalSlow, rca.CauseUnknown, (*analysis).becameSlower, (*analysis).allSend, sinceOnset},
	{"everybody_slower", longerForAll, rca.GlobalSlow, rca.CauseUnknown, (*analysis).becameSlower, (*analysis).allSlower, sinceOnset},
	{"network_place_in_spells", longSpells, rca.SlowComm, rca.CauseNetworkSend, (*analysis).unpaused, (*analysis).placeInSpells, inSpells},
}

// suspected is an explanation of ranks that stand out.
func suspected(who func(*analysis) *suspects, explain func(*analysis, *suspects) (finding, bool)) func(*analysis) (finding, bool) {
	return func(a *analysis) (finding, bool) {
		if s := who(a); s != nil {
			return explain(a, s)
		}
		return finding{}, false
	}
}

// finding is one explanation of why iterations take as long as they do, with what its removal would gain.
type finding struct {
	rule    string // The row that found it; within the network, the row of its place too.
	symptom symptom
	class   rca.Class
	cause   rca.Cause
	nodes   []int32 // Accused ranks; none for findings that accuse nobody.
	ends    []int32 // Ranks at both ends of a link: either may be the culprit.
	group   string  // Link, stage or group, where no rank is meant.
	gain    float64 // Length over length without it.
	times   float64 // By what factor the transfers of a place, or of communicators, take longer; 0 where it is neither.
	// weight is how much of what is seen it explains, less what its scope costs: many ranks, both ends of a link, a path.
	weight float64
	score  float64 // By which explanations are ranked.
	what   string  // For the summary, after the names.
	mode   string  // persistent, intermittent, fluctuating (H7).
	once   bool    // In one iteration alone.
	// assumed: what its removal gains was not replayed. That it accounts for all of the slowdown follows from there being nothing else.
	assumed bool
	// onePlace: a stage that is one rank or one host. No other machine does its work, so that a slow machine looks like an uneven cut.
	onePlace bool
	end      end // Which side of the flows of its nodes is slow.
	// against gives who is accused and who they are compared with, to tell it from chance; nil nothing is compared.
	against func(*analysis, *finding) *comparison
	certain bool // A place in the network that is sure to be the reason; it is between its ends that the weight is torn.
	comm    string
	lane    int // Channel, -1 none.
}

// findings gives every explanation that would gain something, best first.
func (a *analysis) findings() []finding {
	var out []finding
	for _, h := range hypotheses {
		answered := slices.ContainsFunc(out, func(f finding) bool { return f.symptom == h.symptom })
		if answered || a.Opt.Without == h.name || !h.needs(a) {
			continue
		}
		looked := a
		if h.window == inSpells {
			if slices.ContainsFunc(out, func(f finding) bool { return f.tells() && !a.leavesMost(&f) }) {
				continue // Spells are looked at only where the iterations as a whole show no culprit, or one that accounts for little.
			}
			looked = a.overall()
		}
		f, ok := h.explain(looked)
		if !ok {
			continue
		}
		f.rule, f.symptom = h.name+pick(f.rule == "", "", "/")+f.rule, h.symptom
		f.class, f.cause = cmp.Or(f.class, h.class), cmp.Or(f.cause, h.cause)
		out = append(out, f)
	}
	return a.ranked(out)
}

// ranked sorts explanations by their scores: what removing it wins back, times how much it explains for what its scope costs. To blame
// everybody has the largest scope: that everybody got slower follows from one's getting slower, too. It therefore costs what it has
// before a local explanation that accounts for it. So does what is only assumed, before one that was replayed.
func (a *analysis) ranked(fs []finding) []finding {
	for i := range fs {
		f := &fs[i]
		f.score = (f.gain - 1) * f.weight
	}
	for i := range fs {
		for k := range fs {
			if broad, local := &fs[i], &fs[k]; a.accountsFor(local, broad) {
				broad.score = min(broad.score, local.score)
			}
		}
	}
	slices.SortStableFunc(fs, func(x, y finding) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(pick(x.broad(), 1, 0), pick(y.broad(), 1, 0)))
	})
	return fs
}

func (f *finding) global() bool { return f.class == rca.GlobalSlow }

// broad reports whether an explanation gains what the whole job lost because it is about everybody, or is assumed to.
func (f *finding) broad() bool { return f.global() || f.assumed }

// accountsFor reports whether a broad explanation follows from a local one: it wins back half as much time or, where it was not seen to be
// everybody alike, a tenth. Less is enough where not all ranks that wait for it were seen.
func (a *analysis) accountsFor(local, everybody *finding) bool {
	enough, sure := localGain, placed
	if a.visitedRanks() < a.World {
		enough, sure = localGainUnseen, placedUnseen
	}
	if !everybody.broad() || local.broad() || local.weight < sure && !local.certain {
		return false
	}
	return shorter(local.gain) >= localShare*shorter(everybody.gain) || everybody.weight < evenly && local.gain >= enough
}

// tells reports whether an explanation is sure enough to look no further.
func (f *finding) tells() bool { return f.weight >= pick(f.global(), evenly, placed) }

// What the rows need.

func (a *analysis) repeats() bool      { return a.now.iters >= 2 }
func (a *analysis) seesWork() bool     { return a.repeats() && !a.startsUnseen() }
func (a *analysis) seesStages() bool   { return a.seesWork() && a.pipelined() && a.now.roles >= 2 }
func (a *analysis) hasPast() bool      { return a.past != nil }
func (a *analysis) becameSlower() bool { return a.hasPast() && a.onset >= a.Opt.IrregularFactor }
func (a *analysis) slowerUnseen() bool {
	return a.becameSlower() && a.startsUnseen() && a.visitedRanks() >= a.World
}
func (a *analysis) unpaused() bool { return a.paused == nil }

// losesInTransfers reports whether shorter transfers would gain something.
func (a *analysis) losesInTransfers() bool { return a.transfers().gain >= leastGain }

// seesSlowGroups reports whether communicators' transfers are longer than their peers', by their kernels.
func (a *analysis) seesSlowGroups() bool {
	return a.losesInTransfers() && len(a.base.slowComm) > 0 && !a.startsUnseen()
}
