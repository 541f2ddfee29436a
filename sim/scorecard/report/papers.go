// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// papers are the papers' tables and figures with ours beside them.
func (r *Report) papers() []table {
	return []table{r.mycroft(), r.ccldClasses(), r.ccldScale(), r.pulseCases(), r.pulseTypes(), r.holmesAccuracy(), r.holmesDetection()}
}

func (r *Report) mycroft() table {
	return r.beside("Mycroft, section 7.1 and figure 8: seven faults on 32 A100 (TP 8, PP 2, DP 2)",
		"Mycroft names all seven and alerts within 13 s of the anomaly, most of that in its controller. Comparable: the layout and the faults. Not comparable: "+
			"its machines are real and ours simulated; both latencies are measured to the named cause, ours with 5 s scrapes and evaluations.",
		matrix.MycroftCases())
}

func (r *Report) ccldClasses() table {
	return r.beside("CCL-D, table 1: six classes on 16 devices",
		"CCL-D gets all six right, each test repeated five times; it detects hangs after 5 min and slowness after 1 min, which are its settings, and locates within 108 and 146 ms. "+
			"Comparable: classes, scale, the kinds of injection. Not comparable: its H20 machines are real; garbage collection as a cause of slowness is a healthy run here, slow loading of data stands for it; "+
			"contention for CPUs stands for its system-level contention.",
		matrix.CCLDCases())
}

// ccldScale is table 2's distribution over scales.
func (r *Report) ccldScale() table {
	t := table{
		title: "CCL-D, table 2: from 16 to 4,000 devices",
		note: "CCL-D in production for a month: 18 hangs in 6 min (5 until detected) and 10 slow jobs in 2 min (1 until detected) on the average, up to 4,000 devices; before it, 47 h and 74 h by hand. " +
			"Comparable: the time until the verdict, at scales alike. Not comparable: these were real incidents, found by people to be right; ours are injected.",
		head: []string{"scale", "CCL-D: cases", "hangs: runs", "right", "verdict p50", "slow: runs", "right", "verdict p50"},
	}
	for _, s := range []struct {
		name, theirs string
		low, high    int
	}{{"16 to 128", "16", 16, 128}, {"129 to 512", "9", 129, 512}, {"513 to 2,048", "8", 513, 2048}, {"2,049 to 10,240", "3 (to 4,000)", 2049, 10240}} {
		row := []string{s.name, s.theirs}
		for _, group := range []string{matrix.GroupHang, matrix.GroupSlow} {
			f := figures(filter(r.usual(), func(o *judge.Outcome) bool {
				return o.Guilty() && o.Group == group && o.Ranks >= s.low && o.Ranks <= s.high
			}))
			row = append(row, fmt.Sprint(f.Runs), pct(f.Right), namedP50(&f))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func (r *Report) pulseCases() table {
	return r.beside("Pulse, tables 3 and 4: twelve scenarios on its three workloads",
		"Pulse names the machine in ten cases and the group in the two CPU cases; methods at the level of operations (Aegis, Holmes, GrayHound) name the machine in four. 57 experiments. "+
			"Comparable: workloads, faults and severities are table 4's. Not comparable: Pulse measures RDMA epochs of 32 us on NICs of 64 real H200 machines' GPUs, ours sees steps of the proxy; expert imbalance is right in ours when routing is named and no machine.",
		matrix.PulseCases())
}

// pulseTypes are figures 22 to 25 by type of anomaly.
func (r *Report) pulseTypes() table {
	t := table{
		title: "Pulse, figures 22 to 25: by type of anomaly",
		note: "Section 8.1: a true positive is the faulty node with the right type. Pulse: precision over 90%, recall 100%, false positives in 16% of computation fail-slow and none elsewhere; " +
			"methods at the level of operations: over 60% precision for communication, 64% precision and 57% recall for computation fail-slow. Its latency (figure 25) is collection plus analysis, 0.7 s above the others'; ours is from the fault to the verdict. " +
			"Ours counts a link or group that holds the node as missed.",
		head: []string{"type", "ours: runs", "precision", "recall", "innocent accused", "verdict p50 / p90"},
	}
	for _, p := range matrix.PulseTypes() {
		of := standsFor(&p)
		list := filter(r.usual(), func(o *judge.Outcome) bool { return o.Guilty() && of(o) })
		f := figures(list)
		right := func(o *judge.Outcome) bool { return o.HostRight && o.ClassRight && o.Accuses() }
		t.rows = append(t.rows, []string{
			p.Name, fmt.Sprint(f.Runs), share(filter(list, (*judge.Outcome).Accuses), right).String(), share(list, right).String(), pct(f.False), named5090(&f),
		})
	}
	return t
}

// standsFor chooses the runs that stand for a case of a paper.
func standsFor(p *matrix.PaperCase) func(*judge.Outcome) bool {
	return func(o *judge.Outcome) bool { return p.Holds(o.Scenario, o.Severity, o.Workload) }
}

func namedP50(f *Figures) string {
	if f.Triggered.Hits == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f s", f.Latency50)
}

func named5090(f *Figures) string {
	if f.Triggered.Hits == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f / %.0f s", f.Latency50, f.Latency90)
}

func (r *Report) beside(title, note string, rows []matrix.PaperCase) table {
	t := table{title: title, note: note, head: []string{"case", "paper", "ours: runs", "rank, top-1", "machine", "with its link or group", "class", "verdict p50"}}
	for i := range rows {
		p := &rows[i]
		list := filter(r.effective(), standsFor(p))
		if len(list) == 0 {
			t.rows = append(t.rows, []string{p.Name, p.Paper, "0: " + r.why(p), "–", "–", "–", "–", "–"})
			continue
		}
		f := figures(list)
		t.rows = append(t.rows, []string{p.Name, p.Paper, fmt.Sprint(f.Runs), pct(f.Top1), pct(f.Host), pct(f.Group), pct(f.Class), namedP50(&f)})
	}
	return t
}

// why there are no figures for a case.
func (r *Report) why(p *matrix.PaperCase) string {
	if n := len(filter(r.usual(), standsFor(p))); n > 0 {
		return fmt.Sprintf("no effect on the iteration in %d", n)
	}
	return "not run"
}

// holmesAccuracy is accuracy by scale (figure 15b) and by shape of irregularity (figure 24).
func (r *Report) holmesAccuracy() table {
	t := table{
		title: "Holmes, figures 15(b) and 24: localisation of slowness by scale and shape",
		note: "Comparable: scales and shapes. Not comparable: Holmes' large runs are trace-driven simulations of its own cluster, and its accuracy is of the device (GPU, NIC, link, switch). " +
			"Figure 14(c), the search from few pivots, has no counterpart: ours walks from whoever waits.",
		head: []string{"slice", "Holmes", "ours: runs", "top-1", "machine", "with its link or group"},
	}
	add := func(name, theirs string, keep func(*judge.Outcome) bool) {
		f := figures(filter(r.usual(), func(o *judge.Outcome) bool { return o.Guilty() && o.Group == matrix.GroupSlow && keep(o) }))
		t.rows = append(t.rows, []string{name, theirs, fmt.Sprint(f.Runs), pct(f.Top1), pct(f.Host), pct(f.Group)})
	}
	for _, s := range []struct {
		name, theirs string
		low, high    int
	}{{"to 64 GPUs", "–", 0, 64}, {"512 GPUs", "–", 65, 1024}, {"2,048 GPUs", "97.2%", 1025, 4096}, {"8,192 GPUs", "88.2%", 4097, 8192}, {"10,240 GPUs", "–", 8193, 1 << 20}} {
		add(s.name, s.theirs, func(o *judge.Outcome) bool { return o.Ranks >= s.low && o.Ranks <= s.high })
	}
	add("spikes", "90.7%", func(o *judge.Outcome) bool { return o.Severity == matrix.Spikes })
	add("fluctuation", "93.0%", func(o *judge.Outcome) bool {
		return o.Severity == matrix.Fluctuation || strings.HasPrefix(o.Scenario, "link_flap")
	})
	add("persistent degradation", "93.2%", func(o *judge.Outcome) bool {
		return o.Severity != matrix.Spikes && o.Severity != matrix.Fluctuation && !strings.HasPrefix(o.Scenario, "link_flap")
	})
	return t
}

// holmesDetection are the detector (figure 14a) and the costs (figure 16).
func (r *Report) holmesDetection() table {
	t := table{
		title: "Holmes, figures 14(a) and 16: detection, data fetched, time until located",
		note: "Figure 14(a)'s F1 is of single abnormal operators, ours of whole runs told of by the slowness trigger against quiet ones: stricter on the one hand, easier on the other; they are side by side only because both say whether slowness is seen. " +
			"Holmes fetches 0.84 GB of 24.36 GB (3.4%); ours is the service's search through standstills of more than 64 hosts.",
		head: []string{"figure", "Holmes", "ours"},
	}
	slow := filter(r.usual(), func(o *judge.Outcome) bool { return o.Group == matrix.GroupSlow && o.Effect })
	seen := len(filter(slow, func(o *judge.Outcome) bool { return o.Triggered }))
	wrong := len(filter(r.usual(), func(o *judge.Outcome) bool { return o.Quiet() && o.Triggered && o.Accuses() }))
	f1 := 0.0
	if n := 2*seen + wrong + len(slow) - seen; n > 0 {
		f1 = 2 * float64(seen) / float64(n)
	}
	t.rows = append(t.rows, []string{"14(a): F1 of detection", "over 0.89; 0.93 at 4,096 GPUs; 3-sigma 0.62", fmt.Sprintf("%.2f (%d of %d slow runs told of, %d quiet ones accused)", f1, seen, len(slow), wrong)})
	at := func(low, high int) string {
		f := figures(filter(slow, func(o *judge.Outcome) bool { return o.Ranks >= low && o.Ranks <= high }))
		return named5090(&f)
	}
	searched := filter(r.usual(), func(o *judge.Outcome) bool { return o.Search != nil && o.Guilty() && o.Group == matrix.GroupHang })
	part := collect(searched, func(o *judge.Outcome) float64 { return 100 * float64(o.BytesFetched) / float64(o.Search.Whole) })
	hosts := collect(searched, func(o *judge.Outcome) float64 { return 100 * float64(o.Search.Hosts) / float64(o.Search.Of) })
	same := share(searched, func(o *judge.Outcome) bool { return o.Search.Same })
	t.rows = append(t.rows, []string{"16(b): data fetched, of all", "3.4%", fmt.Sprintf("%.1f%% p50, %.1f%% max, of %.1f%% of the hosts; %d searches, same verdict as with everybody asked: %s",
		percentile(part, 0.5), percentile(part, 1), percentile(hosts, 0.5), len(searched), same)})
	t.rows = append(t.rows, []string{"16(c): time until located, 2,048 GPUs", "15.5 s", "verdict after " + at(1025, 4096)},
		[]string{"16(c): 8,192 GPUs", "30.3 s", "verdict after " + at(4097, 8192)},
		[]string{"16(d): all, p50 / p90", "96.2% under 30 s, p99 32.8 s (3,072 GPUs)", "verdict after " + at(0, 1<<20)})
	return t
}
