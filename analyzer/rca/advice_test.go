// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"strings"
	"testing"
)

func TestActionForFacts(t *testing.T) {
	mine := Culprit{Rank: 5, Host: "node-1"}
	for name, c := range map[string]struct {
		cause Cause
		facts []Fact
		want  string // Part of the action; empty: none.
		keeps bool
	}{
		"power cap":          {CauseGPU, []Fact{{Rank: 5, Kind: "clock_throttled", Text: "GPU 1 runs at 465 MHz instead of 1410 MHz: power_cap"}}, "power limit", true},
		"heat beside a cap":  {CauseGPU, []Fact{{Rank: 5, Kind: "clock_throttled", Text: "GPU 1 runs at 465 MHz: hw_thermal, power_cap"}}, "cooling", false},
		"the Xid weighs":     {CauseGPU, []Fact{{Rank: 5, Kind: "clock_throttled", Text: "power_cap"}, {Rank: 5, Kind: "xid"}}, "Xid", false},
		"of the whole host":  {CauseCPU, []Fact{{Rank: -1, Host: "node-1", Kind: "cpu_pressure"}}, "CPU limit", true},
		"another rank's":     {CauseGPU, []Fact{{Rank: 4, Host: "node-1", Kind: "xid"}}, "", false},
		"another host's":     {CauseCPU, []Fact{{Rank: -1, Host: "node-2", Kind: "cpu_pressure"}}, "", false},
		"another cause's":    {CauseNetworkSend, []Fact{{Rank: 5, Kind: "xid"}}, "", false},
		"nothing":            {CauseGPU, nil, "", false},
		"throttled, no text": {CauseGPU, []Fact{{Rank: 5, Kind: "clock_throttled"}}, "", false},
	} {
		got := ActionForFacts(c.cause, &mine, c.facts)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || KeepsHost(got) != c.keeps {
			t.Errorf("%s: %q, keeps the host: %t", name, got, KeepsHost(got))
		}
	}
	if KeepsHost("") || KeepsHost(ActionFor(Fault, CauseGPU)) {
		t.Error("the host of a broken GPU stays in service")
	}
}
