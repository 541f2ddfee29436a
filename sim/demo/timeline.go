// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

// timeline prints what happens, with the time since the fault once there is one.
type timeline struct {
	mu    sync.Mutex
	out   io.Writer
	color bool
	start time.Time
	fault bool
}

func newTimeline(out *os.File) *timeline {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &timeline{out: out, color: terminal && os.Getenv("NO_COLOR") == "", start: time.Now()}
}

func (t *timeline) paint(code, s string) string {
	if !t.color {
		return s
	}
	return code + s + reset
}

// zero makes the given moment the origin of all further times.
func (t *timeline) zero(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start, t.fault = at, true
}

func (t *timeline) say(format string, args ...any) { t.at(time.Now(), format, args...) }

func (t *timeline) mark(format string, args ...any) {
	t.at(time.Now(), "%s", t.paint(bold, fmt.Sprintf(format, args...)))
}

// at prints a line for a moment that may have passed already.
func (t *timeline) at(when time.Time, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sign := " "
	if t.fault {
		sign = "t"
	}
	fmt.Fprintf(t.out, "%s%+7.1fs  %s\n", sign, when.Sub(t.start).Seconds(), fmt.Sprintf(format, args...))
}

// verdict prints who, where, why, and how that was found.
func (t *timeline) verdict(v *rca.Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t.out, "             %-12s %s\n", name, value)
		}
	}
	fmt.Fprintf(t.out, "\n             %s\n", t.paint(bold, v.Summary))
	class := string(v.Class)
	if v.Code != "" {
		class += " (" + v.Code + ")"
	}
	p("class", fmt.Sprintf("%s, cause %s, confidence %.2f", class, v.Cause, v.Confidence))
	for _, c := range v.Culprits {
		p("culprit", fmt.Sprintf("rank %d on %s, GPU %s, pid %d: %s", c.Rank, c.Host, c.GPU, c.PID, c.Why))
	}
	for i, l := range v.Chain {
		name := ""
		if i == 0 {
			name = "chain"
		}
		to := fmt.Sprintf("rank %d", l.To)
		if l.To == l.From {
			to = "itself"
		}
		fmt.Fprintf(t.out, "             %-12s rank %d waits for %s: %s\n", name, l.From, to, l.Reason)
	}
	p("evidence", strings.Join(v.Evidence, "\n                          "))
	p("missing", strings.Join(v.Missing, "\n                          "))
	p("do", v.Action)
	fmt.Fprintln(t.out)
}

func (t *timeline) result(ok bool, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ok {
		fmt.Fprintf(t.out, "             %s %s\n\n", t.paint(green+bold, "RIGHT"), text)
	} else {
		fmt.Fprintf(t.out, "             %s %s\n\n", t.paint(red+bold, "WRONG"), text)
	}
}

func (t *timeline) addresses(s *stack.Stack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "             analyzer     %s\n             prometheus   %s\n             alertmanager %s\n             exporter     %s/metrics\n\n",
		s.AnalyzerURL(), s.PrometheusURL(), s.AlertmanagerURL(), s.ExporterURL(0))
}
