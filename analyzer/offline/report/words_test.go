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
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

var update = flag.Bool("update", false, "write the golden files anew")

// pairs are the causes that each class is found with.
var pairs = map[rca.Class][]rca.Cause{
	rca.NotEntered: {
		rca.CauseProcessStopped, rca.CauseProcessGone, rca.CauseException, rca.CauseHostLost, rca.CauseNotCalled, rca.CauseStorage, rca.CauseKernelNotRunning, rca.CauseCPU,
		rca.CauseGPU, rca.CauseUnknown,
	},
	rca.Inconsistent: {rca.CauseOtherOp, rca.CauseDeadlock},
	rca.Fault:        {rca.CauseGPU, rca.CauseNetworkSend, rca.CauseReceiver, rca.CausePCIe, rca.CauseProxy, rca.CauseProcessGone, rca.CauseHostLost, rca.CauseUnknown},
	rca.SlowCompute:  {rca.CauseGPU, rca.CauseCPU, rca.CauseStorage, rca.CauseUnknown},
	rca.SlowComm:     {rca.CauseNetworkSend, rca.CauseReceiver, rca.CausePCIe, rca.CauseProxy, rca.CauseGPU, rca.CauseUnknown},
	rca.SlowMixed:    {rca.CauseGPU, rca.CauseCPU, rca.CauseUnknown},
	rca.Imbalance:    {rca.CauseStage, rca.CauseRouting, rca.CauseData},
	rca.GlobalSlow:   {rca.CauseUnknown, rca.CauseCPU},
	rca.Benign:       {rca.CauseCheckpoint, rca.CauseFirstStep, rca.CauseJobEnd},
	rca.Healthy:      {rca.CauseUnknown},
	rca.Unknown:      {rca.CauseUnknown},
}

// verdictOf makes a verdict of a class and a cause. The sentences of the engine, which tell what it saw, stand in square brackets.
func verdictOf(class rca.Class, cause rca.Cause) rca.Verdict {
	v := rca.Verdict{
		Version: 1, JobID: "train", Class: class, Code: class.Code(), Cause: cause, Confidence: 0.95, Summary: "[What the engine found.]", Action: rca.ActionFor(class, cause),
		Evidence: []string{"[What it rests on.]"}, Missing: []string{"exporter node-2: no answer"}, WorldSize: 8, Culprits: []rca.Culprit{},
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
		if len(pairs[class]) == 0 {
			t.Errorf("class %s has no cause here", class)
		}
		for _, cause := range pairs[class] {
			causes[cause] = true
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
