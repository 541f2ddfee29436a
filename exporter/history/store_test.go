// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
	"github.com/culprit-project/culprit/trace/tracetest"
)

// rig is a sampler that fills a store from one rank's trace file, on a clock of the test's.
type rig struct {
	t       testing.TB
	dir     string
	store   *Store
	sampler *node.Sampler
	procs   *proctest.FS
	clock   uint64
}

func newRig(t testing.TB, opts Options) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), procs: proctest.New(t), clock: 1_000_000_000_000}
	opts.Logger = promslog.NewNopLogger()
	var err error
	if r.store, err = New(opts); err != nil {
		t.Fatal(err)
	}
	r.sampler, err = node.New(node.Options{
		Dirs: []string{r.dir}, ProcFS: r.procs.Root, Logger: promslog.NewNopLogger(), History: r.store,
		Clock: func() uint64 { return r.clock }, Now: func() time.Time { return time.Unix(1_800_000_000, int64(r.clock)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) rank(n int32, size tracetest.Size) *tracetest.Writer {
	r.t.Helper()
	id := trace.Identity{
		PID: uint32(4000 + n), PIDNamespace: proctest.InitNamespace, StartTicks: 50, Rank: n, WorldSize: 8, GPUIndex: n,
		BootID: proctest.BootID, Hostname: "h", JobID: "llm",
	}
	w, err := tracetest.Create(filepath.Join(r.dir, fmt.Sprintf("%d.trace", n)), id, size)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { w.Close() })
	r.procs.Put(proctest.Process{PID: 4000 + int(n), StartTicks: 50})
	return w
}

func (r *rig) round() {
	r.clock += 100_000_000
	r.sampler.Sample()
}

func (r *rig) lines(q Query) ([]nodeapi.TraceLine, nodeapi.TraceTrailer) {
	r.t.Helper()
	if q.ToNS == 0 {
		q.ToNS = ^uint64(0)
	}
	var lines []nodeapi.TraceLine
	trailer, err := r.store.Lines(q, func(l *nodeapi.TraceLine) bool {
		lines = append(lines, *l)
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return lines, trailer
}

func completions(lines []nodeapi.TraceLine) []trace.Completion {
	var list []trace.Completion
	for _, l := range lines {
		if l.Completion != nil {
			list = append(list, l.Completion.Completion)
		}
	}
	return list
}

func samples(lines []nodeapi.TraceLine) []*nodeapi.Sample {
	var list []*nodeapi.Sample
	for _, l := range lines {
		if l.Sample != nil {
			list = append(list, l.Sample)
		}
	}
	return list
}

// someCompletion makes every field different from its neighbours', extremes included.
func someCompletion(rng *rand.Rand, n uint64) trace.Completion {
	d := func() trace.Direction {
		return trace.Direction{
			Flows: rng.Uint32(), Steps: 3, Bytes: rng.Uint64(), WaitNS: [3]uint64{rng.Uint64(), n, 0}, ActiveNS: n * n,
			LargestGapNS: 1, FirstStepNS: n, LastStepNS: n + 1, SlowestChannel: 63, SlowestPeer: -1, SlowestNS: ^uint64(0), FastestNS: 5,
		}
	}
	return trace.Completion{
		CommID: trace.CommID(rng.Uint64()), CommIndex: uint32(n % 100), CommGeneration: uint32(n), NRanks: 8, Rank: -1, Number: n,
		Seq: n / 2, Func: trace.Func(n % 11), Algo: trace.AlgoRing, Proto: trace.ProtoSimple, DatatypeBytes: 4, Count: rng.Uint64(),
		Bytes: n << 20, Peer: int32(n) - 50, Root: -1 << 31, Channels: 4, Flags: trace.OpFlags(rng.Uint32()), CalledNS: n,
		EnqueuedNS: n + 1, EnteredNS: n + 2, LeftNS: 1000*n + 3, GPUNS: n, Send: d(), Recv: d(), SendProbes: rng.Uint32(), RecvProbes: uint32(n),
	}
}

func TestCompletionsComeBack(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 64 << 20})
	w := r.rank(0, tracetest.Size{})
	rng := rand.New(rand.NewPCG(1, 1))
	var want []trace.Completion
	for n := range uint64(3000) {
		c := someCompletion(rng, n+1)
		c.Ticket = w.Complete(c)
		want = append(want, c)
		if n%500 == 0 {
			r.round()
		}
	}
	r.round()
	lines, trailer := r.lines(Query{})
	if diff := cmp.Diff(want, completions(lines)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if trailer.Records != 3000 || trailer.Lost != 0 || trailer.Truncated {
		t.Errorf("trailer %+v", trailer)
	}
	if p := lines[0].Process; p == nil || p.JobID != "llm" || p.File != "0.trace" || p.Identity.PID != 4000 {
		t.Errorf("first line %+v", lines[0])
	}
	if len(r.store.sealed) < 3 {
		t.Errorf("%d sealed blocks: the test wants several", len(r.store.sealed))
	}
}

func TestLossIsTold(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1 << 20})
	w := r.rank(0, tracetest.Size{Completions: 8})
	for n := range uint64(20) {
		w.Complete(trace.Completion{LeftNS: n + 1})
	}
	r.round()
	if lines, trailer := r.lines(Query{}); len(completions(lines)) != 8 || trailer.Lost != 12 {
		t.Errorf("%d completions, trailer %+v", len(completions(lines)), trailer)
	}
	if _, trailer := r.lines(Query{FromNS: 1000}); trailer.Lost != 0 {
		t.Errorf("loss outside of the span: %+v", trailer)
	}
}

// TestStateLog replays the log of a stuck operation and compares every sample with what the file held then.
func TestStateLog(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1 << 20})
	w := r.rank(0, tracetest.Size{})
	start := r.clock
	tracetest.Fill(w, tracetest.Shape{Comms: 2, Channels: 2, Ops: 5, NowNS: start, StuckNS: 1})
	flow := trace.Flow{
		Index: 0, Generation: 1, CommGeneration: 1, IsSend: true, State: trace.FlowSendNet, Peer: 1, OpGeneration: 1, OpNumber: 5,
		StepsTotal: 64, StateSinceNS: start, LastProgressNS: start,
	}
	states := map[uint64]trace.Flow{} // What the first flow was when it was logged.
	for i := range uint32(40) {
		if i%3 == 0 && i < 30 { // Moves every third round, then stands still and only polls.
			flow.Posted, flow.Ready, flow.Transmitted, flow.Done = i+3, i+2, i+1, i
			flow.LastProgressNS = r.clock
		}
		flow.PeerPolls += 1000
		w.PutFlow(flow)
		r.round()
		states[r.clock] = flow
	}
	w.FreeOp(0)
	r.round()
	lines, _ := r.lines(Query{})
	got := samples(lines)
	// One for each of its 10 moves, the first one at second sight, and one for the end.
	if len(got) != 11 {
		t.Fatalf("%d samples", len(got))
	}
	if len(got[0].Ops) != 1 || len(got[0].Flows) != 4 || got[0].Ops[0].Datatype != "ncclFloat32" || got[0].Ops[0].Number != 5 {
		t.Errorf("first sample %+v", got[0])
	}
	for _, s := range got[:10] {
		want := states[s.AtNS]
		if diff := cmp.Diff(want, s.Flows[0], cmpopts.IgnoreFields(trace.Flow{}, "PeerPolls")); diff != "" {
			t.Errorf("at %d (-want +got):\n%s", s.AtNS, diff)
		}
	}
	if last := got[10]; len(last.Ended) != 1 || last.Ended[0] != 0 || len(last.Ops) != 0 {
		t.Errorf("last sample %+v", last)
	}
	// A span that begins in the middle begins with everything.
	lines, _ = r.lines(Query{FromNS: got[4].AtNS + 1, Comms: []trace.CommID{tracetest.CommID(0)}})
	if mid := samples(lines); len(mid[0].Flows) != 4 || len(mid[0].Ops) != 1 {
		t.Errorf("from the middle: %+v", mid[0])
	}
	if lines, _ = r.lines(Query{Comms: []trace.CommID{tracetest.CommID(1)}}); len(samples(lines)) != 0 {
		t.Errorf("samples of a communicator without any: %+v", samples(lines))
	}
}

func TestStream(t *testing.T) {
	var completions, lifecycles, samples int
	r := newRig(t, Options{MaxBytes: 1 << 20, Stream: func(p *nodeapi.Process, l *nodeapi.TraceLine) {
		if p.JobID != "llm" || p.Rank != 0 {
			t.Errorf("line of %s/%d", p.JobID, p.Rank)
		}
		switch {
		case l.Completion != nil:
			completions++
		case l.Lifecycle != nil:
			lifecycles++
		case l.Sample != nil:
			samples++
		}
	}})
	w := r.rank(0, tracetest.Size{})
	tracetest.Fill(w, tracetest.Shape{Comms: 1, Channels: 1, NowNS: r.clock, StuckNS: 1})
	w.Complete(trace.Completion{LeftNS: 5})
	w.Live(trace.LifecycleEvent{AtNS: 6})
	r.round()
	r.round()
	if completions != 1 || lifecycles != 1 || samples != 1 {
		t.Errorf("%d completions, %d lifecycle events, %d samples", completions, lifecycles, samples)
	}
}

func TestShortOperationsAreNotLogged(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1 << 20})
	w := r.rank(0, tracetest.Size{})
	for n := range uint64(20) {
		w.PutOp(trace.Op{Index: 0, Generation: 1, Number: n, State: trace.OpMoving})
		r.round()
	}
	if lines, _ := r.lines(Query{}); len(samples(lines)) != 0 {
		t.Errorf("%d samples", len(samples(lines)))
	}
}

func TestHistorySurvivesTheProcess(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1 << 20})
	w := r.rank(0, tracetest.Size{})
	w.Complete(trace.Completion{LeftNS: 5})
	w.Live(trace.LifecycleEvent{AtNS: 6, Kind: trace.LifeCommCreated, CommIndex: 2, CommID: 7, Text: "x"})
	r.round()
	w.Complete(trace.Completion{LeftNS: 7})
	w.BeginCompletion()
	w.Complete(trace.Completion{LeftNS: 8})
	r.procs.Remove(4000)
	r.clock += uint64(time.Second)
	r.round()
	r.clock += uint64(11 * time.Minute)
	r.round()
	known := 0
	r.sampler.All(func(_ uint64, list []*node.Process) { known = len(list) })
	if known != 0 {
		t.Fatalf("%d processes are still known", known)
	}
	lines, trailer := r.lines(Query{})
	if len(completions(lines)) != 3 || trailer.Lost != 1 || trailer.Records != 4 {
		t.Errorf("%d completions, trailer %+v", len(completions(lines)), trailer)
	}
	if p := lines[0].Process; p.Kernel == nil || p.Kernel.State != nodeapi.ProcessGone {
		t.Errorf("process %+v", p.Kernel)
	}
	for _, l := range lines {
		if l.Lifecycle != nil && (l.Lifecycle.CommIndex != 2 || l.Lifecycle.Text != "x" || l.Lifecycle.Kind != trace.LifeCommCreated) {
			t.Errorf("lifecycle %+v", l.Lifecycle)
		}
	}
}

func TestQueryFilters(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1 << 20})
	for rank := range int32(2) {
		w := r.rank(rank, tracetest.Size{})
		for n := range uint64(10) {
			w.Complete(trace.Completion{LeftNS: 10 * (n + 1), CommID: trace.CommID(n % 2), Number: n})
		}
	}
	r.round()
	for _, tt := range []struct {
		name      string
		q         Query
		records   int
		truncated bool
	}{
		{"all", Query{}, 20, false},
		{"job", Query{JobIDs: []string{"llm"}}, 20, false},
		{"other job", Query{JobIDs: []string{"x"}}, 0, false},
		{"rank", Query{Ranks: []int32{1}}, 10, false},
		{"communicator", Query{Comms: []trace.CommID{1}}, 10, false},
		{"span", Query{FromNS: 30, ToNS: 50}, 6, false},
		{"no completions", Query{NoCompletions: true}, 0, false},
		{"limit", Query{MaxRecords: 7}, 7, true},
		{"exact limit", Query{MaxRecords: 20}, 20, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, trailer := r.lines(tt.q)
			if n := len(completions(lines)); n != tt.records || int(trailer.Records) != n || trailer.Truncated != tt.truncated {
				t.Errorf("%d completions, trailer %+v; want %+v", n, trailer, tt)
			}
		})
	}
}

func TestMemoryIsBounded(t *testing.T) {
	const limit = 1 << 20
	r := newRig(t, Options{MaxBytes: limit})
	w := r.rank(0, tracetest.Size{})
	rng := rand.New(rand.NewPCG(1, 1))
	last := uint64(0)
	for range 30 {
		for range 1000 {
			last++
			w.Complete(someCompletion(rng, last))
		}
		r.round()
		if n := r.store.Bytes(); n > limit+2*blockBytes {
			t.Fatalf("%d bytes, limit %d", n, limit)
		}
	}
	lines, _ := r.lines(Query{})
	got := completions(lines)
	if len(got) < 1000 || got[len(got)-1].Number != last {
		t.Errorf("%d completions left, the newest is not among them", len(got))
	}
}

func TestOldRecordsAreDropped(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1 << 20, Keep: 10 * time.Minute})
	w := r.rank(0, tracetest.Size{})
	for range 40 {
		r.clock += uint64(time.Minute)
		w.Complete(trace.Completion{LeftNS: r.clock})
		r.round()
	}
	lines, _ := r.lines(Query{})
	if n := len(completions(lines)); n < 10 || n > 14 {
		t.Errorf("%d minutes kept, want about 10", n)
	}
}

// TestSpill has far more history than memory, and more than the file holds.
func TestSpill(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, Options{MaxBytes: 256 << 10, Dir: dir, DirBytes: 1 << 20})
	w := r.rank(0, tracetest.Size{})
	rng := rand.New(rand.NewPCG(1, 1))
	var all []trace.Completion
	for range 12 {
		for range 1000 {
			c := someCompletion(rng, uint64(len(all)+1))
			c.Ticket = w.Complete(c)
			all = append(all, c)
		}
		r.round()
		lines, _ := r.lines(Query{})
		got := completions(lines)
		if len(got) == 0 {
			t.Fatal("no history")
		}
		if diff := cmp.Diff(all[len(all)-len(got):], got); diff != "" {
			t.Fatalf("after %d (-want +got):\n%s", len(all), diff)
		}
	}
	if n := r.store.Bytes(); n > 256<<10+2*blockBytes {
		t.Errorf("%d bytes in memory", n)
	}
	size := int64(0)
	for _, b := range r.store.ring.blocks {
		size += b.block.place.length
	}
	if size < 700<<10 || size > 1<<20 {
		t.Errorf("%d bytes in the file", size)
	}
	fi, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil || fi.Size() != 1<<20 || fi.Mode() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
}

func TestSpillNeedsADirectory(t *testing.T) {
	if _, err := New(Options{Dir: filepath.Join(t.TempDir(), "absent"), DirBytes: 1}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestSpilledHistoryAges(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1, Dir: t.TempDir(), DirBytes: 1 << 20, Keep: 10 * time.Minute})
	w := r.rank(0, tracetest.Size{})
	for range 40 {
		r.clock += uint64(time.Minute)
		w.Complete(trace.Completion{LeftNS: r.clock})
		r.round()
	}
	lines, _ := r.lines(Query{})
	if n := len(completions(lines)); n < 10 || n > 14 {
		t.Errorf("%d minutes kept, want about 10", n)
	}
}

// TestReadingWhileWriting is for the race detector.
func TestReadingWhileWriting(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1 << 18, Dir: t.TempDir(), DirBytes: 1 << 19})
	w := r.rank(0, tracetest.Size{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		rng := rand.New(rand.NewPCG(2, 2))
		for n := range uint64(20000) {
			w.Complete(someCompletion(rng, n+1))
			if n%200 == 0 {
				r.round()
			}
		}
	}()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		lines, _ := r.lines(Query{})
		got := completions(lines)
		for i := 1; i < len(got); i++ {
			if got[i].Ticket <= got[i-1].Ticket {
				t.Fatalf("ticket %d after %d", got[i].Ticket, got[i-1].Ticket)
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	var w words
	w.flow(&trace.Flow{PeerPolls: 77, OpIndex: 78, OpGeneration: 79})
	if w.list[flowPeerPolls] != 77 || w.list[flowOpIndex] != 78 || w.list[flowOpGeneration] != 79 {
		t.Errorf("words %v", w.list)
	}
}

// TestLists holds the short ways of listing a record's words to those that are also read by.
func TestLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		var f trace.Flow
		var c trace.Completion
		for _, record := range []any{&f, &c, &c.Send, &c.Recv} {
			scramble(rng, reflect.ValueOf(record).Elem())
		}
		var walkedFlow, walked words
		walkedFlow.flow(&f)
		walked.completion(&c)
		var listedFlow flowList
		listedFlow.set(&f)
		var listed completionList
		listed.set(&c)
		if !slices.Equal(walkedFlow.list, listedFlow[:]) {
			t.Errorf("flow %+v is listed as\n%d and\n%d", f, walkedFlow.list, listedFlow)
		}
		if !slices.Equal(walked.list, listed[:]) {
			t.Errorf("operation %+v is listed as\n%d and\n%d", c, walked.list, listed)
		}
	}
}

// scramble gives all of a record's fields random values.
func scramble(rng *rand.Rand, record reflect.Value) {
	for _, field := range record.Fields() {
		switch field.Kind() {
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			field.SetUint(rng.Uint64() >> (64 - field.Type().Bits()))
		case reflect.Int32:
			field.SetInt(int64(rng.Int32() - 1<<30))
		case reflect.Bool:
			field.SetBool(rng.Uint32()&1 != 0)
		case reflect.Array:
			for j := range field.Len() {
				field.Index(j).SetUint(rng.Uint64())
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	b := newBlock()
	b.addCompletion(&trace.Completion{LeftNS: 1, CommIndex: 3})
	b.addLifecycle(&trace.LifecycleEvent{AtNS: 2, CommIndex: -1, Text: "abc"})
	b.addFlow(&trace.Flow{Index: 2})
	b.addSample(3, &trace.Status{Callbacks: 1}, []*trace.Op{{Index: 1, Datatype: "x"}}, nil)
	b.end([]uint32{1})
	b.addSample(4, &trace.Status{}, nil, []uint32{1})
	b.addLoss(5, 6)
	f.Add(b.data)
	f.Add(bytes.Repeat([]byte{recordSample}, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		v := visitor{
			completion: func(*trace.Completion) {}, lifecycle: func(*trace.LifecycleEvent) {}, sample: func(sample) {},
			loss: func(uint64, uint64) {},
		}
		if err := decode(data, v); err == nil && len(data) == 1 {
			t.Error("one byte is no record")
		}
	})
}

// BenchmarkCompletion reports how large a usual completion is when stored.
func BenchmarkCompletion(b *testing.B) {
	block := newBlock()
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		now := 1_000_000_000_000 + n*3_300_123
		if len(block.data) > blockBytes {
			block = newBlock()
		}
		before := len(block.data)
		d := trace.Direction{
			Flows: 32, Steps: 512, Bytes: 64 << 20, WaitNS: [3]uint64{n * 7919 % 1e6, n * 104729 % 1e6, n * 1299709 % 1e6},
			ActiveNS: 2e6 + n%1e5, LargestGapNS: n * 31 % 1e5, FirstStepNS: now - 3e6, LastStepNS: now - 1e4, SlowestChannel: uint32(n % 32),
			SlowestNS: 2e6 + n*17%1e5, FastestNS: 1e6,
		}
		block.addCompletion(&trace.Completion{
			Ticket: n, CommID: 0xfeedbeef, CommIndex: uint32(n % 4), NRanks: 64, Rank: 3, Number: n / 4, Seq: n / 4, Func: trace.AllReduce,
			Count: 1 << 24, Bytes: 1 << 26, Peer: -1, Root: -1, Channels: 32, CalledNS: now - 5e6, EnqueuedNS: now - 4e6,
			EnteredNS: now - 3e6, LeftNS: now, Send: d, Recv: d,
		})
		if n%4096 == 0 {
			b.ReportMetric(float64(len(block.data)-before), "B/record")
		}
	}
}
