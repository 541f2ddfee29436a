// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/promslog"
	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
	"github.com/culprit-project/culprit/trace/tracetest"
)

// restart has another exporter take over the rig's files. The first one is killed: it writes nothing any more.
func (r *rig) restart(opts Options) {
	r.t.Helper()
	if err := r.store.ring.close(); err != nil {
		r.t.Fatal(err)
	}
	opts.Logger = promslog.NewNopLogger()
	var err error
	if r.store, err = New(opts); err != nil {
		r.t.Fatal(err)
	}
	r.sampler, err = node.New(node.Options{
		Dirs: []string{r.dir}, ProcFS: r.procs.Root, Logger: promslog.NewNopLogger(), History: r.store,
		Clock: func() uint64 { return r.clock }, Now: func() time.Time { return time.Unix(1_800_000_000, int64(r.clock)) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestHistorySurvivesAKill has exporters be killed at any moment and others take over: every completion is there once, in
// order, and what a ring had overwritten meanwhile is counted.
func TestHistorySurvivesAKill(t *testing.T) {
	opts := Options{Dir: t.TempDir(), DirBytes: 8 << 20, BootID: proctest.BootID}
	r := newRig(t, opts)
	w := r.rank(0, tracetest.Size{Completions: 512})
	rng := rand.New(rand.NewPCG(1, 2))
	var all []trace.Completion
	finish := func(n int) {
		for range n {
			c := someCompletion(rng, uint64(len(all)+1))
			c.Ticket = w.Complete(c)
			all = append(all, c)
		}
	}
	w.Live(trace.LifecycleEvent{AtNS: 6, Kind: trace.LifeProcessStart})
	for i := range 6 {
		for range 20 {
			finish(50)
			r.round()
		}
		if i == 3 {
			r.clock += uint64(savePeriod) // Long enough for what is open to be saved.
			r.round()
		}
		r.restart(opts)
		lines, _ := r.lines(Query{})
		if len(completions(lines)) == 0 {
			t.Fatalf("start %d: nothing before the first round", i)
		}
		finish(10)
		r.round()
		lines, trailer := r.lines(Query{})
		if diff := cmp.Diff(all, completions(lines)); diff != "" || trailer.Lost != 0 {
			t.Fatalf("start %d: %d lost (-want +got):\n%s", i, trailer.Lost, diff)
		}
		if starts := countLifecycle(lines); starts != 1 {
			t.Errorf("start %d: the process's start is there %d times", i, starts)
		}
	}
	// An exporter that is away for longer than the ring lasts.
	r.clock += uint64(savePeriod)
	r.round()
	r.restart(opts)
	before := len(all)
	finish(700)
	r.round()
	lines, trailer := r.lines(Query{})
	want := slices.Concat(all[:before], all[len(all)-512:])
	if diff := cmp.Diff(want, completions(lines)); diff != "" || trailer.Lost != 700-512 {
		t.Errorf("%d lost, want %d (-want +got):\n%s", trailer.Lost, 700-512, diff)
	}
}

func countLifecycle(lines []nodeapi.TraceLine) int {
	n := 0
	for _, l := range lines {
		if l.Lifecycle != nil {
			n++
		}
	}
	return n
}

// TestStateLogSurvivesAKill has a stuck operation be asked for after a kill.
func TestStateLogSurvivesAKill(t *testing.T) {
	opts := Options{Dir: t.TempDir(), DirBytes: 1 << 20, BootID: proctest.BootID}
	r := newRig(t, opts)
	w := r.rank(3, tracetest.Size{})
	w.PutComm(trace.Comm{Index: 0, Generation: 1, ID: 0xabc, Name: "dp", NRanks: 8, Rank: 3})
	w.PutOp(trace.Op{Index: 0, Generation: 1, CommGeneration: 1, Number: 7, State: trace.OpMoving, Datatype: "ncclFloat32"})
	for range 3 {
		r.round()
	}
	r.clock += uint64(savePeriod)
	r.round()
	r.procs.Remove(4003)
	if err := os.Remove(w.Path()); err != nil {
		t.Fatal(err)
	}
	r.restart(opts)
	lines, _ := r.lines(Query{Ranks: []int32{3}, Comms: []trace.CommID{0xabc}})
	got := samples(lines)
	if len(got) == 0 || len(got[0].Ops) != 1 || got[0].Ops[0].Number != 7 || got[0].Ops[0].Datatype != "ncclFloat32" {
		t.Fatalf("samples %+v", got)
	}
	if p := lines[0].Process; p == nil || p.Identity.JobID != "llm" || len(p.Comms) != 1 || p.Comms[0].Name != "dp" {
		t.Errorf("process %+v", lines[0].Process)
	}
}

// TestCloseSavesEverything has an exporter end in an orderly way.
func TestCloseSavesEverything(t *testing.T) {
	opts := Options{Dir: t.TempDir(), DirBytes: 1 << 20, BootID: proctest.BootID}
	r := newRig(t, opts)
	w := r.rank(0, tracetest.Size{})
	w.Complete(trace.Completion{LeftNS: 5, Number: 1})
	r.round()
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	store, err := New(withLogger(opts))
	if err != nil {
		t.Fatal(err)
	}
	r.store = store
	if lines, _ := r.lines(Query{}); len(completions(lines)) != 1 {
		t.Errorf("%+v", lines)
	}
}

func withLogger(o Options) Options {
	o.Logger = promslog.NewNopLogger()
	return o
}

// TestFilesThatAreNotTakenOver has files of another boot and size, and broken ones: the exporter begins anew.
func TestFilesThatAreNotTakenOver(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string, o *Options){
		"another boot": func(_ *testing.T, _ string, o *Options) { o.BootID = "another" },
		"another size": func(_ *testing.T, _ string, o *Options) { o.DirBytes *= 2 },
		"noise": func(t *testing.T, path string, _ *Options) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(3, 3))
			for i := pageBytes; i < len(content); i++ {
				content[i] = byte(rng.Uint32())
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a flipped bit in every header": func(t *testing.T, path string, _ *Options) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for at := pageBytes; at < len(content); at += pageBytes {
				content[at+9] ^= 4
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := withLogger(Options{Dir: t.TempDir(), DirBytes: 1 << 20, BootID: proctest.BootID})
			r := newRig(t, opts)
			w := r.rank(0, tracetest.Size{})
			w.Complete(trace.Completion{LeftNS: 5})
			r.round()
			if err := r.store.Close(); err != nil {
				t.Fatal(err)
			}
			spoil(t, filepath.Join(opts.Dir, fileName), &opts)
			var err error
			if r.store, err = New(opts); err != nil {
				t.Fatal(err)
			}
			if lines, _ := r.lines(Query{}); len(lines) != 0 {
				t.Errorf("%d lines", len(lines))
			}
			if err := r.store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRecordsThatWereNotWhollyWritten has a crash between a block's bytes.
func TestRecordsThatWereNotWhollyWritten(t *testing.T) {
	opts := withLogger(Options{Dir: t.TempDir(), DirBytes: 1 << 20, BootID: proctest.BootID})
	r := newRig(t, opts)
	w := r.rank(0, tracetest.Size{})
	for n := range uint64(2) {
		w.Complete(trace.Completion{LeftNS: 5 + n, Number: n})
		r.round()
		r.clock += uint64(savePeriod)
		r.round()
	}
	second := r.store.ring.blocks[1].block.place
	if _, err := r.store.ring.file.WriteAt([]byte{0xff, 0xff}, second.at+second.data); err != nil {
		t.Fatal(err)
	}
	lines, _ := r.lines(Query{})
	if got := completions(lines); len(got) != 1 || got[0].Number != 0 {
		t.Errorf("%+v", got)
	}
}

// What a process records is its own choice, and so are the bytes of a block of it. When the block's beginning has been overwritten, what
// looks like a block in the rest of it, of another user's rank, is none.
func TestBlocksInABlock(t *testing.T) {
	const size, boot = 5 * pageBytes, "b"
	dir := t.TempDir()
	r, _, err := openRing(dir, size, boot)
	if err != nil {
		t.Fatal(err)
	}
	describe := func(file string) description {
		return description{Process: nodeapi.Process{File: file, JobID: "llm", Rank: 3}}
	}
	text, err := json.Marshal(describe("forged"))
	if err != nil {
		t.Fatal(err)
	}
	var forged bytes.Buffer
	h := head{Magic: blockMagic, Sequence: 9, Description: uint32(len(text))}
	if err := binary.Write(&forged, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(forged.Bytes()[4:], crc32.Update(crc32.Checksum(forged.Bytes()[8:], sums), sums, text))
	forged.Write(text)
	evil, err := json.Marshal(describe("evil"))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 3*pageBytes)
	copy(data[2*pageBytes-headBytes-len(evil):], forged.Bytes()) // On the block's third page.
	for _, b := range []struct {
		file string
		data []byte
	}{{"evil", data}, {"good", make([]byte, 10)}} {
		if _, err := r.take(sealedBlock{newStream(), &block{data: b.data}}, describe(b.file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	r, left, err := openRing(dir, size, boot)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if len(left) != 1 || left[0].Process.File != "good" {
		t.Errorf("recovered %d blocks: %+v", len(left), left)
	}
}

func TestHistoryFilesThatCannotBeUsed(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"in use": {func(t *testing.T, dir string) {
			s, err := New(withLogger(Options{Dir: dir, DirBytes: 1 << 20}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
		}, "another exporter"},
		"a link": {func(t *testing.T, dir string) {
			if err := os.Symlink("/dev/null", filepath.Join(dir, fileName)); err != nil {
				t.Fatal(err)
			}
		}, "symbolic links"},
		"a directory": {func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, fileName), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tt.prepare(t, dir)
			var logs bytes.Buffer
			s, err := New(Options{Dir: dir, DirBytes: 1 << 20, MaxBytes: 1 << 20, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
			if err != nil || s.ring != nil {
				t.Fatalf("history is not kept in memory: %v", err)
			}
			if text := logs.String(); !strings.Contains(text, tt.want) || strings.Count(text, "\n") != 1 {
				t.Errorf("the log says %q, want a line about %q", text, tt.want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := New(withLogger(Options{Dir: t.TempDir(), DirBytes: 100})); err == nil {
		t.Error("a file too small, and no error")
	}
}

// FuzzRecover has the exporter take over a history file of any content.
func FuzzRecover(f *testing.F) {
	dir := f.TempDir()
	opts := withLogger(Options{Dir: dir, DirBytes: 64 << 10, BootID: "b"})
	s, err := New(opts)
	if err != nil {
		f.Fatal(err)
	}
	st := newStream()
	st.open.addCompletion(&trace.Completion{LeftNS: 5, Ticket: 1})
	s.seal(st)
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content[pageBytes : 3*pageBytes])
	f.Fuzz(func(t *testing.T, blocks []byte) {
		dir := t.TempDir()
		whole := make([]byte, 64<<10)
		copy(whole, content[:pageBytes])
		copy(whole[pageBytes:], blocks)
		if err := os.WriteFile(filepath.Join(dir, fileName), whole, 0o600); err != nil {
			t.Fatal(err)
		}
		opts := opts
		opts.Dir = dir
		s, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		// What can be read is read; anything else is an error.
		_, _ = s.Lines(Query{ToNS: ^uint64(0)}, func(*nodeapi.TraceLine) bool { return true })
	})
}

// TestFileSystemWithLessRoom has a file system with less room than the history is to take. The file is made to fit and the log says so; another
// exporter takes it over at its size, and one with next to no room keeps history in memory.
func TestFileSystemWithLessRoom(t *testing.T) {
	before := freeBytes
	t.Cleanup(func() { freeBytes = before })
	const room = 4 << 20
	dir := t.TempDir()
	used := func() int64 {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, fileName), &st); err != nil {
			return 0
		}
		return st.Blocks * 512
	}
	free := int64(room)
	freeBytes = func(*os.File) (int64, error) { return free - used(), nil }
	var logs bytes.Buffer
	opts := Options{Dir: dir, DirBytes: 512 << 20, BootID: proctest.BootID, MaxBytes: 1 << 20, Logger: slog.New(slog.NewTextHandler(&logs, nil))}
	size := func() int64 {
		fi, err := os.Stat(filepath.Join(dir, fileName))
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	r := newRig(t, opts)
	if n := size(); n > room || n < room*8/10 {
		t.Errorf("the file has %d bytes where there is room for %d", n, room)
	}
	w := r.rank(0, tracetest.Size{Completions: 512})
	c := someCompletion(rand.New(rand.NewPCG(1, 2)), 1)
	w.Complete(c)
	r.round()
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	made := size()
	free += 100 << 10 // Others have left something.
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if size() != made || len(s.past) != 1 {
		t.Errorf("%d bytes with the history of %d processes, %d before", size(), len(s.past), made)
	}
	if !strings.Contains(logs.String(), "smaller than --history.dir-size") {
		t.Errorf("%s", logs.String())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs.Reset()
	opts.Dir, free = t.TempDir(), leastSize/2
	freeBytes = func(*os.File) (int64, error) { return free, nil }
	if s, err = New(opts); err != nil || s.ring != nil || !strings.Contains(logs.String(), "Keeping history in memory") || !strings.Contains(logs.String(), "bytes left") {
		t.Errorf("%v\n%s", err, logs.String())
	}
}
