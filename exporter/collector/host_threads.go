// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// reducedClock is below which share of what the hardware offers a limit of the CPUs' frequency is evidence.
const reducedClock = 0.85

var (
	hostRunDelayDesc = hostDesc("thread_run_delay_ratio",
		"Share of time in which a rank's NCCL threads were ready to run and got no CPU, mean over the threads of a role.", "job_id", "owner", "rank", "role")
	hostAllowedDesc = hostDesc("thread_allowed_cpus",
		"CPUs that a rank's NCCL threads may run on, of the thread that has fewest.", "job_id", "owner", "rank", "role")
)

// threads exports how the threads that drive NCCL are treated, by their role.
func (h *Host) threads(emit func(prometheus.Metric)) {
	type key struct {
		job, owner string
		rank       int32
		role       string
	}
	type sum struct {
		delay   float64
		threads int
		fewest  int
	}
	sums := map[key]*sum{}
	for _, r := range h.ranks.Ranks() {
		for _, th := range r.Threads {
			k := key{r.JobID, r.Owner, r.Rank, th.Role}
			s := sums[k]
			if s == nil {
				s = &sum{}
				sums[k] = s
			}
			s.delay += th.RunDelayFrac
			s.threads++
			if th.CPUCount > 0 && (s.fewest == 0 || th.CPUCount < s.fewest) {
				s.fewest = th.CPUCount
			}
		}
	}
	for k, s := range sums {
		rank := strconv.Itoa(int(k.rank))
		emit(prometheus.MustNewConstMetric(hostRunDelayDesc, prometheus.GaugeValue, s.delay/float64(s.threads), k.job, k.owner, rank, k.role))
		if s.fewest > 0 {
			emit(prometheus.MustNewConstMetric(hostAllowedDesc, prometheus.GaugeValue, float64(s.fewest), k.job, k.owner, rank, k.role))
		}
	}
}

// crowded tells of ranks whose NCCL threads starve on CPUs that they share with more of their kind than there are CPUs.
// Many threads on few CPUs alone are no harm: most sleep.
func crowded(ranks []node.RankRef) []nodeapi.Fact {
	type set struct{ threads, cpus int }
	sets := map[string]set{}
	for _, r := range ranks {
		for _, th := range r.Threads {
			if th.CPUCount > 0 {
				sets[th.CPUs] = set{sets[th.CPUs].threads + 1, th.CPUCount}
			}
		}
	}
	var facts []nodeapi.Fact
	for _, r := range ranks {
		if r.RunDelay < runDelayFact {
			continue
		}
		for _, th := range r.Threads {
			if s := sets[th.CPUs]; s.threads > s.cpus {
				facts = append(facts, nodeapi.Fact{
					Component: "cpu", Kind: "cpu_affinity", Value: float64(s.threads), Expected: float64(s.cpus), Unit: "threads", Rank: r.Rank,
					Text: fmt.Sprintf("%d NCCL threads may only run on CPU %s, and this rank's wait %.0f%% of the time", s.threads, th.CPUs, 100*r.RunDelay),
				})
				break
			}
		}
	}
	return facts
}

// frequencyLimit gives the frequency that is allowed, and what the hardware offers, of the CPU that is allowed least of it,
// in hertz; false where there is no cpufreq.
func (h *Host) frequencyLimit() (limit, offered float64, ok bool) {
	for _, cpu := range h.sys.Glob("devices/system/cpu/cpu[0-9]*") {
		allowed, err := h.sys.Uint(cpu, "cpufreq", "scaling_max_freq")
		if err != nil {
			continue
		}
		highest, err := h.sys.Uint(cpu, "cpufreq", "cpuinfo_max_freq")
		if err != nil || highest == 0 {
			continue
		}
		if !ok || float64(allowed)/float64(highest) < limit/offered {
			limit, offered, ok = 1000*float64(allowed), 1000*float64(highest), true
		}
	}
	return limit, offered, ok
}

// throttles sums up how often cores were slowed down because of heat.
func (h *Host) throttles() (sum uint64, ok bool) {
	for _, cpu := range h.sys.Glob("devices/system/cpu/cpu[0-9]*") {
		if n, err := h.sys.Uint(cpu, "thermal_throttle", "core_throttle_count"); err == nil {
			sum, ok = sum+n, true
		}
	}
	return sum, ok
}

// clockFacts tells of CPUs that are kept from their frequency. That they are slow while idle is no evidence.
func (h *Host) clockFacts(facts []nodeapi.Fact, now time.Time) []nodeapi.Fact {
	if limit, offered, ok := h.frequencyLimit(); ok && limit < reducedClock*offered {
		facts = append(facts, nodeapi.Fact{
			Component: "cpu", Kind: "cpu_clock_reduced", Value: limit / 1e6, Expected: offered / 1e6, Unit: "MHz", Rank: -1,
			Text: "the CPUs' frequency is limited",
		})
	}
	if n, ok := h.throttles(); ok {
		facts = h.counts.fact(facts, "cpu heat", n, now, nodeapi.Fact{Component: "cpu", Kind: "cpu_thermal_throttle", Rank: -1})
	}
	return facts
}
