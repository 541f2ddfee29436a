// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/tracetest"
)

func create(t testing.TB, id trace.Identity, size tracetest.Size) *tracetest.Writer {
	t.Helper()
	w, err := tracetest.Create(filepath.Join(t.TempDir(), "rank.trace"), id, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func open(t testing.TB, path string) *trace.File {
	t.Helper()
	f, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func writeFile(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.trace")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenReadsIdentity(t *testing.T) {
	want := trace.Identity{
		PID: 4242, PIDNamespace: 4026531836, StartTicks: 99, Rank: 3, WorldSize: 8, LocalRank: 3, NodeRank: 0, GPUIndex: 3,
		CreatedNS: 5, CreatedRealNS: 6, BootID: "7bb7b43a-7a2c-4ab5-8a7e-1f7b2bb0a0c5", Hostname: "node-1",
		ProcessName: "python3", JobID: "llm", SlurmJobID: "17", SlurmStepID: "0", PodName: "llm-3", PodNamespace: "train",
		PodUID: "u", ContainerName: "main", GPUUUID: "GPU-1", GPUPCIBusID: "0000:1b:00.0", VisibleDevices: "0,1",
		ShimVersion: "0.1.0", WriterABI: 6, Capabilities: trace.CapProxySteps | trace.CapKernelCh,
	}
	w := create(t, want, tracetest.Size{})
	if diff := cmp.Diff(want, open(t, w.Path()).Identity()); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}

func TestOpenRefusesBrokenFiles(t *testing.T) {
	for name, b := range tracetest.Broken() {
		t.Run(name, func(t *testing.T) {
			f, err := trace.Open(writeFile(t, b))
			if err == nil {
				f.Close()
				t.Fatal("opened")
			}
			if r := trace.ReasonOf(err); r != trace.ReasonHeader && r != trace.ReasonLayout {
				t.Errorf("reason %q for %v", r, err)
			}
			if got, want := errors.Is(err, trace.ErrNotReady), name == "empty" || name == "no magic yet"; got != want {
				t.Errorf("not ready: %t, want %t: %v", got, want, err)
			}
		})
	}
}

func TestLyingFilesAreHarmless(t *testing.T) {
	for name, b := range tracetest.Lying() {
		t.Run(name, func(t *testing.T) {
			f := open(t, writeFile(t, b))
			read(t, f)
			id := f.Identity()
			for _, s := range []string{id.JobID, id.Hostname, id.PodName, id.GPUUUID} {
				if !utf8.ValidString(s) || strings.ContainsAny(s, "\x1b\n\x00") {
					t.Errorf("unsafe text %q", s)
				}
			}
			if id.Rank < -1 || id.WorldSize < -1 || id.GPUIndex < -1 {
				t.Errorf("negative numbers pass: %+v", id)
			}
		})
	}
}

// read reads everything in a file and checks what holds of any file.
func read(t testing.TB, f *trace.File) {
	t.Helper()
	var s trace.Snapshot
	for range 2 {
		if err := f.Snapshot(&s); err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Comms {
			if !utf8.ValidString(c.Name) {
				t.Fatalf("communicator name %q", c.Name)
			}
		}
	}
	done, span, err := f.Completions(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Status.CompletionsHead >= uint64(len(done)) && span.Lost > s.Status.CompletionsHead {
		t.Fatalf("lost %d of %d", span.Lost, s.Status.CompletionsHead)
	}
	for i := 1; i < len(done); i++ {
		if done[i].Ticket <= done[i-1].Ticket {
			t.Fatalf("ticket %d after %d", done[i].Ticket, done[i-1].Ticket)
		}
	}
	if _, _, err := f.Lifecycle(0, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Transfers(0, nil); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesWhatIsNotARegularFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("target.trace"), tracetest.Valid(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("target.trace"), at("link.trace")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("fifo.trace"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("dir.trace"), 0o700); err != nil {
		t.Fatal(err)
	}
	// Unix socket paths are short: not in dir.
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	socket, err := net.Listen("unix", filepath.Join(short, "s.trace"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })

	for _, path := range []string{at("link.trace"), at("fifo.trace"), at("dir.trace"), filepath.Join(short, "s.trace"), "/dev/null"} {
		done := make(chan error, 1)
		go func() {
			f, err := trace.Open(path)
			if err == nil {
				f.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || trace.ReasonOf(err) != trace.ReasonHostile {
				t.Errorf("%s: %v, want a refusal as hostile", path, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: Open blocks", path)
		}
	}
	if _, err := trace.Open(at("absent.trace")); !errors.Is(err, os.ErrNotExist) || trace.ReasonOf(err) != trace.ReasonOpen {
		t.Errorf("absent file: %v", err)
	}
}

func TestShrinkingFileIsAnError(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{})
	w.PutComm(trace.Comm{ID: 1})
	w.PutFlow(trace.Flow{Index: 2000})
	w.Complete(trace.Completion{})
	f := open(t, w.Path())
	var s trace.Snapshot
	if err := f.Snapshot(&s); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(w.Path(), 8192); err != nil {
		t.Fatal(err)
	}
	err := f.Snapshot(&s)
	if err == nil || trace.ReasonOf(err) != trace.ReasonIO {
		t.Errorf("snapshot of a truncated file: %v", err)
	}
	if _, _, err := f.Completions(0, nil); err == nil {
		t.Error("completions of a truncated file: no error")
	}
	// A file that grows again, or beyond its first size, is readable again.
	if err := os.Truncate(w.Path(), trace.MaxFileBytes); err != nil {
		t.Fatal(err)
	}
	if err := f.Snapshot(&s); err != nil {
		t.Errorf("snapshot of a grown file: %v", err)
	}
}

func TestClosedFile(t *testing.T) {
	f := open(t, writeFile(t, tracetest.Valid()))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var s trace.Snapshot
	if err := f.Snapshot(&s); err == nil {
		t.Error("no error")
	}
	if err := f.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestWriterHolds(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{})
	f := open(t, w.Path())
	if f.WriterHolds() {
		t.Error("held although nobody took it")
	}
	lock, err := os.Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !f.WriterHolds() {
			t.Error("not held although it was taken")
		}
	}
	lock.Close()
	if f.WriterHolds() {
		t.Error("held after its holder is gone")
	}
}

// TestRelease asks the kernel how much of the file is mapped here. Rings are given back apart from the rest.
func TestRelease(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{Completions: 4096})
	f := open(t, w.Path())
	for range 4096 {
		w.Complete(trace.Completion{})
	}
	read := func() (resident int) {
		t.Helper()
		var s trace.Snapshot
		if err := f.Snapshot(&s); err != nil {
			t.Fatal(err)
		}
		if done, _, err := f.Completions(0, nil); err != nil || len(done) != 4096 {
			t.Fatalf("%d operations, %v", len(done), err)
		}
		return residentKiB(t, w.Path())
	}
	whole := read()
	f.ReleaseRings()
	tables := residentKiB(t, w.Path())
	f.Release()
	nothing := residentKiB(t, w.Path())
	if whole < 1024 || tables == 0 || tables > whole/2 || nothing != 0 {
		t.Errorf("%d KiB mapped after reading, %d without rings, %d when all is given back", whole, tables, nothing)
	}
	if again := read(); again < whole/2 {
		t.Errorf("%d KiB mapped after reading again", again)
	}
	f.Close()
	f.ReleaseRings()
}

// residentKiB is how much of a file is mapped for reading alone.
func residentKiB(t *testing.T, path string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	here := false
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 6 && fields[5] == path:
			here = fields[1] == "r--s"
		case here && fields[0] == "Rss:":
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Fatal("the file is not mapped")
	return 0
}
