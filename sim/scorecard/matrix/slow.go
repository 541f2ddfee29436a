// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

func withStages(w *workload) bool { return w.job.PP > 1 }

func withExperts(w *workload) bool { return w.job.EP > 1 }

func computing(w *workload) bool { return training(w) && overNetwork(w) }

// degree is one severity of a fault.
type degree struct {
	label     string
	remaining float64
	delay     time.Duration
}

// HalfSeverity is the label of a resource that is left with half: the severity the design's floor on slowness is set at.
const HalfSeverity = "50%"

// left are severities by what remains of the resource.
func left(shares ...float64) []degree {
	out := make([]degree, len(shares))
	for i, r := range shares {
		out[i] = degree{label: fmt.Sprintf("%g%%", 100*r), remaining: r}
	}
	return out
}

// pulseShares are the remaining shares of Pulse's table 4 for PCIe downgrade; contention and congestion there occupy, or
// reduce to, 50% to 80%, which brackets the same range.
var pulseShares = left(0.5, 0.4, 0.3, 0.2)

// slows are the scenarios in which the job runs on, slower. The severity is what is left of the resource, or the paper's
// own words. The quick matrix runs the first severity of each fault, and the last on the workloads of the papers' cases.
func slows(quick bool) []scenario {
	var out []scenario
	add := func(kind cluster.FaultKind, needs func(*workload) bool, degrees ...degree) {
		for i, d := range degrees {
			needs := needs
			if quick && i > 0 {
				if i < len(degrees)-1 {
					continue
				}
				usual := needs
				needs = func(w *workload) bool { return usual(w) && ofPapers(kind, w.name) }
			}
			sc := slow(kind, d, needs)
			switch {
			case i == 0:
				sc.at = first
			case i == len(degrees)-1 && d.remaining < degrees[0].remaining:
				sc.at = harshest
			default:
				sc.at = between
			}
			out = append(out, sc)
		}
	}
	add(cluster.NICBandwidth, overNetwork, pulseShares...)
	add(cluster.LinkFlap, overNetwork, left(0.5, 0.2)...) // Of every second the link is down so much.
	add(cluster.SwitchPortSlow, overNetwork, left(0.5, 0.25)...)
	add(cluster.Congestion, overNetwork, pulseShares...)
	add(cluster.PCIeDowngrade, overNetwork, pulseShares...)
	add(cluster.PCIeContention, overNetwork, pulseShares...)
	add(cluster.CrossNUMA, overNetwork, left(0.5, 0.25)...)
	add(cluster.Misalignment, overNetwork, left(0.5, 0.4)...)
	// Pulse limits the power of 700 W GPUs; the clocks that remain are ours. At 200 W the clock is half.
	add(cluster.GPUThrottle, training, degree{HalfSeverity, 0.5, 0}, degree{"250 W", 0.6, 0}, degree{"300 W", 0.68, 0}, degree{"350 W", 0.75, 0})
	add(cluster.BackgroundCompute, computing, left(0.5, 0.6)...)
	add(cluster.NVLinkError, func(w *workload) bool { return withNVLink(w) && training(w) }, left(0.5, 0.1)...)
	add(cluster.CPUContention, overNetwork, degree{"100% of cores", 0.1, 200 * time.Microsecond}, degree{"90% of cores", 0.3, 60 * time.Microsecond})
	// Pulse has the governor at powersave with an effect like that of contention (appendix D.3): a slow clock, and late wakes.
	add(cluster.CPUThrottle, overNetwork, degree{"powersave", 0.25, 100 * time.Microsecond})
	// Mycroft sleeps a second with a chance of 1e-6 at each call of the proxy's loop, which turns every few microseconds:
	// about one sleep in several seconds. Here the chance is per network step.
	add(cluster.ProxyDelay, overNetwork, degree{"rare sleeps of 1 s", 1 - 1e-4, time.Second}, degree{"sleeps of 300 ms", 0.9995, 300 * time.Millisecond})
	add(cluster.SlowData, training, degree{"0.9 s an iteration", 0, 900 * time.Millisecond})
	out = append(out, uneven(cluster.ExpertImbalance, fromStart, 0.5, 0, withExperts),
		uneven(cluster.ExpertImbalance, "sudden", 0.35, sudden, withExperts),
		uneven(cluster.StageImbalance, fromStart, 0.7, 0, withStages),
		uneven(cluster.StageImbalance, "sudden", 0.7, sudden, withStages))
	// Slow from the first step: no past is better, and nothing but the look at each new job triggers.
	out = append(out, lasting(cluster.GPUThrottle, 0.5, training), lasting(cluster.NICBandwidth, 0.25, overNetwork))
	add(cluster.GlobalSlow, training, left(0.75)...)
	add(cluster.GlobalNetwork, manyPaths, left(0.3)...)
	if !quick {
		// Holmes' three shapes of irregularity: spikes, fluctuation; the rest is persistent degradation.
		out = append(out, shaped(Spikes, cluster.GPUThrottle, 0.3, 25*time.Second, 4*time.Second, training),
			shaped(Fluctuation, cluster.GPUThrottle, 0.6, 10*time.Second, 5*time.Second, training),
			shaped(Spikes, cluster.NICBandwidth, 0.1, 25*time.Second, 4*time.Second, overNetwork),
			shaped(Fluctuation, cluster.NICBandwidth, 0.2, 10*time.Second, 5*time.Second, overNetwork))
	}
	return out
}

// sudden is the iteration from which sudden imbalance holds: late enough for the triggers to know what is usual.
const sudden = 22

// fromStart is the severity of what holds from the first step of the job on.
const fromStart = "from the start"

// Holmes' shapes that are not persistent.
const (
	Spikes      = "spikes"
	Fluctuation = "fluctuation"
)

// ofPapers tells whether Mycroft or Pulse has a fault on a workload.
func ofPapers(kind cluster.FaultKind, workload string) bool {
	return slices.ContainsFunc(slices.Concat(MycroftCases(), PulseCases()), func(p PaperCase) bool {
		return slices.Contains(p.Kinds, kind) && slices.Contains(p.Workloads, workload)
	})
}

func slow(kind cluster.FaultKind, g degree, needs func(*workload) bool) scenario {
	return scenario{
		name: string(kind), group: GroupSlow, severity: g.label, needs: needs,
		faults: func(d *dice) []cluster.Fault {
			r := d.rank()
			return []cluster.Fault{{Kind: kind, Rank: r, Peer: d.nextHost(r), At: d.whenKnown(), Remaining: g.remaining, Delay: g.delay}}
		},
	}
}

// uneven is work that is badly shared out, from an iteration on: nobody's machine is bad.
func uneven(kind cluster.FaultKind, severity string, remaining float64, from int, needs func(*workload) bool) scenario {
	return scenario{
		name: string(kind), group: GroupSlow, severity: severity, needs: needs,
		faults: func(d *dice) []cluster.Fault {
			return []cluster.Fault{{Kind: kind, Rank: d.rank(), FromIteration: from, Remaining: remaining}}
		},
	}
}

// lasting is a machine that is bad from the first step of the job on.
func lasting(kind cluster.FaultKind, remaining float64, needs func(*workload) bool) scenario {
	return scenario{
		name: string(kind), group: GroupSlow, severity: fromStart, needs: needs, at: between,
		faults: func(d *dice) []cluster.Fault {
			return []cluster.Fault{{Kind: kind, Rank: d.rank(), Remaining: remaining}}
		},
	}
}

func shaped(shape string, kind cluster.FaultKind, remaining float64, every, lasting time.Duration, needs func(*workload) bool) scenario {
	return scenario{
		name: string(kind), group: GroupSlow, severity: shape, at: between, needs: needs,
		faults: func(d *dice) []cluster.Fault {
			return []cluster.Fault{{Kind: kind, Rank: d.rank(), At: d.whenKnown(), Every: every, For: lasting, Remaining: remaining}}
		},
	}
}
