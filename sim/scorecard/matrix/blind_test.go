// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"reflect"
	"testing"

	"github.com/culprit-project/culprit/sim/cluster"
)

// What is drawn is the same for a seed and another for another one, has everything in it, and can be simulated.
func TestBlind(t *testing.T) {
	const runs = 200
	list := Blind(7, runs)
	if !reflect.DeepEqual(names(list), names(Blind(7, runs))) || reflect.DeepEqual(names(list), names(Blind(8, runs))) {
		t.Error("the seed does not decide what is drawn")
	}
	seen := map[string]int{}
	for i := range list {
		c := &list[i]
		seen[c.Group]++
		seen[string(c.Level)]++
		seen[c.Scrape.String()]++
		if c.Ranks < blindLeastRanks || c.Ranks > blindMostRanks || c.Config.Job.World() != c.Ranks {
			t.Errorf("%s has %d ranks", c.Name, c.Ranks)
		}
		if _, err := cluster.New(c.Config); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		for _, f := range c.Config.Faults {
			if f.At >= c.Config.Until || f.Rank >= c.Ranks {
				t.Errorf("%s: %+v lies outside", c.Name, f)
			}
		}
	}
	for _, what := range []string{GroupHang, GroupSlow, GroupHealthy, GroupBenign, "kernels", "steps", "launches", "calls", "1s", "5s", "15s"} {
		if seen[what] < runs/50 {
			t.Errorf("%s: %d of %d runs", what, seen[what], runs)
		}
	}
}

func names(list []Case) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}
