// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/catalog"
	"github.com/culprit-project/culprit/sim/cluster"
)

// Every kind that the simulator knows can be asked for by name, with its defaults, and has an effect to be sealed.
func TestEveryFaultOfTheSimulatorHasAName(t *testing.T) {
	source, err := os.ReadFile("../cluster/fault.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`FaultKind += "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(kinds) < 30 {
		t.Fatalf("%d kinds in the simulator's source", len(kinds))
	}
	w, err := catalog.FindWorkload("mixtral-32")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Set("pp", "2"); err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		text := k[1] + ":rank=3:for=2s"
		if k[1] == string(cluster.Congestion) {
			text += ":peer=9"
		}
		f, err := catalog.ParseFault(text)
		if err != nil {
			t.Error(err)
			continue
		}
		x, err := cluster.New(cluster.Config{Seed: 1, Until: time.Minute, Hardware: w.Hardware, Job: w.Job, Faults: []cluster.Fault{f}})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := x.Answer().Truths; len(got) != 1 || got[0].Fault != k[1] || got[0].Class == "" {
			t.Errorf("%s: sealed %+v", k[1], got)
		}
	}
	if len(catalog.FaultKinds()) != len(kinds) {
		t.Errorf("%d kinds have names, the simulator knows %d", len(catalog.FaultKinds()), len(kinds))
	}
}

func TestParseFault(t *testing.T) {
	for _, c := range []struct {
		text string
		want cluster.Fault
	}{
		{"nic_down:rank=9:at=40s", cluster.Fault{Kind: cluster.NICDown, Rank: 9, At: 40 * time.Second}},
		{"gpu_throttle:rank=1:severity=0.75:every=20s:for=5s", cluster.Fault{
			Kind: cluster.GPUThrottle, Rank: 1, At: catalog.DefaultAt, For: 5 * time.Second, Every: 20 * time.Second, Remaining: 0.25,
		}},
		{"link_flap:severity=0.3", cluster.Fault{Kind: cluster.LinkFlap, At: catalog.DefaultAt, Remaining: 0.3}},
		{"congestion:rank=8:peer=16:severity=0.5", cluster.Fault{Kind: cluster.Congestion, Rank: 8, Peer: 16, At: catalog.DefaultAt, Remaining: 0.5}},
		{"stage_imbalance:rank=4:severity=2:iteration=5", cluster.Fault{
			Kind: cluster.StageImbalance, Rank: 4, At: catalog.DefaultAt, Remaining: 0.5, FromIteration: 5,
		}},
		{"other_size:slot=tp", cluster.Fault{Kind: cluster.OtherSize, At: catalog.DefaultAt, Slot: "tp"}},
		{"proxy_delay:severity=0.25:delay=5ms", cluster.Fault{Kind: cluster.ProxyDelay, At: catalog.DefaultAt, Delay: 5 * time.Millisecond, Remaining: 0.75}},
	} {
		got, err := catalog.ParseFault(c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{
		"", "fire", "nic_down:rank", "nic_down:rank=-1", "nic_down:severity=0.5", "gpu_throttle:severity=2", "gpu_throttle:severity=NaN",
		"gpu_throttle:at=soon", "gpu_throttle:every=5s", "gpu_throttle:peer=3", "congestion:rank=3", "gpu_throttle:colour=red", "stage_imbalance:at=3s",
	} {
		if f, err := catalog.ParseFault(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, f)
		}
	}
}

func TestWorkloads(t *testing.T) {
	for _, w := range catalog.Workloads() {
		if !strings.Contains(w.Name, "-") || w.Help == "" || w.Ranks() < 4 || w.Hosts()*w.Hardware.GPUsPerHost < w.Ranks() {
			t.Errorf("%+v", w)
		}
		if _, err := cluster.New(cluster.Config{Until: time.Second, Hardware: w.Hardware, Job: w.Job}); err != nil {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
	w, err := catalog.FindWorkload("gpt-64")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range [][2]string{{"dp", "2"}, {"checkpoint-every", "3"}, {"checkpoint-time", "9s"}, {"seq-imbalance", "0.3"}, {"job-id", "mine"}} {
		if err := w.Set(s[0], s[1]); err != nil {
			t.Error(err)
		}
	}
	if j := w.Job; j.DP != 2 || j.CheckpointEvery != 3 || j.CheckpointTime != 9*time.Second || j.SeqImbalance != 0.3 || j.ID != "mine" || w.Ranks() != 32 {
		t.Errorf("%+v", j)
	}
	for _, s := range [][2]string{{"dp", "-2"}, {"dp", "x"}, {"checkpoint-time", "9"}, {"jitter", "NaN"}, {"wings", "2"}} {
		if err := w.Set(s[0], s[1]); err == nil {
			t.Errorf("%v was taken", s)
		}
	}
	if _, err := catalog.FindWorkload("bert"); err == nil {
		t.Error("a workload of an unknown name was found")
	}
}

func FuzzParseFault(f *testing.F) {
	f.Add("nic_bandwidth:rank=9:at=40s:severity=0.75")
	f.Add("stage_imbalance:iteration=5:severity=2:every=3s:for=1s")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := catalog.ParseFault(text)
		if err == nil && (got.Rank < 0 || got.Remaining < 0 || got.Remaining > 1 || got.At < 0) {
			t.Errorf("%q gave %+v", text, got)
		}
	})
}
