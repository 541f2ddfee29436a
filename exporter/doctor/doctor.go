// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor looks for what keeps Culprit from working on a node and in its cluster, and says what to do. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/culprit-project/culprit/internal/terminal"
)

// timeout bounds one request.
const timeout = 10 * time.Second

// State is what a check came to.
type State int

// States.
const (
	OK       State = iota
	NotAsked       // The option that says where to look is not set, or there is nothing to look at.
	Warning        // It works, but worse than it could.
	Failed
)

func (s State) String() string { return [...]string{"ok", "not asked", "warning", "FAILED"}[s] }

// Finding is one fact.
type Finding struct {
	Check string // One word or two: what was looked at.
	State State
	Fact  string
	Do    string // A command, or a setting; empty where nothing needs to be done. What is not ours in it is quoted for a shell.
}

// Options say where to look. An empty URL is not asked.
type Options struct {
	Node            bool     // Look at this node, too: at the directories, its processes and its exporter.
	Dirs            []string // Of trace files.
	ProcFS          string
	ExporterURL     string
	PrometheusURL   string
	RulesURL        string // What evaluates rules; empty: Prometheus.
	AlertmanagerURL string
	AnalyzerURL     string
	// ExporterJob and AnalyzerJob are the names of the scrape jobs, which the rules select by.
	ExporterJob, AnalyzerJob string
	// ScrapeInterval is the longest that the windows of the rules allow.
	ScrapeInterval time.Duration
	// Probe has a synthetic trigger posted to Alertmanager.
	Probe  bool
	Client *http.Client

	labels        map[string]string // Of triggers, as the loaded rules have them.
	probePatience time.Duration
}

// Examine makes all checks.
func Examine(ctx context.Context, o Options) []Finding {
	if o.Client == nil {
		o.Client = &http.Client{Timeout: timeout}
	}
	o.probePatience = probePatience
	var findings []Finding
	if o.Node {
		for _, dir := range o.Dirs {
			findings = append(findings, directory(dir)...)
		}
		findings = append(findings, processes(o.ProcFS, o.Dirs)...)
		findings = append(findings, exporter(ctx, &o)...)
	}
	for _, check := range []func(context.Context, *Options) []Finding{analyzer, prometheus, alertmanager, probe} {
		findings = append(findings, check(ctx, &o)...)
	}
	return findings
}

// maxPrinted bounds a printed fact, in characters: what processes and services are called is up to others.
const maxPrinted = 2000

// Print writes findings for people, each on lines of its own whatever is in it. It reports whether nothing failed.
func Print(w io.Writer, findings []Finding) bool {
	counts := map[State]int{}
	for _, f := range findings {
		counts[f.State]++
		fmt.Fprintf(w, "%-10s %-14s %s\n", f.State, f.Check, terminal.Short(f.Fact, maxPrinted))
		if f.Do != "" {
			fmt.Fprintf(w, "%26s%s\n", "", "do: "+terminal.Short(f.Do, maxPrinted))
		}
	}
	fmt.Fprintf(w, "\n%d failed, %d warnings, %d ok, %d not asked\n", counts[Failed], counts[Warning], counts[OK], counts[NotAsked])
	return counts[Failed] == 0
}

func ok(check, format string, args ...any) Finding {
	return Finding{Check: check, State: OK, Fact: fmt.Sprintf(format, args...)}
}
