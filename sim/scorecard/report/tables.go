// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/scorecard/baseline"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// table is a part of the report, written as Markdown and as HTML.
type table struct {
	title string
	note  string
	head  []string
	rows  [][]string
}

// tables are the report's tables, in order.
func (r *Report) tables() []table {
	return slices.Concat(
		[]table{r.coverage(), r.designTable(), r.headline(), r.levelTable()},
		r.young(),
		r.waits(),
		r.drawn(),
		[]table{r.byFault(), r.bySeverity(), r.byScale()},
		r.papers(),
		[]table{r.methodTable(), r.secondOpinions(), r.reliabilityTable(), r.harmTable(), r.harmedReliabilityTable(), r.cost(), r.failures(), r.harmFailures(), r.rowTable()},
	)
}

func (r *Report) headline() table {
	s := &r.Summary
	t := table{
		title: "Headline",
		note: "Over the runs in which the fault had an effect: the job stood still, or its iterations took 10% longer. Brackets: hits of runs, 95% Wilson interval; F1's is from the ends of the two it is made of. " +
			"*Right* is class and first-named culprit together; *device* is culprit and cause, on the right NIC where one is named.",
		head: []string{"", "hangs", "slow, a machine to blame", "slow, nobody to blame", "slow by less than 10%, asked about"},
	}
	row := func(name string, f func(*Figures) string) {
		t.rows = append(t.rows, []string{name, f(&s.Hang), f(&s.Slow), f(&s.Nobody), f(&s.Below)})
	}
	row("runs", func(f *Figures) string { return strconv.Itoa(f.Runs) })
	row("triggered", func(f *Figures) string { return f.Triggered.String() })
	row("detected", func(f *Figures) string { return f.Detected.String() })
	row("class", func(f *Figures) string { return f.Class.String() })
	row("cause", func(f *Figures) string { return f.Cause.String() })
	row("rank, top-1", func(f *Figures) string { return f.Top1.String() })
	row("rank, top-3", func(f *Figures) string { return f.Top3.String() })
	row("host, top-1", func(f *Figures) string { return f.Host.String() })
	row("host, top-3", func(f *Figures) string { return f.Host3.String() })
	row("device, top-1", func(f *Figures) string { return f.Device.String() })
	row("device, top-3", func(f *Figures) string { return f.Device3.String() })
	row("culprit, or a link or group with it", func(f *Figures) string { return f.Group.String() })
	row("right", func(f *Figures) string { return f.Right.String() })
	row("unknown", func(f *Figures) string { return f.Unknown.String() })
	row("an innocent accused", func(f *Figures) string { return f.False.String() })
	row("told by a trigger after the fault", func(f *Figures) string { return f.ToldAnew.String() })
	row("fault to analyzer told, of those, p50 / p90 / max", func(f *Figures) string {
		return times(f.ToldAnew, f.Told50, f.Told90, f.ToldMx)
	})
	row("fault to verdict, p50 / p90 / max", func(f *Figures) string {
		return times(f.Triggered, f.Latency50, f.Latency90, f.LatencyMx)
	})
	quiet := func(name string, v Share) { t.rows = append(t.rows, []string{name, v.String(), "", "", ""}) }
	quiet("healthy runs: nobody accused", s.Healthy)
	quiet("benign runs: nobody accused", s.Benign)
	quiet("quiet runs: nobody paged", s.QuietPaged)
	quiet("quiet runs: no trigger", s.QuietNoFire)
	quiet("precision of accusations", s.Precision)
	quiet("recall", s.Recall)
	t.rows = append(t.rows, []string{"F1", fmt.Sprintf("%.3f (%.2f–%.2f)", s.F1, s.F1Low, s.F1High), "", "", ""})
	return t
}

// times gives the percentiles of a time that so many runs have.
func times(of Share, p50, p90, most float64) string {
	if of.Hits == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f / %.1f / %.1f s", p50, p90, most)
}

func figureRow(name string, list []judge.Outcome) []string {
	f := figures(list)
	return []string{
		name, strconv.Itoa(f.Runs), pct(f.Triggered), pct(f.Class), pct(f.Top1), pct(f.Top3), pct(f.Group), pct(f.Unknown), pct(f.False), named5090(&f),
	}
}

func pct(s Share) string {
	if s.Of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f%%", 100*s.Value())
}

var figureHead = []string{"", "runs", "triggered", "class", "top-1", "top-3", "with its link or group", "unknown", "innocent accused", "verdict p50 / p90"}

func (r *Report) effective() []judge.Outcome {
	return filter(r.usual(), func(o *judge.Outcome) bool { return o.Effect })
}

func (r *Report) byFault() table {
	t := table{
		title: "By fault", head: figureHead,
		note: "Severities together. Runs without effect are left out; *effect* in the JSON's outcomes says which.",
	}
	order, by := groupBy(filter(r.effective(), func(o *judge.Outcome) bool { return !o.Quiet() }), func(o *judge.Outcome) string { return o.Scenario })
	for _, k := range order {
		t.rows = append(t.rows, figureRow(k, by[k]))
	}
	order, by = groupBy(filter(r.usual(), (*judge.Outcome).Quiet), func(o *judge.Outcome) string { return o.Scenario })
	for _, k := range order {
		row := figureRow(k, by[k])
		row[4], row[5], row[6], row[9] = "–", "–", "–", "–"
		t.rows = append(t.rows, row)
	}
	return t
}

func (r *Report) byScale() table {
	t := table{title: "By workload and scale", head: figureHead}
	list := filter(r.effective(), func(o *judge.Outcome) bool { return !o.Quiet() })
	slices.SortStableFunc(list, func(a, b judge.Outcome) int { return cmp.Compare(a.Ranks, b.Ranks) })
	order, by := groupBy(list, func(o *judge.Outcome) string { return o.Workload })
	for _, k := range order {
		t.rows = append(t.rows, figureRow(fmt.Sprintf("%s (%d ranks)", k, by[k][0].Ranks), by[k]))
	}
	return t
}

func (r *Report) designTable() table {
	t := table{
		title: "Floors of the design: asked and measured",
		note: "A paper's case counts when 95% of its runs are right. Slowness at 50% severity: faults that leave half of a resource and lengthen the iteration by 10% or more; " +
			"those that have no such measure (CPU, proxy, data loader) are in the tables below only.",
		head: []string{"floor", "asked", "measured", "", "what fails, or was not run"},
	}
	for i := range r.Summary.Design {
		a := &r.Summary.Design[i]
		t.rows = append(t.rows, []string{a.Text, fmt.Sprintf("%.0f%%", 100*a.Want), a.Measured.String(), a.State, strings.Join(a.Failing, "; ")})
	}
	return t
}

func (r *Report) bySeverity() table {
	t := table{title: "Slowness by severity", head: figureHead, note: "What is left of the resource, or the paper's words."}
	order, by := groupBy(filter(r.effective(), func(o *judge.Outcome) bool { return o.Group == matrix.GroupSlow }), func(o *judge.Outcome) string { return o.Scenario + ", " + o.Severity })
	for _, k := range order {
		t.rows = append(t.rows, figureRow(k, by[k]))
	}
	return t
}

func (r *Report) methodTable() table {
	t := table{
		title: "Beside single methods on the same evidence",
		note: "Judged by the first-named rank alone; where no machine is to blame, right is to name nobody. Each method is asked at the engine's own trigger and on the evidence it has gathered, so none has to detect anything by itself, " +
			"and the engine's benign runs count for those who never name anybody.",
		head: []string{"method", "what it is", "all", "hangs", "slow", "nobody to blame", "an innocent named"},
	}
	for i := range r.Summary.Methods {
		m := &r.Summary.Methods[i]
		what := "everything together"
		for _, x := range baseline.Methods {
			if x.Name == m.Method {
				what = x.What
			}
		}
		t.rows = append(t.rows, []string{m.Method, what, m.All.String(), pct(m.Hang), pct(m.Slow), pct(m.Nobody), pct(m.Accusing)})
	}
	return t
}

func (r *Report) reliabilityTable() table {
	t := table{
		title: "Reliability",
		note:  fmt.Sprintf("Of verdicts said with a confidence, how many are right: class, first-named, nobody innocent. Expected calibration error %.3f; of the bare weight of evidence, before calibration, %.3f.", r.Summary.Calibration, r.Summary.Uncalibrated),
		head:  []string{"confidence", "mean", "right"},
	}
	for _, b := range r.Summary.Reliability {
		t.rows = append(t.rows, b.row())
	}
	return t
}

func (r *Report) cost() table {
	t := table{
		title: "What an analysis costs",
		note: "All nodes are asked up to 64 hosts, above it those that the search comes to, for their history at most 64. Bytes are JSON before compression. Analysis is the engine's CPU time, and beside it its wall time on the reporting machine, which did other work as well, of all looks of a run together. " +
			"Allocated is what it asked the allocator for in the look that took longest, an upper bound of its memory, measured of one run in four of 512 ranks and more and of one in thirty-two smaller ones.",
		head: []string{"ranks", "runs", "ranks asked p50", "fetched p50 / max", "analysis CPU p50 / p90 / max", "wall p50 / max", "allocated p50 / max"},
	}
	list := filter(r.usual(), func(o *judge.Outcome) bool { return o.RanksFetched > 0 })
	slices.SortStableFunc(list, func(a, b judge.Outcome) int { return cmp.Compare(a.Ranks, b.Ranks) })
	order, by := groupBy(list, func(o *judge.Outcome) string { return strconv.Itoa(o.Ranks) + " " + o.Group })
	for _, k := range order {
		l := by[k]
		b := collect(l, func(o *judge.Outcome) float64 { return float64(o.BytesFetched) / 1e6 })
		ms := collect(l, func(o *judge.Outcome) float64 { return o.AnalysisMS })
		cpu := collect(l, func(o *judge.Outcome) float64 { return o.AnalysisCPU })
		mib := collect(filter(l, func(o *judge.Outcome) bool { return o.AllocMiB > 0 }), func(o *judge.Outcome) float64 { return o.AllocMiB })
		t.rows = append(t.rows, []string{
			k, strconv.Itoa(len(l)), fmt.Sprintf("%.0f", percentile(collect(l, func(o *judge.Outcome) float64 { return float64(o.RanksFetched) }), 0.5)),
			fmt.Sprintf("%.2f / %.2f MB", percentile(b, 0.5), percentile(b, 1)),
			fmt.Sprintf("%.1f / %.1f / %.1f ms", percentile(cpu, 0.5), percentile(cpu, 0.9), percentile(cpu, 1)),
			fmt.Sprintf("%.1f / %.1f ms", percentile(ms, 0.5), percentile(ms, 1)),
			fmt.Sprintf("%.1f / %.1f MiB", percentile(mib, 0.5), percentile(mib, 1)),
		})
	}
	return t
}

const maxFailures = 80

func (r *Report) failures() table {
	t := table{
		title: "What fails",
		note:  "Every run that is not right, or that accuses an innocent. A link or group that holds the culprit is marked as such.",
		head:  []string{"run", "truth", "verdict", "confidence", "remark"},
	}
	bad := filter(r.effective(), func(o *judge.Outcome) bool { return !o.Right || o.False })
	for i := range bad {
		o := &bad[i]
		if i == maxFailures {
			t.rows = append(t.rows, []string{fmt.Sprintf("and %d more: see the JSON", len(bad)-i), "", "", "", ""})
			break
		}
		t.rows = append(t.rows, []string{
			o.Name, fmt.Sprintf("%s %v", o.TruthClass, judge.Short(o.TruthRanks)),
			fmt.Sprintf("%s/%s %v%v", o.Class, o.Cause, judge.Short(o.Culprits), o.Groups[:min(1, len(o.Groups))]),
			fmt.Sprintf("%.2f", o.Confidence), remark(o),
		})
	}
	return t
}

func remark(o *judge.Outcome) string {
	switch {
	case o.Quiet():
		return "nothing was wrong"
	case !o.Triggered && o.Class == string(rca.Healthy):
		return "no trigger fired"
	case o.Unknown:
		return "unknown"
	case o.False && o.Top1:
		return "an innocent beside the culprit"
	case o.False:
		return "an innocent"
	case o.Top1:
		return "culprit right, class wrong"
	case o.GroupRight:
		return "only its link or group"
	case o.HostRight:
		return "only its host"
	}
	return "missed"
}
