// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/trace"
)

// TestPreloadedProcess reads what the preload hooks left of a process that was killed inside ncclGroupEnd, without a
// profiler plugin: one AllReduce before, then a group of sends and receives.
func TestPreloadedProcess(t *testing.T) {
	f := open(t, writeFile(t, gunzip(t, "testdata/preload.trace.gz")))
	read(t, f)
	var s trace.Snapshot
	if err := f.Snapshot(&s); err != nil {
		t.Fatal(err)
	}
	if s.Identity.WriterABI != 0 || s.Identity.Capabilities != trace.CapCommIdentity|trace.CapAPIEvents {
		t.Errorf("source: abi %d, capabilities %#x", s.Identity.WriterABI, s.Identity.Capabilities)
	}
	if len(s.Comms) != 1 {
		t.Fatalf("%d communicators", len(s.Comms))
	}
	c := s.Comms[0]
	if c.ID == 0 || c.NRanks != 4 || c.Rank != 2 || c.OpsCalled != 7 || c.OpsStarted != 1 || c.OpsInFlight != 6 {
		t.Errorf("communicator: %+v", c)
	}
	if s.Status.GroupOpenSinceNS == 0 || s.Status.ClosedNS != 0 {
		t.Errorf("group open since %d, closed %d", s.Status.GroupOpenSinceNS, s.Status.ClosedNS)
	}
	type op struct {
		Number, Seq, Bytes uint64
		Func               string
		Peer               int32
		State              trace.OpState
		Flags              uint32
	}
	want := map[uint64]op{0: {0, 0, 20, "AllReduce", -1, trace.OpEnqueued, uint32(trace.OpNoCompletion)}}
	for n := range uint64(6) {
		want[n+1] = op{n + 1, 0, 32, []string{"Send", "Recv"}[n%2], int32(n / 2), trace.OpCalled, uint32(trace.OpP2P)}
	}
	got := map[uint64]op{}
	for _, o := range s.Ops {
		got[o.Number] = op{o.Number, o.Seq, o.Bytes, o.Func.String(), o.Peer, o.State, uint32(o.Flags)}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	events, _, err := f.Lifecycle(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []trace.LifecycleKind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	if diff := cmp.Diff([]trace.LifecycleKind{
		trace.LifeProcessStart, trace.LifeCallBegin, trace.LifeCallEnd, trace.LifeCommCreated,
	}, kinds); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func gunzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
