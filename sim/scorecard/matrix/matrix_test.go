// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/sim/cluster"
)

func TestMatrixNamesAreUnique(t *testing.T) {
	for _, quick := range []bool{true, false} {
		seen := map[string]bool{}
		for _, c := range Cases(Options{Quick: quick, Seed: 1}) {
			if seen[c.Name] {
				t.Errorf("quick %v: %s twice", quick, c.Name)
			}
			seen[c.Name] = true
		}
	}
}

// Every case of the papers' tables is in both matrices, on its workloads, and the full one has Pulse's four severities.
func TestMatrixHasThePapersCases(t *testing.T) {
	for _, quick := range []bool{true, false} {
		all := Cases(Options{Quick: quick, Seed: 1})
		for _, p := range slices.Concat(MycroftCases(), CCLDCases(), PulseCases(), PulseTypes()) {
			for _, w := range p.Workloads {
				if !slices.ContainsFunc(all, func(c Case) bool {
					return p.Holds(c.Scenario, c.Severity, c.Workload) && c.Workload == w
				}) {
					t.Errorf("quick %v: no run of %q on %s", quick, p.Name, w)
				}
			}
		}
	}
	for _, kind := range []cluster.FaultKind{cluster.PCIeDowngrade, cluster.PCIeContention, cluster.Congestion, cluster.GPUThrottle} {
		degrees := map[string]bool{}
		for _, c := range Cases(Options{Seed: 1, Only: []string{string(kind) + "/"}}) {
			if c.Workload == "gpt-64" && c.Severity != Spikes && c.Severity != Fluctuation && c.Severity != fromStart {
				degrees[c.Severity] = true
			}
		}
		if len(degrees) != 4 || !degrees[HalfSeverity] {
			t.Errorf("%s has severities %v, want Pulse's four with %s among them", kind, degrees, HalfSeverity)
		}
	}
}

// Every severity is run at 64 ranks, every kind of fault at the severity that the floors are set at at 512, and of larger jobs what
// the plan says, always with a fair share of runs in which nothing is wrong; with --all-severities every one.
func TestMatrixScalesAndShares(t *testing.T) {
	all := Cases(Options{Seed: 1})
	severities := func(list []Case) map[string]bool {
		out := map[string]bool{}
		for _, c := range list {
			out[c.Scenario+"/"+c.Severity] = true
		}
		return out
	}
	at := func(list []Case, ranks int) []Case {
		return slices.DeleteFunc(slices.Clone(list), func(c Case) bool { return c.Ranks != ranks })
	}
	wide := severities(at(Cases(Options{Seed: 1, Seeds: 1, All: true}), 10240))
	for _, n := range Scales {
		list := at(all, n)
		quiet := 0
		for _, c := range list {
			if c.Group == GroupHealthy || c.Group == GroupBenign {
				quiet++
			}
		}
		if share := float64(quiet) / float64(max(1, len(list))); share < 0.09 {
			t.Errorf("%d ranks: %d of %d runs are quiet", n, quiet, len(list))
		}
		if n < 64 {
			continue // One host: nothing crosses the network.
		}
		got := severities(list)
		for s := range wide {
			kind, severity, _ := strings.Cut(s, "/")
			if n > 512 && !slices.Contains(largest, kind) {
				continue
			}
			if !slices.ContainsFunc(list, func(c Case) bool { return c.Scenario == kind }) {
				t.Errorf("%d ranks: no %s", n, kind)
			}
			if severity == HalfSeverity && !got[s] {
				t.Errorf("%d ranks: no %s", n, s)
			}
			if n == 64 && !got[s] {
				t.Errorf("%d ranks: no %s", n, s)
			}
		}
		if n > 512 && len(got) >= len(wide) {
			t.Errorf("%d ranks: all %d severities", n, len(wide))
		}
	}
}

func TestMatrixOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		opt  Options
		keep func(*Case) bool
	}{
		{"only", Options{Quick: true, Only: []string{"nic_down/", "healthy_gc"}}, func(c *Case) bool {
			return strings.Contains(c.Name, "nic_down/") || strings.Contains(c.Name, "healthy_gc")
		}},
		{"groups", Options{Quick: true, Groups: []string{GroupBenign}}, func(c *Case) bool { return c.Group == GroupBenign }},
		{"scale", Options{MinRanks: 512, Ranks: 512}, func(c *Case) bool { return c.Ranks == 512 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.opt.Whole() {
				t.Error("a part counts as the whole")
			}
			whole := c.opt
			whole.Only, whole.Groups, whole.MinRanks, whole.Ranks = nil, nil, 0, 0
			want := 0
			for _, x := range Cases(whole) {
				if c.keep(&x) {
					want++
				}
			}
			got := Cases(c.opt)
			if len(got) != want || want == 0 {
				t.Errorf("%d cases, want %d", len(got), want)
			}
			for i := range got {
				if !c.keep(&got[i]) {
					t.Errorf("%s is not asked for", got[i].Name)
				}
			}
		})
	}
}

// A case is drawn from its name and seed alone: what else runs does not change it.
func TestMatrixIsStable(t *testing.T) {
	one := Cases(Options{Quick: true, Seed: 3, Only: []string{"gpu_throttle/50%/gpt-64/3"}})
	if len(one) != 1 {
		t.Fatalf("%d cases", len(one))
	}
	for _, c := range Cases(Options{Seed: 2}) {
		if c.Name == one[0].Name && (c.Config.Seed != one[0].Config.Seed || c.Config.Faults[0] != one[0].Config.Faults[0]) {
			t.Errorf("drawn %+v in one matrix, %+v in the other", c.Config.Faults[0], one[0].Config.Faults[0])
		}
	}
}
