// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package mycroft

import (
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestM8Table4(t *testing.T) {
	for _, c := range []struct {
		counters Counters
		want     []Row
	}{
		{Counters{0, 0, 0}, []Row{NotStarted}},
		{Counters{4, 2, 2}, []Row{NotTransmitted}},
		{Counters{4, 4, 2}, []Row{NotDelivered}},
		{Counters{4, 3, 2}, []Row{NotTransmitted, NotDelivered}},
		{Counters{4, 4, 4}, []Row{GPUNotReady}},
	} {
		if got := Table(c.counters); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.counters, got, c.want)
		}
	}
	for row, want := range map[Row][2]string{
		NotStarted: {"uninitialized", "blocked"}, NotTransmitted: {"RDMA issue", "receiver not ready"},
		NotDelivered: {"RDMA issue", "receiver failed"}, GPUNotReady: {"GPU issue", ""},
	} {
		if row.Local != want[0] || row.Remote != want[1] {
			t.Errorf("%s: %q and %q, want %q", row.State, row.Local, row.Remote, want)
		}
	}
}

// TestM8SenderAndReceiver is section 5.3: a sender at 1=2>3 whose receiver is at 1=2=3 points at the receiver.
func TestM8SenderAndReceiver(t *testing.T) {
	for _, c := range []struct {
		sender, receiver Counters
		want             Side
	}{
		{Counters{4, 4, 2}, Counters{2, 2, 2}, Receiver},
		{Counters{4, 4, 4}, Counters{4, 4, 4}, Sender},
		{Counters{4, 2, 2}, Counters{2, 2, 2}, Unclear},
		{Counters{4, 4, 2}, Counters{4, 2, 2}, Unclear},
	} {
		if got := Compare(c.sender, c.receiver); got != c.want {
			t.Errorf("%+v and %+v: %v, want %v", c.sender, c.receiver, got, c.want)
		}
	}
}

// TestM9SlowChannelOfFigure13: one of four channels takes 75 ms where the others take 30 ms, because the GPU prepares its data
// late. The three other channels rule out the network.
func TestM9SlowChannelOfFigure13(t *testing.T) {
	flows := []Flow{}
	for ch := range 4 {
		f := Flow{Rank: 7, Channel: ch, Start: 0, End: 30 * ms, Chunks: 64, Total: 64, GPU: 10 * ms, Network: 18 * ms}
		if ch == 2 {
			f.End, f.GPU = 75*ms, 54*ms
		}
		flows = append(flows, f)
	}
	want := []Violation{{SlowComponent, 7, 2, "gpu"}, {Blocking, 7, 2, "gpu"}, {SlowFlow, 7, 2, ""}}
	if got := Check(flows); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestM9Principles(t *testing.T) {
	even := func() []Flow {
		var out []Flow
		for r := range 4 {
			out = append(out, Flow{Rank: r, Start: 0, End: 30 * ms, Chunks: 64, Total: 64, GPU: 10 * ms, Network: 15 * ms})
		}
		return out
	}
	for _, c := range []struct {
		name string
		edit func([]Flow)
		want []Violation
	}{
		{"healthy", func([]Flow) {}, nil},
		{"a rank that moved least", func(f []Flow) {
			for i := range f {
				f[i].End, f[i].Chunks = 0, 20
			}
			f[2].Chunks = 12
		}, []Violation{{UnequalAmount, 2, 0, ""}, {Incomplete, 0, 0, ""}, {Incomplete, 1, 0, ""}, {Incomplete, 2, 0, ""}, {Incomplete, 3, 0, ""}}},
		{"one flow does not complete", func(f []Flow) { f[1].End, f[1].Chunks = 0, 63 }, []Violation{{UnequalAmount, 1, 0, ""}, {Incomplete, 1, 0, ""}}},
		{"a slow network", func(f []Flow) { f[3].End, f[3].Network = 60*ms, 45*ms }, []Violation{{SlowComponent, 3, 0, "network"}, {Blocking, 3, 0, "network"}, {SlowFlow, 3, 0, ""}}},
		{"constantly late by a second", func(f []Flow) { f[0].Start, f[0].End = 1000*ms, 1030*ms }, []Violation{{Apart, 0, 0, ""}}},
	} {
		flows := even()
		c.edit(flows)
		if got := Check(flows); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if Check(nil) != nil {
		t.Error("nothing breaks a principle")
	}
	for p := UnequalAmount; p <= Apart; p++ {
		if p.String() == "" {
			t.Errorf("principle %d has no words", p)
		}
	}
}
