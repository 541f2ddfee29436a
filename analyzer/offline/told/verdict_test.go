// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package told

import (
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/rca"
)

func of(kind grammar.Kind, rank int, says string) Finding {
	f := New(kind, says)
	f.Rank = rank
	return f
}

// The headline is the strongest thing that was seen; the weaker becomes evidence.
func TestApply(t *testing.T) {
	silent := rca.Verdict{Class: rca.NotEntered, Cause: rca.CauseNotCalled, Summary: "Rank 2 did not come.", Culprits: []rca.Culprit{{Rank: 2}}, WorldSize: 4, Stalled: 3}
	waits := rca.Verdict{Class: rca.Unknown, Summary: "3 ranks wait.", WorldSize: 4, Stalled: 3}
	for name, c := range map[string]struct {
		verdict rca.Verdict
		found   []Finding
		class   rca.Class
		head    string
		ranks   []int
	}{
		"nothing said": {silent, nil, rca.NotEntered, "Rank 2 did not come.", []int{2}},
		"hardware goes before a rank that did not come": {
			silent, []Finding{of(grammar.GPUHardware, 1, "its GPU reported an uncorrectable ECC error")}, rca.Fault, "Rank 1: its GPU reported an uncorrectable ECC error", []int{1},
		},
		"a broken connection does not": {silent, []Finding{of(grammar.RemoteError, 1, "lost its connection to a peer")}, rca.NotEntered, "Rank 2 did not come.", []int{2}},
		"health does not stand against a victim's word": {
			rca.Verdict{Class: rca.Healthy, Summary: "All is well.", WorldSize: 4}, []Finding{of(grammar.RemoteError, 1, "lost its connection to a peer")}, rca.Unknown, "Rank 1 lost its connection", nil,
		},
		"of two the stronger": {
			waits, []Finding{of(grammar.Raised, 3, "raised ValueError: mine"), of(grammar.HostMemory, 0, "was killed by the kernel")}, rca.Fault, "Rank 0 was killed", []int{0},
		},
		"of equals the one whose subject is known": {
			waits, []Finding{New(grammar.Raised, "raised KeyError: 'x'"), of(grammar.Raised, 3, "raised ValueError: mine")}, rca.Fault, "Rank 3 raised ValueError", []int{3},
		},
		"several in one sentence": {
			waits,
			[]Finding{of(grammar.HostMemory, 1, "was killed by the kernel"), of(grammar.HostMemory, 2, "was killed by the kernel"), of(grammar.HostMemory, 3, "was killed by the kernel")},
			rca.Fault, "Ranks 1-3 were killed",
			[]int{1, 2, 3},
		},
		"an exception of all accuses none": {
			rca.Verdict{Class: rca.Unknown, WorldSize: 2}, []Finding{of(grammar.Raised, 0, "raised ValueError: mine"), of(grammar.Raised, 1, "raised ValueError: mine")}, rca.Fault, "Ranks 0, 1 raised", nil,
		},
		"a suspect is no culprit": {
			rca.Verdict{Class: rca.Unknown}, []Finding{of(grammar.Exited, 1, "ended with exit code 1")}, rca.Unknown, "Rank 1 ended with exit code 1", []int{-1},
		},
	} {
		v := Apply(c.verdict, c.found)
		if v.Class != c.class || !strings.HasPrefix(v.Summary, c.head) {
			t.Errorf("%s: %s, %q", name, v.Class, v.Summary)
		}
		if len(v.Culprits) != len(c.ranks) {
			t.Errorf("%s: names %v, want %v", name, v.Culprits, c.ranks)
			continue
		}
		for i, want := range c.ranks {
			if v.Culprits[i].Rank != want {
				t.Errorf("%s: names %v, want %v", name, v.Culprits, c.ranks)
			}
		}
		for i := range c.found {
			if c.found[i].Rank >= 0 && !strings.Contains(v.Summary+strings.Join(v.Evidence, " "), c.found[i].Says[strings.LastIndex(c.found[i].Says, " ")+1:]) {
				t.Errorf("%s: %q is neither headline nor evidence", name, c.found[i].Says)
			}
		}
	}
}

// Each kind that the table gives a meaning of its own says what to do, and none has two.
func TestMeanings(t *testing.T) {
	seen := map[grammar.Kind]bool{}
	for i := range meanings {
		m := &meanings[i]
		if m.action == "" || m.strength <= 0 || m.strength >= 1 || seen[m.kind] {
			t.Errorf("%s: strength %v, action %q, twice %t", m.kind, m.strength, m.action, seen[m.kind])
		}
		if !m.unknown && m.cause == "" {
			t.Errorf("%s decides a verdict without a cause", m.kind)
		}
		seen[m.kind] = true
	}
}

func TestJoin(t *testing.T) {
	first := of(grammar.Raised, 1, "raised ValueError: mine")
	again := of(grammar.Raised, 1, "raised ValueError: mine")
	again.Peer = "gpu-a"
	got := Join([]Finding{first, New(grammar.Raised, "raised KeyError: 1"), again, New(grammar.Raised, "raised KeyError: 2")})
	if len(got) != 3 || got[0].Peer != "gpu-a" {
		t.Errorf("joined to %v", got)
	}
}
