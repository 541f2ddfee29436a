// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/sim/cluster"
)

// paperRow is a case of a paper's table, with our scenarios that stand for it.
type paperRow struct {
	name  string
	paper string
	ours  []cluster.FaultKind
	only  func(*Outcome) bool
}

// papers are the papers' tables with our figures beside theirs.
func (r *Report) papers() []table {
	on := func(workloads ...string) func(*Outcome) bool {
		return func(o *Outcome) bool { return slices.Contains(workloads, o.Workload) }
	}
	my := on("gpt-32")
	mycroft := r.beside("Mycroft, section 7.1 and figure 8: seven faults on 32 A100 (TP 8, PP 2, DP 2)",
		"Mycroft names all seven, within 13 s of the anomaly. Ours: the same layout simulated; told is from the fault until the analyzer is asked, and an analysis takes milliseconds.",
		[]paperRow{
			{"NIC shutdown", "named", []cluster.FaultKind{cluster.NICDown}, my},
			{"NIC bandwidth limit", "named", []cluster.FaultKind{cluster.NICBandwidth}, my},
			{"PCIe downgrade", "named", []cluster.FaultKind{cluster.PCIeDowngrade}, my},
			{"GPU power limit", "named", []cluster.FaultKind{cluster.GPUThrottle}, my},
			{"background computation", "named", []cluster.FaultKind{cluster.BackgroundCompute}, my},
			{"background traffic", "named", []cluster.FaultKind{cluster.Congestion}, my},
			{"NCCL proxy delay", "named", []cluster.FaultKind{cluster.ProxyDelay}, my},
		})
	ccld := r.beside("CCL-D, table 1: six classes on 16 devices",
		"CCL-D gets all six right; hangs after 5 min, slowness after 1 min, location within 150 ms. Mixed slowness is injected in ours as CPU contention.",
		[]paperRow{
			{"not-entered hang (SIGSTOP)", "right", []cluster.FaultKind{cluster.ProcessStopped, cluster.NotEntered, cluster.DataStuck}, nil},
			{"inconsistent hang", "right", []cluster.FaultKind{cluster.OtherFunc, cluster.OtherSize, cluster.SkippedOp}, nil},
			{"hardware fault", "right", []cluster.FaultKind{cluster.NICDown, cluster.GPUError}, nil},
			{"computation slow", "right", []cluster.FaultKind{cluster.GPUThrottle, cluster.SlowData}, nil},
			{"communication slow", "right", []cluster.FaultKind{cluster.NICBandwidth, cluster.LinkFlap, cluster.ProxyDelay}, nil},
			{"mixed slow", "right", []cluster.FaultKind{cluster.CPUContention}, nil},
		})
	pu := on("gpt-64", "mixtral-32", "neighbour-4")
	pulse := r.beside("Pulse, table 3 (figures 22 to 25: precision above 90%, recall 100%, about 6 s)",
		"On Pulse's three workloads. Pulse names the machine in ten cases and the group in two.",
		[]paperRow{
			{"network congestion", "machine", []cluster.FaultKind{cluster.Congestion}, pu},
			{"CPU contention", "group", []cluster.FaultKind{cluster.CPUContention}, pu},
			{"NIC down", "machine", []cluster.FaultKind{cluster.NICDown}, pu},
			{"MoE expert imbalance", "machine", []cluster.FaultKind{cluster.ExpertImbalance}, pu},
			{"PCIe contention", "machine", []cluster.FaultKind{cluster.PCIeContention}, pu},
			{"GPU throttling", "machine", []cluster.FaultKind{cluster.GPUThrottle}, pu},
			{"GPU execution error", "machine", []cluster.FaultKind{cluster.GPUError}, pu},
			{"CUDA execution error", "machine", []cluster.FaultKind{cluster.CUDAError}, pu},
			{"CPU throttling", "group", []cluster.FaultKind{cluster.CPUThrottle}, pu},
			{"PCIe downgrade", "machine", []cluster.FaultKind{cluster.PCIeDowngrade}, pu},
			{"NIC-GPU cross NUMA binding", "machine", []cluster.FaultKind{cluster.CrossNUMA}, pu},
			{"memory alignment", "machine", []cluster.FaultKind{cluster.Misalignment}, pu},
		})
	return []table{mycroft, ccld, pulse, r.holmes()}
}

func (r *Report) beside(title, note string, rows []paperRow) table {
	t := table{title: title, note: note, head: []string{"case", "paper", "ours: runs", "top-1", "with its link or group", "class", "told p50"}}
	for _, p := range rows {
		list := filter(r.effective(), func(o *Outcome) bool {
			return slices.Contains(p.ours, cluster.FaultKind(o.Scenario)) && (p.only == nil || p.only(o))
		})
		if len(list) == 0 {
			t.rows = append(t.rows, []string{p.name, p.paper, "0: no effect on the iteration, or not run", "–", "–", "–", "–"})
			continue
		}
		f := figures(list)
		told := "–"
		if f.Triggered.Hits > 0 {
			told = fmt.Sprintf("%.0f s", f.Latency50)
		}
		t.rows = append(t.rows, []string{p.name, p.paper, fmt.Sprint(f.Runs), pct(f.Top1), pct(f.Group), pct(f.Class), told})
	}
	return t
}

// holmes are accuracy by scale (figure 15) and by shape of irregularity (figure 24).
func (r *Report) holmes() table {
	t := table{
		title: "Holmes, figures 15, 16 and 24: localisation of slowness",
		note:  "Holmes: 97.2% at 2,048 GPUs, 88.2% at 8,192; 15.5 s to 30.3 s; spikes 90.7%, fluctuation 93.0%, degradation 93.2%.",
		head:  []string{"slice", "Holmes", "ours: runs", "top-1", "with its link or group"},
	}
	add := func(name, theirs string, keep func(*Outcome) bool) {
		list := filter(r.effective(), func(o *Outcome) bool { return o.Group == "slow" && !nobodyGuilty(o) && keep(o) })
		f := figures(list)
		t.rows = append(t.rows, []string{name, theirs, fmt.Sprint(f.Runs), pct(f.Top1), pct(f.Group)})
	}
	for _, s := range []struct {
		name, theirs string
		low, high    int
	}{{"to 64 GPUs", "–", 0, 64}, {"512 GPUs", "–", 65, 1024}, {"2,048 GPUs", "97.2%", 1025, 4096}, {"8,192 GPUs and more", "88.2%", 4097, 1 << 20}} {
		add(s.name, s.theirs, func(o *Outcome) bool { return o.Ranks >= s.low && o.Ranks <= s.high })
	}
	for _, s := range []struct{ shape, theirs string }{{"spikes", "90.7%"}, {"fluctuation", "93.0%"}} {
		add(s.shape, s.theirs, func(o *Outcome) bool { return strings.Contains(o.Severity, s.shape) })
	}
	add("persistent degradation", "93.2%", func(o *Outcome) bool { return strings.HasSuffix(o.Severity, "%") })
	return t
}
