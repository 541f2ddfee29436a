// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"fmt"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

func withStages(w *workload) bool { return w.job.PP > 1 }

func withExperts(w *workload) bool { return w.job.EP > 1 }

// slows are the scenarios in which the job runs on, slower. Severities are those of Pulse's table 4 where it has them;
// quick keeps one severity of each.
func slows(quick bool) []scenario {
	var out []scenario
	add := func(kind cluster.FaultKind, needs func(*workload) bool, remaining []float64, delay ...time.Duration) {
		if quick {
			remaining = remaining[len(remaining)/2 : len(remaining)/2+1]
		}
		for i, r := range remaining {
			d := time.Duration(0)
			if len(delay) > 0 {
				d = delay[min(i, len(delay)-1)]
			}
			out = append(out, slow(kind, fmt.Sprintf("%g%%", 100*r), r, d, needs))
		}
	}
	half := []float64{0.5, 0.4, 0.3, 0.2}
	add(cluster.NICBandwidth, overNetwork, half)
	add(cluster.LinkFlap, overNetwork, []float64{0.2, 0.5})
	add(cluster.SwitchPortSlow, overNetwork, []float64{0.5, 0.25})
	add(cluster.Congestion, overNetwork, []float64{0.5, 0.4, 0.3, 0.2})
	add(cluster.PCIeDowngrade, overNetwork, half)
	add(cluster.PCIeContention, overNetwork, half)
	add(cluster.CrossNUMA, overNetwork, []float64{0.5})
	add(cluster.Misalignment, overNetwork, []float64{0.4})
	add(cluster.GPUThrottle, training, []float64{0.75, 0.68, 0.6, 0.5})
	add(cluster.BackgroundCompute, training, []float64{0.6})
	add(cluster.NVLinkError, func(w *workload) bool { return withNVLink(w) && training(w) }, []float64{0.1})
	add(cluster.CPUContention, overNetwork, []float64{0.3, 0.1}, 60*time.Microsecond, 200*time.Microsecond)
	add(cluster.CPUThrottle, overNetwork, []float64{0.4}, 15*time.Microsecond)
	add(cluster.ProxyDelay, overNetwork, []float64{0.9995}, 300*time.Millisecond)
	add(cluster.SlowData, training, []float64{0}, 900*time.Millisecond)
	out = append(out, uneven(cluster.ExpertImbalance, "from the start", 0.5, 0, withExperts),
		uneven(cluster.ExpertImbalance, "sudden", 0.35, 6, withExperts),
		uneven(cluster.StageImbalance, "from the start", 0.7, 0, withStages),
		uneven(cluster.StageImbalance, "sudden", 0.7, 6, withStages))
	add(cluster.GlobalSlow, training, []float64{0.75})
	add(cluster.GlobalNetwork, overNetwork, []float64{0.3})
	if !quick {
		// Holmes' three shapes of irregularity: spikes, fluctuation; the rest is persistent degradation.
		out = append(out, shaped("spikes", cluster.GPUThrottle, 0.3, 25*time.Second, 4*time.Second, training),
			shaped("fluctuation", cluster.GPUThrottle, 0.6, 10*time.Second, 5*time.Second, training),
			shaped("spikes", cluster.NICBandwidth, 0.1, 25*time.Second, 4*time.Second, overNetwork),
			shaped("fluctuation", cluster.NICBandwidth, 0.2, 10*time.Second, 5*time.Second, overNetwork))
	}
	return out
}

func slow(kind cluster.FaultKind, severity string, remaining float64, delay time.Duration, needs func(*workload) bool) scenario {
	return scenario{
		name: string(kind), group: "slow", severity: severity, needs: needs,
		faults: func(d *dice) []cluster.Fault {
			r := d.rank()
			return []cluster.Fault{{Kind: kind, Rank: r, Peer: d.nextHost(r), At: d.when(), Remaining: remaining, Delay: delay}}
		},
	}
}

// uneven is work that is badly shared out, from an iteration on: nobody's machine is bad.
func uneven(kind cluster.FaultKind, severity string, remaining float64, from int, needs func(*workload) bool) scenario {
	return scenario{
		name: string(kind), group: "slow", severity: severity, needs: needs,
		faults: func(d *dice) []cluster.Fault {
			return []cluster.Fault{{Kind: kind, Rank: d.rank(), FromIteration: from, Remaining: remaining}}
		},
	}
}

func shaped(shape string, kind cluster.FaultKind, remaining float64, every, lasting time.Duration, needs func(*workload) bool) scenario {
	return scenario{
		name: string(kind), group: "slow", severity: shape, needs: needs,
		faults: func(d *dice) []cluster.Fault {
			return []cluster.Fault{{Kind: kind, Rank: d.rank(), At: d.when(), Every: every, For: lasting, Remaining: remaining}}
		},
	}
}
