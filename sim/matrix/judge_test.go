// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// page is a right page for a link stalled at rank 3 unless changed.
func page(change func(*Said)) Said {
	s := Said{Seconds: 4.5, Ranks: []int{3}, Host: "node1", GPU: "1", Class: rca.Fault, Cause: rca.CauseNetworkSend, Page: true, Summary: "s"}
	if change != nil {
		change(&s)
	}
	return s
}

func TestJudge(t *testing.T) {
	good := page(nil)
	innocent := page(func(s *Said) { s.Ranks = []int{1} })
	early := page(func(s *Said) { s.Seconds = -3 })
	nobody := page(func(s *Said) { s.Ranks, s.Host = nil, ""; s.Class, s.Cause = rca.Unknown, rca.CauseUnknown })
	cause := page(func(s *Said) { s.Cause = rca.CauseGPU })
	host := page(func(s *Said) { s.Host = "node0" })
	gpu := page(func(s *Said) { s.GPU = "0" })
	inside := page(func(s *Said) { s.Ranks, s.GPU = nil, "" })
	elsewhere := page(func(s *Said) { s.Ranks, s.GPU, s.Host = nil, "", "node0" })
	place := func(gpu string) []Said {
		return []Said{page(func(s *Said) { s.Class, s.Cause, s.GPU = rca.NotEntered, rca.CauseNotCalled, gpu })}
	}
	both := page(func(s *Said) { s.Ranks = []int{3, 5} })
	quiet := page(func(s *Said) { s.Page, s.Class, s.Cause = false, rca.Benign, rca.CauseCheckpoint })
	warned := page(func(s *Said) { s.Page, s.Ranks, s.Over = false, []int{1}, true })
	warning := page(func(s *Said) { s.Page, s.Ranks = false, []int{1} })
	triggers := []string{"CulpritJobStalled"}
	for name, x := range map[string]struct {
		fault    string
		duty     Duty
		triggers []string
		pages    []Said
		verdicts []Said
		status   Status
		why      string
	}{
		"named":                       {"link-stall", MustName, triggers, []Said{good}, []Said{good}, Right, ""},
		"innocent":                    {"link-stall", MustName, triggers, []Said{innocent}, []Said{innocent}, Wrong, "paged for rank [1]"},
		"innocent beside the guilty":  {"link-stall", MustName, triggers, []Said{good, innocent}, []Said{good}, Wrong, "paged for rank [1]"},
		"innocent in the verdict":     {"link-stall", MustName, triggers, []Said{good}, []Said{both}, Wrong, "names rank [3 5]"},
		"before the fault":            {"link-stall", MustName, triggers, []Said{early, good}, []Said{good}, Wrong, "3.0 s before"},
		"wrong cause":                 {"link-stall", MustName, triggers, []Said{cause}, []Said{cause}, Wrong, "cause gpu"},
		"wrong host":                  {"link-stall", MustName, triggers, []Said{host}, []Said{host}, Wrong, `want "node1"`},
		"another GPU of the process":  {"link-stall", MustName, triggers, []Said{gpu}, []Said{gpu}, Wrong, `GPU "0", want "1"`},
		"no GPU is known yet":         {"init-hang", MustName, triggers, place(""), place(""), Right, ""},
		"no communicator, other GPU":  {"init-hang", MustName, triggers, place("0"), place("0"), Wrong, `GPU "0", want "1"`},
		"a GPU is known":              {"link-stall", MustName, triggers, []Said{page(func(s *Said) { s.GPU = "" })}, nil, Wrong, `GPU "", want "1"`},
		"the verdict changed":         {"link-stall", MustName, triggers, []Said{good}, []Said{cause}, Wrong, "verdict behind it"},
		"the host, then the rank":     {"link-stall", MustName, triggers, []Said{inside, good}, []Said{good}, Right, ""},
		"another host, then the rank": {"link-stall", MustName, triggers, []Said{elsewhere, good}, []Said{good}, Wrong, "host node0, which is innocent"},
		"page without a name":         {"link-stall", MustName, triggers, []Said{nobody}, nil, Wrong, "names nobody"},
		"unknown where a name is due": {"link-stall", MustName, triggers, nil, []Said{nobody}, Wrong, "nobody was paged; the verdict: unknown"},
		"silence":                     {"link-stall", MustName, nil, nil, nil, Wrong, "triggers: []"},

		"unknown":                         {"link-stall", MayBeUnknown, triggers, nil, []Said{nobody}, Unknown, ""},
		"unknown, paged":                  {"link-stall", MayBeUnknown, triggers, []Said{nobody}, []Said{nobody}, Unknown, ""},
		"named where it need not":         {"link-stall", MayBeUnknown, triggers, []Said{good}, []Said{good}, Right, ""},
		"wrong cause where it need not":   {"link-stall", MayBeUnknown, triggers, []Said{cause}, []Said{cause}, Wrong, "cause gpu"},
		"innocent where it need not":      {"link-stall", MayBeUnknown, triggers, []Said{innocent}, nil, Wrong, "innocent"},
		"stands still unseen":             {"link-stall", MayBeUnknown, nil, nil, nil, Wrong, "no trigger"},
		"silent where nothing can show":   {"init-hang", MayBeSilent, nil, nil, nil, Unknown, ""},
		"innocent where nothing can show": {"init-hang", MayBeSilent, triggers, []Said{innocent}, nil, Wrong, "innocent"},

		"healthy":                    {"none", Nobody, nil, nil, nil, Right, ""},
		"healthy, paged":             {"none", Nobody, triggers, []Said{good}, nil, Wrong, "paged for nothing"},
		"healthy, named":             {"none", Nobody, triggers, nil, []Said{quiet}, Wrong, "innocent"},
		"warned of a pause":          {"none", Nobody, triggers, nil, []Said{warned}, Right, ""},
		"warns still":                {"none", Nobody, triggers, nil, []Said{warning}, Wrong, "innocent"},
		"pause":                      {"checkpoint", Nobody, triggers, nil, []Said{quiet}, Right, ""},
		"pause, paged without name":  {"checkpoint", Nobody, triggers, []Said{nobody}, nil, Wrong, "paged for nothing"},
		"pause, another rank blamed": {"checkpoint", Nobody, triggers, nil, []Said{innocent}, Wrong, "innocent"},
	} {
		t.Run(name, func(t *testing.T) {
			f, ok := stack.FindFault(x.fault)
			if !ok {
				t.Fatalf("no fault %s", x.fault)
			}
			got := Judge(&Seen{Fault: f, Duty: x.duty, Rank: 3, Host: "node1", GPU: "1", Triggers: x.triggers, Pages: x.pages, Verdicts: x.verdicts})
			if got.Status != x.status || !strings.Contains(got.Why, x.why) || (got.Why == "") != (x.status != Wrong) {
				t.Errorf("%+v, want %s, %q", got, x.status, x.why)
			}
			if got.Status == Right && x.duty != Nobody && got.PageSeconds != 4.5 {
				t.Errorf("paged after %g s", got.PageSeconds)
			}
		})
	}
}

// TestDuties: a source must name what it can show; each exception is meant.
func TestDuties(t *testing.T) {
	const kernels, none, lost = "2.28.9", "2.32.3", "2.30.7"
	for _, x := range []struct {
		version string
		mode    Mode
		fault   string
		want    Duty
	}{
		{none, Net, "link-stall", MustName},
		{none, Hooks, "link-stall", MayBeUnknown},
		{none, Chain, "gpu-freeze", MustName},
		{kernels, SHM, "gpu-freeze", MayBeUnknown},
		{kernels, SHM, "kernel-stall", MustName},
		{lost, SHM, "kernel-stall", MayBeUnknown},
		{lost, Net, "kernel-stall", MustName},
		{none, SHM, "kernel-stall", MayBeUnknown},
		{none, Net, "kernel-stall", MustName},
		{none, Hooks, "op-not-entered", MustName},
		{none, Hooks, "other-op", MustName},
		{none, Hooks, "kill", MustName},
		{none, Hooks, "gpu-slow", MayBeSilent},
		{none, Net, "gpu-slow", MustName},
		{none, Net, "init-hang", MayBeSilent},
		{none, SHM, "init-hang", MustName},
		{none, Hooks, "split-hang", MustName},
		{none, Chain, "split-hang", MayBeSilent},
		{none, Hooks, "checkpoint", Nobody},
	} {
		f, ok := stack.FindFault(x.fault)
		if !ok {
			t.Fatalf("no fault %s", x.fault)
		}
		if got := SightOf(Case{x.version, x.mode, x.fault}).Duty(f); got != x.want {
			t.Errorf("%s %s %s: duty %d, want %d", x.version, x.mode, x.fault, got, x.want)
		}
	}
}

// TestEveryFaultIsKnown: each column of the matrix has an answer that is right.
func TestEveryFaultIsKnown(t *testing.T) {
	for _, name := range Faults {
		if _, ok := stack.FindFault(name); !ok {
			t.Errorf("nobody knows what is right for %s", name)
		}
	}
	for _, list := range Lists {
		cases, err := ByList(list, []string{"2.30.7"})
		if err != nil || len(cases) == 0 {
			t.Errorf("%s: %d cases, %v", list, len(cases), err)
		}
		if _, err := Only(cases, nil, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestRanksOfAPage(t *testing.T) {
	for label, want := range map[string][]int{"": nil, "3": {3}, "0,4-6": {0, 4, 5, 6}, "rail 2": nil, "1-x": nil, "-1": nil} {
		if got := ranksOf(label); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", label, got, want)
		}
	}
}
