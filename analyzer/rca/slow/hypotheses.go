// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// symptom is what shows that a job is slow. Several rows may explain one; the first that does, the most specific one, speaks for it.
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
	// explain finds whom or what it would be, with what the removal gains; before is what rows above have found.
	explain func(a *analysis, before []finding) (finding, bool)
}

// hypotheses is the table. To look for another cause is to add a row here and a test of it.
var hypotheses = []hypothesis{
	{"stage_beyond_others", ownExcess, rca.Imbalance, rca.CauseStage, (*analysis).seesWork, suspected(againstPeers, (*analysis).stageBeyondPeers)},
	{"experts_beyond_others", ownExcess, rca.Imbalance, rca.CauseRouting, (*analysis).seesWork, suspected(againstPeers, (*analysis).experts)},
	{"rank_beyond_peers", ownExcess, rca.SlowCompute, rca.CauseGPU, (*analysis).repeats, suspected(againstPeers, (*analysis).rankBeyondPeers)},
	{"stage_beyond_past", ownGrowth, rca.Imbalance, rca.CauseStage, (*analysis).seesWork, suspected(againstPast, (*analysis).stageBeyondPast)},
	{"experts_beyond_past", ownGrowth, rca.Imbalance, rca.CauseRouting, (*analysis).seesWork, suspected(againstPast, (*analysis).experts)},
	{"rank_beyond_past", ownGrowth, rca.SlowCompute, rca.CauseGPU, (*analysis).seesWork, suspected(againstPast, (*analysis).rankBeyondPast)},
	{"uneven_stages", unevenCut, rca.Imbalance, rca.CauseStage, (*analysis).seesStages, alone((*analysis).stage)},
	{"rotating_load", unevenLoad, rca.Imbalance, rca.CauseData, (*analysis).seesWork, (*analysis).rotating},
	{"network_place", transferTime, rca.SlowComm, rca.CauseNetworkSend, (*analysis).losesInTransfers, alone((*analysis).slowPlace)},
	{"late_thread", transferTime, rca.SlowComm, rca.CauseProxy, (*analysis).losesInTransfers, alone((*analysis).lateHandingOn)},
	{"gpu_of_slow_group", transferTime, rca.SlowComm, rca.CauseGPU, (*analysis).seesSlowGroups, alone((*analysis).ailingInSlowGroups)},
	{"most_groups", transferTime, rca.GlobalSlow, rca.CauseUnknown, (*analysis).seesSlowGroups, alone((*analysis).mostGroups)},
	{"slow_group", transferTime, rca.SlowComm, rca.CauseUnknown, (*analysis).seesSlowGroups, alone((*analysis).slowGroup)},
	{"gpu_inside_host", transferTime, rca.SlowComm, rca.CauseGPU, (*analysis).hasPast, alone((*analysis).insideHost)},
	{"whole_host_computes", longerForAll, rca.SlowCompute, rca.CauseUnknown, (*analysis).becameSlower, alone((*analysis).ailingHost)},
	{"everybody_computes", longerForAll, rca.GlobalSlow, rca.CauseUnknown, (*analysis).becameSlower, alone((*analysis).allCompute)},
	{"everybody_sends", longerForAll, rca.GlobalSlow, rca.CauseUnknown, (*analysis).becameSlower, alone((*analysis).allSend)},
	{"everybody_slower", longerForAll, rca.GlobalSlow, rca.CauseUnknown, (*analysis).becameSlower, alone((*analysis).allSlower)},
	{"network_place_in_spells", longSpells, rca.SlowComm, rca.CauseNetworkSend, (*analysis).unpaused, (*analysis).slowInSpells},
}

// alone is an explanation that asks nothing of the rows above.
func alone(explain func(*analysis) (finding, bool)) func(*analysis, []finding) (finding, bool) {
	return func(a *analysis, _ []finding) (finding, bool) { return explain(a) }
}

// suspected is an explanation of ranks that stand out.
func suspected(who func(*analysis) *suspects, explain func(*analysis, *suspects) (finding, bool)) func(*analysis, []finding) (finding, bool) {
	return func(a *analysis, _ []finding) (finding, bool) {
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
	ends    []int32 // Ranks of which one or the other may be meant, where it is a link.
	group   string  // Link, stage or group, where no rank is meant.
	gain    float64 // Length over length without it.
	times   float64 // By what factor transfers of a place are outstanding longer; 0 where it is no place in the network.
	// weight is how much of what is seen it explains, less what its scope costs: many ranks, both ends of a link, a path.
	weight float64
	what   string // For the summary, after the names.
	mode   string // persistent, intermittent, fluctuating (H7).
	once   bool   // In one iteration alone.
	rare   bool   // In spikes, or seen a few times only.
	link   bool   // A place in the network that is sure to be the reason; it is between its ends that the weight is torn.
	comm   string
	lane   int // Channel, -1 none.
}

// score ranks explanations: what removing it wins back, times how much it explains for what its scope costs.
func (f *finding) score() float64 { return (f.gain - 1) * f.weight }

// findings gives every explanation that would gain something, best first.
func (a *analysis) findings() []finding {
	var out []finding
	for _, h := range hypotheses {
		answered := slices.ContainsFunc(out, func(f finding) bool { return f.symptom == h.symptom })
		if answered || !h.needs(a) {
			continue
		}
		f, ok := h.explain(a, out)
		if !ok {
			continue
		}
		f.rule, f.symptom = h.name+pick(f.rule == "", "", "/")+f.rule, h.symptom
		f.class, f.cause = cmp.Or(f.class, h.class), cmp.Or(f.cause, h.cause)
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(x, y finding) int { return cmp.Compare(y.score(), x.score()) })
	return a.localFirst(out)
}

// localFirst: that everybody got slower follows from one rank's getting slower, too. A local explanation that accounts
// for half of it comes first; where it was not seen to be everybody alike, one that gains a tenth does, or, where those who
// wait for it were not all seen, half of that.
func (a *analysis) localFirst(fs []finding) []finding {
	enough, sure := localGain, placed
	if a.visitedRanks() < a.World {
		enough, sure = localGainUnseen, placedUnseen
	}
	if len(fs) < 2 || fs[0].class != rca.GlobalSlow {
		return fs
	}
	for i := range fs {
		f := &fs[i]
		if f.class == rca.GlobalSlow || f.weight < sure && !f.link {
			continue
		}
		if f.gain-1 >= localShare*(fs[0].gain-1) || fs[0].weight < evenly && f.gain >= enough {
			local := *f
			return append([]finding{local}, slices.Delete(slices.Clone(fs), i, i+1)...)
		}
	}
	return fs
}

// What the rows need.

func (a *analysis) repeats() bool      { return a.now.iters >= 2 }
func (a *analysis) seesWork() bool     { return a.repeats() && !a.startsUnseen() }
func (a *analysis) seesStages() bool   { return a.seesWork() && a.pipelined() && a.now.roles >= 2 }
func (a *analysis) hasPast() bool      { return a.past != nil }
func (a *analysis) becameSlower() bool { return a.hasPast() && a.onset >= a.Opt.IrregularFactor }
func (a *analysis) unpaused() bool     { return a.paused == nil }

// losesInTransfers says that shorter transfers would gain something.
func (a *analysis) losesInTransfers() bool { return a.transfers().gain >= leastGain }

// seesSlowGroups says that communicators' transfers are longer than their peers', by their kernels.
func (a *analysis) seesSlowGroups() bool {
	return a.losesInTransfers() && len(a.base.slowComm) > 0 && !a.startsUnseen()
}
