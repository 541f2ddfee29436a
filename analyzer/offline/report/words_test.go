// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/page"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

var update = flag.Bool("update", false, "write the golden files anew")

// headlines are what the engine says first of each cause, with examples in it.
var headlines = map[rca.Class]map[rca.Cause]string{
	rca.NotEntered: {
		rca.CauseProcessStopped: outside(words.StoppedBySignal), rca.CauseProcessGone: outside(words.ProcessDied), rca.CauseException: outside("it raised RuntimeError: CUDA error"),
		rca.CauseNotCalled: outside(words.RunsOutside), rca.CauseStorage: outside(words.StuckInStorage), rca.CauseCPU: outside(words.InsideLaunch), rca.CauseGPU: flawed(words.InsideCall, op),
		rca.CauseHostLost: hostLost, rca.CauseKernelNotRunning: flawed(words.KernelNotStarted, op), rca.CauseUnknown: fmt.Sprintf(words.RankUnseen, "7 ranks wait", 5, "no file"),
	},
	rca.Inconsistent: {
		rca.CauseOtherOp:  fmt.Sprintf(words.OtherCall, who, "Broadcast", 1204, "dp", "AllReduce", "function"),
		rca.CauseDeadlock: words.Deadlock + "ranks 0, 1 entered " + op + " first, ranks 2, 3 entered AllGather #7 on tp first" + words.EachWaits,
	},
	rca.Fault: {
		rca.CauseGPU: flawed(words.GPUStopped, op, ""), rca.CauseNetworkSend: flawed(words.Undelivered, op, "", " to rank 7 (node-2, GPU 1)"), rca.CauseReceiver: flawed(words.NoBuffers, op, ""),
		rca.CausePCIe: flawed(words.NotFlushed, op, ""), rca.CauseProxy: flawed(words.ProxyStopped, op, "", " to rank 7 (node-2, GPU 1)"), rca.CauseHostLost: hostLost,
		rca.CauseProcessStopped: died(words.StoppedBySignal), rca.CauseProcessGone: died(words.ProcessDied), rca.CauseException: died("it raised RuntimeError: CUDA error"),
		rca.CauseUnknown: flawed(words.LinkUnproven, op, "", " to rank 7 (node-2, GPU 1)"),
	},
	rca.SlowCompute: {
		rca.CauseGPU: slow(words.Computes, 37.0), rca.CauseCPU: slow(words.Computes+words.HostCallsLate, 37.0), rca.CauseStorage: slow(words.Computes, 37.0),
		rca.CauseUnknown: slow(words.Computes, 37.0),
	},
	rca.SlowComm: {
		rca.CauseNetworkSend: slow(words.EndSlow, "it", "sends", 3.0, "its"), rca.CausePCIe: slow(words.FlushLate), rca.CauseProxy: slow(words.ProxyStarves, "its", 3.0, "its"),
		rca.CauseCPU: slow(words.ProxyLate), rca.CauseGPU: slow(words.GPUAmongMembers, 3.0), rca.CauseUnknown: slow(words.GroupSlow, 3.0),
	},
	rca.SlowMixed: {
		rca.CauseGPU: mixed, rca.CauseCPU: mixed, rca.CauseStorage: mixed, rca.CauseNetworkSend: mixed, rca.CausePCIe: mixed, rca.CauseProxy: mixed, rca.CauseUnknown: mixed,
	},
	rca.Imbalance: {
		rca.CauseStage:   uneven("Stage 3 (ranks 6, 7)", fmt.Sprintf(words.StageUneven, 1.58)),
		rca.CauseRouting: uneven("Experts on ranks 6, 7", words.MoreTokens), rca.CauseData: uneven("Uneven data", fmt.Sprintf(words.SlowestChanges, 8, 12)),
	},
	rca.GlobalSlow: {rca.CauseUnknown: words.Opener(fmt.Sprintf(words.AllCompute, 1.58)) + words.NoMachine},
	rca.Benign: {
		rca.CauseCheckpoint: outside(words.WritesCheckpoint), rca.CauseFirstStep: outside(words.HardlyBegun), rca.CauseJobEnd: words.JobEnds,
	},
	rca.Healthy: {rca.CauseUnknown: words.NobodyStands},
	rca.Unknown: {rca.CauseUnknown: fmt.Sprintf(words.Unexplained, "8 ranks")},
}

const (
	who = "Rank 5 (node-1, GPU 1)"
	op  = "AllReduce #1204 on dp"
)

var (
	hostLost = fmt.Sprintf(words.HostLost, "7 ranks wait", "rank 5", "exporter", "node-1", "no answer in time")
	mixed    = slow(words.Computes+"; "+words.EndSlow, 20.0, "it", "sends", 3.0, "its")
)

func outside(note string) string {
	return fmt.Sprintf(words.NotCalled, who, "has", op, " for 9 s", "7 ranks have been waiting for it", note)
}

func died(note string) string {
	return fmt.Sprintf(words.DiedInside, who, note, "7 ranks have been waiting for it", op, " for 9 s")
}

func flawed(flaw string, args ...any) string {
	return fmt.Sprintf(words.Flawed, who, fmt.Sprintf(flaw, args...), "7 ranks have been waiting for it", " for 9 s")
}

func slow(finding string, args ...any) string {
	return who + ": " + fmt.Sprintf(finding, args...) + "; " + fmt.Sprintf(words.WithoutIt, 37.0) + "."
}

func uneven(group, finding string) string {
	return fmt.Sprintf(words.Uneven, group, finding, fmt.Sprintf(words.WithoutIt, 37.0))
}

// verdictOf makes a verdict of a class and a cause.
func verdictOf(class rca.Class, cause rca.Cause) rca.Verdict {
	v := rca.Verdict{
		Version: 1, JobID: "train", Class: class, Code: class.Code(), Cause: cause, Confidence: 0.95, Summary: headlines[class][cause], Action: rca.ActionFor(class, cause),
		Evidence: []string{fmt.Sprintf(words.ExplainsAll, "8")}, Missing: []string{"exporter node-2: no answer"}, WorldSize: 8, Culprits: []rca.Culprit{},
	}
	switch {
	case class.StandsStill():
		v.Page, v.Stalled, v.Waited, v.Comm, v.Op = true, 7, 9, "dp", "AllReduce #1204"
	case class == rca.Unknown:
		v.Page, v.Stalled = true, 8
	case class != rca.Benign && class != rca.Healthy:
		v.Page, v.Slowdown = true, 1.58
	}
	if v.Page && class != rca.Unknown && class != rca.GlobalSlow {
		v.Culprits = []rca.Culprit{{Rank: 5, Host: "node-1", GPU: "1", Channel: -1, Why: "[why]"}}
	}
	return v
}

var (
	tag    = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`[ \t]+`)
)

// prose is what a page says from the verdict to its explanations, without its markup.
func prose(text string) string {
	_, text, _ = strings.Cut(text, "<main")
	_, text, _ = strings.Cut(text, ">")
	text, _, _ = strings.Cut(text, "<h2>Evidence")
	text = strings.NewReplacer("</dt>", ": ", "<li>", "\n- ", "</p>", "\n", "</dd>", "\n", "</h2>", "\n", "<pre", "\n<pre").Replace(text)
	text = html.UnescapeString(tag.ReplaceAllString(text, ""))
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(spaces.ReplaceAllString(line, " ")); line != "" {
			out = append(out, "    "+line)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// All that readers are told of each class and cause, on the page, in the alert and in the terminal, is in a file that is reviewed as
// prose: testdata/words.golden.
func TestWords(t *testing.T) {
	format := notify.Format{
		Hang: notify.Style{Name: "CulpritFound", Severity: "critical"}, Slow: notify.Style{Name: "CulpritSlow", Severity: "warning"},
		Unknown: notify.Style{Name: "CulpritUnknown", Severity: "warning"}, Warning: notify.Style{Name: "CulpritSuspected", Severity: "warning"}, MaxAlerts: 8,
		Runbook: template.Must(template.New("").Parse("runbook#{{ .Cause }}")),
	}
	at := time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)
	var b bytes.Buffer
	causes := map[rca.Cause]bool{}
	for _, class := range words.Classes() {
		if len(rcatest.Pairs[class]) == 0 {
			t.Errorf("class %s has no cause here", class)
		}
		for _, cause := range rcatest.Pairs[class] {
			causes[cause] = true
			if headlines[class][cause] == "" {
				t.Errorf("class %s with cause %s has no headline here", class, cause)
			}
			v := verdictOf(class, cause)
			inc := incident.Incident{ID: "abcdefghijkl", JobID: "train", State: incident.Open, OpenedAt: at, Verdict: &v}
			fmt.Fprintf(&b, "# %s, %s\n\nPage:\n", class, cause)
			var text bytes.Buffer
			if err := page.WriteIncident(&text, &inc, page.Options{Now: at.Add(time.Minute)}); err != nil {
				t.Fatal(err)
			}
			b.WriteString(prose(text.String()))
			for _, a := range format.Alerts(&inc) {
				fmt.Fprintf(&b, "\nAlert %s, %s:\n", a.Labels["alertname"], a.Labels["severity"])
				for _, name := range slices.Sorted(maps.Keys(a.Annotations)) {
					fmt.Fprintf(&b, "    %s: %s\n", name, strings.ReplaceAll(strings.TrimSpace(a.Annotations[name]), "\n", "\n        "))
				}
			}
			b.WriteString("\nTerminal:\n")
			text.Reset()
			if err := Text(&text, &diagnosis.Result{Verdict: v}, Style{}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(text.String()) {
				if line = strings.TrimRight(line, " \n"); line != "" {
					b.WriteString("    " + line + "\n")
				}
			}
			b.WriteString("\n")
		}
	}
	if len(causes) != len(words.Causes()) {
		t.Errorf("%d of %d causes are here", len(causes), len(words.Causes()))
	}
	const golden = "testdata/words.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("texts differ from %s; read them as prose and run with -update:\n%s", golden, firstDifference(b.String(), string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d is\n%s\nwant\n%s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
