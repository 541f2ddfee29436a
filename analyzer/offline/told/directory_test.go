// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package told

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
)

func TestResolve(t *testing.T) {
	d := NewDirectory()
	d.Add(Process{Rank: 0, PID: 4000, Host: "gpu-a", GPU: "0", Bus: Bus("1000.")})
	d.Add(Process{Rank: 1, PID: 4001, Host: "gpu-a.example.org", GPU: "1", Bus: Bus("2000.")})
	d.Add(Process{Rank: 2, PID: 4001, Host: "gpu-b", GPU: "0", Bus: Bus("1000.")})
	for name, c := range map[string]struct {
		find func(*Finding)
		want int
	}{
		"pid of one host":              {func(f *Finding) { f.PID = 4000 }, 0},
		"pid of two hosts":             {func(f *Finding) { f.PID = 4001 }, -1},
		"pid and host":                 {func(f *Finding) { f.PID, f.Host = 4001, "gpu-b" }, 2},
		"host without its domain":      {func(f *Finding) { f.PID, f.Host = 4001, "gpu-a" }, 1},
		"host that nobody runs on":     {func(f *Finding) { f.PID, f.Host = 4000, "gpu-z" }, -1},
		"bus as the driver writes it":  {func(f *Finding) { f.Bus = "0000:02:00" }, 1},
		"bus of two hosts":             {func(f *Finding) { f.Bus = "0000:01:00.0" }, -1},
		"bus and host":                 {func(f *Finding) { f.Bus, f.Host = "0000:01:00.0", "gpu-b" }, 2},
		"GPU number without a host":    {func(f *Finding) { f.GPU = "0" }, -1},
		"GPU number of a host":         {func(f *Finding) { f.GPU, f.Host = "0", "gpu-b" }, 2},
		"worker of one parallelism":    {func(f *Finding) { f.Worker = "Worker_TP2" }, 2},
		"worker of several":            {func(f *Finding) { f.Worker = "Worker_DP0_TP1_EP1" }, -1},
		"replica, a job of its own":    {func(f *Finding) { f.Worker = "EngineCore_DP1" }, -1},
		"pod, whose number is no rank": {func(f *Finding) { f.Worker = "train-worker-5" }, -1},
	} {
		f := New(grammar.GPUHardware, "x")
		c.find(&f)
		d.Resolve(&f)
		if f.Rank != c.want {
			t.Errorf("%s: rank %d, want %d", name, f.Rank, c.want)
		}
	}
}

func TestBus(t *testing.T) {
	for _, same := range [][2]string{{"0000:02:00", "2000."}, {"0000:02:00.0", "2000"}, {"0000:4E:00.0", "4e000"}} {
		if a, b := Bus(same[0]), Bus(same[1]); same[1] != "2000" && a != b && a != Bus(same[1]+".") {
			t.Errorf("%s is %s, %s is %s", same[0], a, same[1], b)
		}
	}
	if got := Bus(""); got != "" {
		t.Errorf("no address is %q", got)
	}
}
