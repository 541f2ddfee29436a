// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/offline/report"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// keptCases are jobs of every class that the engine gives.
func keptCases(t *testing.T) map[rca.Class]rca.Evidence {
	example := func(name string) rca.Evidence {
		return analyze(t, filepath.Join("../../examples", name, "nodes")).Evidence
	}
	global := rcatest.NewSlowJob(4, 2, 2)
	global.Iters = 16
	global.Compute = func(_, it int) float64 {
		if it >= 8 {
			return 1.5
		}
		return 1
	}
	mixed := rcatest.NewSlowJob(8, 1, 1)
	mixed.Compute, mixed.Send = rcatest.One(2, 1.3), rcatest.One(2, 5)
	return map[rca.Class]rca.Evidence{
		rca.NotEntered:   example("op-not-entered"),
		rca.Inconsistent: example("deadlock"),
		rca.Fault:        example("stalled-nic"),
		rca.SlowCompute:  example("slow-gpu"),
		rca.SlowComm:     example("slow-link"),
		rca.Imbalance:    example("busy-expert"),
		rca.Benign:       example("checkpoint"),
		rca.GlobalSlow:   global.Evidence(),
		rca.SlowMixed:    mixed.Evidence(),
		rca.Healthy:      rcatest.NewSlowJob(4, 2, 2).Evidence(),
		rca.Unknown:      {JobID: "nobody", WorldSize: 8, Missing: []rca.Missing{{What: "exporter", Name: "node-1", Ranks: []int{0, 1}, Why: "no answer in time"}}},
	}
}

// An archive gives the verdict again that was told, byte by byte, whatever its class.
func TestKeptEvidenceGivesTheSameVerdict(t *testing.T) {
	opt := rca.Options{PageConfidence: 0.4, LateAfter: 700 * time.Millisecond}
	cases := keptCases(t)
	for _, class := range words.Classes() {
		t.Run(string(class), func(t *testing.T) {
			ev, ok := cases[class]
			if !ok {
				t.Fatal("no case")
			}
			v := engine.Analyze(ev, opt)
			if v.Class != class {
				t.Fatalf("the job is %s: %s", v.Class, v.Summary)
			}
			c := kept.Context{Patient: true, Patience: time.Hour}
			c.Apply(&v)
			again(t, kept.New(time.Now(), opt, ev, c, v), v)
		})
	}
}

// What was decided beside the engine comes out again, too: who is disputed, where the lost ran, how patient the service was.
func TestKeptContext(t *testing.T) {
	ev := keptCases(t)[rca.NotEntered]
	raw := engine.Analyze(ev, rca.Options{})
	rank := raw.Culprits[0].Rank
	for name, c := range map[string]kept.Context{
		"patient":   {Patient: true, Patience: time.Hour},
		"disputed":  {Disputed: map[int]string{rank: "two processes claim to be it"}},
		"elsewhere": {Places: map[int]kept.Place{rank: {Host: "lost", GPU: "7", PID: 12}}},
	} {
		t.Run(name, func(t *testing.T) {
			v := engine.Analyze(ev, rca.Options{})
			c.Apply(&v)
			if plain, _ := json.Marshal(raw); name != "elsewhere" && bytes.Equal(plain, encode(t, v)) {
				t.Fatal("the context changes nothing")
			}
			again(t, kept.New(time.Now(), rca.Options{}, ev, c, v), v)
		})
	}
}

func encode(t *testing.T, v rca.Verdict) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// again writes a record and has the command read it.
func again(t *testing.T, r *kept.Record, want rca.Verdict) {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	file := put(t, t.TempDir(), "evidence.tar.gz", b.Bytes())
	code, stdout, stderr := run(t, "", "--json", file)
	var d report.Document
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatalf("status %d, %v: %s", code, err, stderr)
	}
	if len(d.Sources) != 1 || d.Sources[0].Name != "kept evidence" {
		t.Errorf("sources are %+v", d.Sources)
	}
	if got, want := encode(t, d.Verdict), encode(t, want); !bytes.Equal(got, want) {
		t.Errorf("the archive gives\n%s\nit was\n%s", got, want)
	}
}
