// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// traces gives all nodes' recent history as bytes.
func traces(t testing.TB, rec *Recording) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for h := range rec.Hosts() {
		if !rec.Answers(h) {
			continue
		}
		if err := rec.Trace(h, time.Hour, func(l *nodeapi.TraceLine) error { return enc.Encode(l) }); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// A simulation that is looked at on its way arrives where one that is not does.
func TestAdvanceInStepsGivesTheSameBytes(t *testing.T) {
	uneven := Job{Model: Mixtral, TP: 8, DP: 4, EP: 4, MicroBatches: 4, MicroBatchSize: 2, Sharding: ZeRO, RoutingImbalance: 0.05, GCEvery: 2, CheckpointEvery: 3}
	for _, c := range []struct {
		name  string
		job   Job
		fault Fault
	}{
		{"healthy", gpt64(), Fault{}},
		{"nic down", gpt64(), Fault{Kind: NICDown, Rank: 9, At: 18 * time.Second}},
		{"other size", gpt64(), Fault{Kind: OtherSize, Rank: 12, At: 15 * time.Second}},
		{"process stopped", gpt64(), Fault{Kind: ProcessStopped, Rank: 20, At: 15130 * time.Millisecond}},
		{"slow pipeline", gpt64(), Fault{Kind: GPUThrottle, Rank: 40, At: 10 * time.Second, Remaining: 0.4}},
		{"experts", uneven, Fault{Kind: ProxyDelay, Rank: 3, At: 9 * time.Second, Remaining: 0.99, Delay: 20 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Seed: 11, Until: 25 * time.Second, Job: c.job}
			if c.fault.Kind != "" {
				cfg.Faults = []Fault{c.fault}
			}
			whole, answer := mustRun(t, cfg)
			x, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			for step := 1; x.Now() < cfg.Until; step++ {
				if err := x.Advance(t.Context(), time.Duration(step)*170*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				if step%20 == 0 { // Looking changes nothing.
					states(t, x.Recording())
					x.Answer()
				}
			}
			if x.Now() != cfg.Until {
				t.Errorf("advanced to %v, past the end %v", x.Now(), cfg.Until)
			}
			if !bytes.Equal(states(t, whole), states(t, x.Recording())) {
				t.Error("states differ")
			}
			if !bytes.Equal(traces(t, whole), traces(t, x.Recording())) {
				t.Error("histories differ")
			}
			if !reflect.DeepEqual(answer, x.Answer()) {
				t.Errorf("answers differ: %+v and %+v", answer, x.Answer())
			}
		})
	}
}
