// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stackdump

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

const merged = `State@S@0-3| 1
<module>@train.py@0-3|;main@train.py@0-3|;all_reduce@torch/distributed/distributed_c10d.py@0-2|3 1
<module>@train.py@0-3|;main@train.py@0-3|;acquire@threading.py@3|0-2 1
_bootstrap@threading.py@0/2-3|1;run@threading.py@0/2-3|1 1
`

// flame is the same as a flame graph, without the rest of what such a file has.
const flame = `<?xml version="1.0" standalone="no"?>
<svg version="1.1" width="1600" height="102">
<g id="frames">
<g ><title>all (4 samples, 100%)</title><rect x="10.0" y="69" width="1580.0" height="15.0" /></g>
<g ><title>&lt;module&gt;@train.py@0-3| (2 samples, 50.00%)</title><rect x="10.0" y="53" width="790.0" height="15.0" /></g>
<g ><title>_bootstrap@threading.py@0/2-3|1 (1 samples, 25.00%)</title><rect x="800.0" y="53" width="395.0" height="15.0" /></g>
<g ><title>State@S@0-3| (1 samples, 25.00%)</title><rect x="1195.0" y="53" width="395.0" height="15.0" /></g>
<g ><title>main@train.py@0-3| (2 samples, 50.00%)</title><rect x="10.0" y="37" width="790.0" height="15.0" /></g>
<g ><title>run@threading.py@0/2-3|1 (1 samples, 25.00%)</title><rect x="800.0" y="37" width="395.0" height="15.0" /></g>
<g ><title>acquire@threading.py@3|0-2 (1 samples, 25.00%)</title><rect x="10.0" y="21" width="395.0" height="15.0" /></g>
<g ><title>all_reduce@torch/distributed/distributed_c10d.py@0-2|3 (1 samples, 25.00%)</title><rect x="405.0" y="21" width="395.0" height="15.0" /></g>
</g></svg>
`

func TestMerged(t *testing.T) {
	for name, text := range map[string]string{"folded": merged, "flame graph": flame} {
		if !Sniff([]byte(text)) {
			t.Fatalf("%s is not recognised", name)
		}
		all, err := Parse("py_stack", []byte(text))
		if err != nil || len(all) != 4 {
			t.Fatalf("%s: %d processes, %v", name, len(all), err)
		}
		if got := all[3].Main(); all[3].Rank != 3 || !slices.Equal(got, []string{"<module> (train.py)", "main (train.py)", "acquire (threading.py)"}) {
			t.Errorf("%s: rank %d at %q", name, all[3].Rank, got)
		}
		if n := len(all[1].Threads); n != 1 {
			t.Errorf("%s: rank 1 has %d threads: %+v", name, n, all[1].Threads)
		}
		ev, _, global := Evidence(all, Known{ByName: func(string) int { return -1 }})
		v := engine.Analyze(ev, rca.Options{HangAfter: 1})
		if !global || v.Class != rca.NotEntered || len(v.Culprits) != 1 || v.Culprits[0].Rank != 3 {
			t.Errorf("%s: %s %v: %s", name, v.Class, v.Culprits, v.Summary)
		}
	}
	if Sniff([]byte(strings.ReplaceAll(flame, "|", ":"))) {
		t.Error("any flame graph is taken for one of ranks")
	}
}
