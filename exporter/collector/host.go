// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// When the host's CPUs count as evidence: tasks wait for a CPU for at least this share of the time, and so do the
// rank's own NCCL threads. Either alone is usual on a busy host.
const (
	cpuPressureFact = 0.5
	runDelayFact    = 0.3
)

// freshFact is for how long something that was counted stays evidence.
const freshFact = 5 * time.Minute

// Ranks names the ranks on the node: a node.Sampler.
type Ranks interface {
	Ranks() []node.RankRef
}

// Host exports what the kernel says of the node's CPUs and memory.
type Host struct {
	proc, sys sysfile.Root
	ranks     Ranks
	now       func() time.Time

	mu     sync.Mutex
	counts changes

	placesMu   sync.Mutex
	placesRead *numa
	placesAt   time.Time
}

// NewHost makes the host collector.
func NewHost(proc, sys sysfile.Root, ranks Ranks) *Host {
	return &Host{proc: proc, sys: sys, ranks: ranks, now: time.Now, counts: changes{}}
}

func hostDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("culprit_host_"+name, help, labels, nil)
}

var (
	pressureDesc = map[string][2]*prometheus.Desc{}

	hostCPUDesc = hostDesc("cpu_seconds_total",
		"Time the CPUs spent, summed over all, by mode.", "mode")
	hostCPUsDesc = hostDesc("cpus",
		"CPUs that are online.")
	hostGovernorDesc = hostDesc("cpu_governor_cpus",
		"CPUs by the frequency governor that steers them.", "governor")
	hostFrequencyDesc = hostDesc("cpu_frequency_hertz",
		"Present frequency, mean over all CPUs.")
	hostMaxFrequencyDesc = hostDesc("cpu_max_frequency_hertz",
		"Highest frequency that the hardware offers.")
	hostFrequencyLimitDesc = hostDesc("cpu_frequency_limit_hertz",
		"Highest frequency that is allowed at present, of the CPU that is allowed least.")
	hostThrottlesDesc = hostDesc("cpu_thermal_throttles_total",
		"How often CPU cores were slowed down because of heat.")
	hostMemoryDesc = hostDesc("memory_bytes",
		"Memory of the host.")
	hostAvailableDesc = hostDesc("memory_available_bytes",
		"Memory that can be had without swapping.")
	hostOOMDesc = hostDesc("oom_kills_total",
		"Processes killed because memory ran out.")
	hostEDACDesc = hostDesc("memory_errors_total",
		"Memory errors that the memory controllers saw, by severity.", "severity")
)

func init() {
	for resource, what := range map[string]string{"cpu": "a CPU", "memory": "memory", "io": "storage"} {
		pressureDesc[resource] = [2]*prometheus.Desc{
			hostDesc("pressure_"+resource+"_waiting_seconds_total", "Time in which some task waited for "+what+"."),
			hostDesc("pressure_"+resource+"_stalled_seconds_total", "Time in which all tasks waited for "+what+"."),
		}
	}
}

// Collect implements Collector. A part that the kernel does not offer is left out.
func (h *Host) Collect(_ context.Context, emit func(prometheus.Metric)) error {
	var errs []error
	for _, part := range []func(func(prometheus.Metric)) error{h.pressure, h.cpuTime, h.frequency, h.memory} {
		if err := part(emit); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	h.edac(emit)
	h.threads(emit)
	h.distances(emit)
	return errors.Join(errs...)
}

func (h *Host) pressure(emit func(prometheus.Metric)) error {
	for resource, descs := range pressureDesc {
		lines, err := h.proc.Pressure("pressure", resource)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for i, kind := range []string{"some", "full"} {
			if p, ok := lines[kind]; ok && (resource != "cpu" || kind == "some") {
				emit(prometheus.MustNewConstMetric(descs[i], prometheus.CounterValue, p.Seconds))
			}
		}
	}
	return nil
}

var cpuModes = []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"}

func (h *Host) cpuTime(emit func(prometheus.Metric)) error {
	text, err := h.proc.Text("stat")
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < len(cpuModes)+1 || fields[0] != "cpu" {
		return errors.New("parsing stat: no line of all CPUs")
	}
	for i, mode := range cpuModes {
		ticks, err := strconv.ParseUint(fields[i+1], 10, 64)
		if err != nil {
			return fmt.Errorf("parsing stat: %w", err)
		}
		emit(prometheus.MustNewConstMetric(hostCPUDesc, prometheus.CounterValue, float64(ticks)/100, mode))
	}
	emit(prometheus.MustNewConstMetric(hostCPUsDesc, prometheus.GaugeValue, float64(strings.Count(text, "\ncpu"))))
	return nil
}

// frequency reads what cpufreq says. Virtual machines have none.
func (h *Host) frequency(emit func(prometheus.Metric)) error {
	governors := map[string]int{}
	var sum, highest float64
	n := 0
	limit, _, limited := h.frequencyLimit()
	throttles, counted := h.throttles()
	for _, cpu := range h.sys.Glob("devices/system/cpu/cpu[0-9]*") {
		if g, err := h.sys.Text(cpu, "cpufreq", "scaling_governor"); err == nil {
			governors[g]++
		}
		if khz, err := h.sys.Uint(cpu, "cpufreq", "scaling_cur_freq"); err == nil {
			sum += float64(khz) * 1000
			n++
		}
		if khz, err := h.sys.Uint(cpu, "cpufreq", "cpuinfo_max_freq"); err == nil {
			highest = max(highest, float64(khz)*1000)
		}
	}
	for g, count := range governors {
		emit(prometheus.MustNewConstMetric(hostGovernorDesc, prometheus.GaugeValue, float64(count), g))
	}
	if n > 0 {
		emit(prometheus.MustNewConstMetric(hostFrequencyDesc, prometheus.GaugeValue, sum/float64(n)))
	}
	if highest > 0 {
		emit(prometheus.MustNewConstMetric(hostMaxFrequencyDesc, prometheus.GaugeValue, highest))
	}
	if limited {
		emit(prometheus.MustNewConstMetric(hostFrequencyLimitDesc, prometheus.GaugeValue, limit))
	}
	if counted {
		emit(prometheus.MustNewConstMetric(hostThrottlesDesc, prometheus.CounterValue, float64(throttles)))
	}
	return nil
}

func (h *Host) memory(emit func(prometheus.Metric)) error {
	info, err := h.proc.Fields("meminfo")
	if err != nil {
		return err
	}
	for key, desc := range map[string]*prometheus.Desc{"MemTotal": hostMemoryDesc, "MemAvailable": hostAvailableDesc} {
		kib, err := strconv.ParseUint(strings.TrimSuffix(info[key], " kB"), 10, 64)
		if err != nil {
			return fmt.Errorf("parsing meminfo: %s: %w", key, err)
		}
		emit(prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(kib)*1024))
	}
	kills, err := h.oomKills()
	if err != nil {
		return err
	}
	emit(prometheus.MustNewConstMetric(hostOOMDesc, prometheus.CounterValue, float64(kills)))
	return nil
}

func (h *Host) oomKills() (uint64, error) {
	stat, err := h.proc.Fields("vmstat")
	if err != nil {
		return 0, err
	}
	kills, err := strconv.ParseUint(stat["oom_kill"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing vmstat: %w", err)
	}
	return kills, nil
}

// memoryErrors sums up what the memory controllers have counted; false without such controllers.
func (h *Host) memoryErrors() (corrected, uncorrected uint64, ok bool) {
	for _, mc := range h.sys.Glob("devices/system/edac/mc/mc[0-9]*") {
		if n, err := h.sys.Uint(mc, "ce_count"); err == nil {
			corrected, ok = corrected+n, true
		}
		if n, err := h.sys.Uint(mc, "ue_count"); err == nil {
			uncorrected, ok = uncorrected+n, true
		}
	}
	return corrected, uncorrected, ok
}

func (h *Host) edac(emit func(prometheus.Metric)) {
	if corrected, uncorrected, ok := h.memoryErrors(); ok {
		emit(prometheus.MustNewConstMetric(hostEDACDesc, prometheus.CounterValue, float64(corrected), "corrected"))
		emit(prometheus.MustNewConstMetric(hostEDACDesc, prometheus.CounterValue, float64(uncorrected), "uncorrected"))
	}
}

// Facts gives the host's evidence.
func (h *Host) Facts() []nodeapi.Fact {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	var facts []nodeapi.Fact
	ranks := h.ranks.Ranks()
	if p, err := h.proc.Pressure("pressure", "cpu"); err == nil && p["some"].Share >= cpuPressureFact {
		for _, r := range ranks {
			if len(r.Threads) > 0 && r.RunDelay >= runDelayFact {
				facts = append(facts, nodeapi.Fact{
					Component: "cpu", Kind: "cpu_pressure", Value: r.RunDelay, Unit: "ratio", Rank: r.Rank,
					Text: fmt.Sprintf("NCCL threads wait for a CPU %.0f%% of the time; on %d CPUs some task waits %.0f%% of it",
						100*r.RunDelay, runtime.NumCPU(), 100*p["some"].Share),
				})
			}
		}
	}
	facts = append(facts, crowded(ranks)...)
	facts = append(facts, h.remote(ranks)...)
	facts = h.clockFacts(facts, now)
	if kills, err := h.oomKills(); err == nil {
		facts = h.counts.fact(facts, "oom", kills, now, nodeapi.Fact{Component: "memory", Kind: "oom_kill", Rank: -1})
	}
	if _, n, ok := h.memoryErrors(); ok {
		facts = h.counts.fact(facts, "edac", n, now, nodeapi.Fact{Component: "memory", Kind: "ecc_uncorrectable", Rank: -1})
	}
	return facts
}
