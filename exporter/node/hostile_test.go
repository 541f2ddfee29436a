// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
	"github.com/culprit-project/culprit/trace/tracetest"
)

// TestHostileFilesCostOthersNothing has, one kind after the other, files that somebody made to hurt beside the file of a job:
// the job's state goes on, nothing of the other's is believed, and a round stays short work.
func TestHostileFilesCostOthersNothing(t *testing.T) {
	random := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	full := func(t *testing.T, path string, size tracetest.Size, id trace.Identity) *tracetest.Writer {
		t.Helper()
		w, err := tracetest.Create(path, id, size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
	write := func(t *testing.T, path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		make  func(t *testing.T, r *rig, path string)
		round func(t *testing.T, path string) // Before each round.
	}{
		{"random bytes", func(t *testing.T, _ *rig, path string) { write(t, path, random) }, nil},
		{"truncated", func(t *testing.T, _ *rig, path string) { write(t, path, tracetest.Valid()[:5000]) }, nil},
		{
			"growing", func(t *testing.T, _ *rig, path string) { write(t, path, nil) },
			func(t *testing.T, path string) {
				f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.Write(random[:100_000]); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			"shrinking and growing", func(t *testing.T, _ *rig, path string) { write(t, path, tracetest.Valid()) },
			func(t *testing.T, path string) {
				fi, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				size := int64(4096)
				if fi.Size() == size {
					size = int64(len(tracetest.Valid()))
				}
				if err := os.Truncate(path, size); err != nil {
					t.Fatal(err)
				}
			},
		},
		{"a huge sparse file", func(t *testing.T, _ *rig, path string) {
			write(t, path, tracetest.Valid())
			if err := os.Truncate(path, 1<<40); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a link to another job's file", func(t *testing.T, _ *rig, path string) {
			if err := os.Symlink("good.trace", path); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a link to a device", func(t *testing.T, _ *rig, path string) {
			if err := os.Symlink("/dev/zero", path); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"another name of another job's file", func(t *testing.T, _ *rig, path string) {
			if err := os.Link(filepath.Join(filepath.Dir(path), "good.trace"), path); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a FIFO that nobody writes to", func(t *testing.T, _ *rig, path string) {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a socket", func(t *testing.T, _ *rig, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, nil},
		{"a directory", func(t *testing.T, _ *rig, path string) {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"millions of communicators and flows claimed", func(t *testing.T, _ *rig, path string) {
			id := identity(0) // And another job's name.
			w := full(t, path, tracetest.Size{Comms: 4096, Ops: 1 << 16, Flows: 1 << 18, Completions: 1 << 12}, id)
			for i := range uint32(4096) {
				w.PutComm(trace.Comm{Index: i, Generation: i + 1, ID: trace.CommID(i), NRanks: 1 << 30, OpsCalled: 1 << 60})
			}
			for i := range uint32(1 << 16) {
				w.PutFlow(trace.Flow{Index: i, Generation: 1, CommIndex: i, State: trace.FlowSendNet})
			}
		}, nil},
		{"another process's claim", func(t *testing.T, r *rig, path string) {
			// Its start time is another one's, so the kernel contradicts.
			id := identity(0)
			id.StartTicks = 49
			id.CreatedNS = r.clock - 1e9
			full(t, path, tracetest.Size{}, id)
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
			good := r.file("good.trace", identity(0))
			evil := filepath.Join(r.dir, "evil.trace")
			tt.make(t, r, evil)
			for n := range uint64(8) {
				if tt.round != nil {
					tt.round(t, evil)
				}
				good.PutComm(trace.Comm{Index: 0, Generation: 1, ID: 1, NRanks: 2, OpsCalled: n + 1, OpsCompleted: n})
				good.Complete(trace.Completion{CommGeneration: 1, Number: n, LeftNS: r.clock})
				r.after(time.Second)
				found := false
				for _, p := range r.processes() {
					if p.File == "good.trace" {
						found = true
						if p.Kernel.State != nodeapi.ProcessRunning || !p.Kernel.Verified || p.Comms[0].OpsCalled != n+1 ||
							p.Completions[len(p.Completions)-1].Number != n {
							t.Fatalf("round %d: %+v %+v", n, p.Kernel, p.Comms)
						}
					} else if p.Kernel.Verified && tt.name == "another process's claim" {
						t.Errorf("believed: %+v", p.Kernel)
					}
				}
				if !found {
					t.Fatalf("round %d: the job's file is gone", n)
				}
			}
		})
	}
}

// TestDenseFilesOfAnotherPod has files that show as many operations and flows as can be. Their pod gives them up, and the other's
// rank stays.
func TestDenseFilesOfAnotherPod(t *testing.T) {
	r := newRig(t, nil)
	const pod = "0::/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-44445555666%d/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde%[1]d\n"
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, Cgroup: fmt.Sprintf(pod, 1)})
	good := r.file("z-good.trace", identity(0))
	good.PutComm(trace.Comm{Index: 0, Generation: 1, ID: 1, NRanks: 2, OpsCalled: 1})
	for i := range int32(8) {
		id := identity(1 + i)
		id.JobID = "evil"
		r.procs.Put(proctest.Process{PID: int(id.PID), StartTicks: 50, Cgroup: fmt.Sprintf(pod, 2)})
		w, err := tracetest.Create(filepath.Join(r.dir, fmt.Sprintf("evil%d.trace", i)), id, tracetest.Size{Comms: 1, Ops: 1 << 10, Flows: 1 << 16, Completions: 1 << 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		for n := range uint32(1 << 16) {
			w.PutFlow(trace.Flow{Index: n, Generation: 1, State: trace.FlowSendNet})
		}
	}
	for range 3 {
		r.after(time.Second)
		flows, found := 0, false
		r.sampler.All(func(_ uint64, list []*node.Process) {
			for _, p := range list {
				flows += len(p.Snap.Flows)
				found = found || p.File() == "z-good.trace"
			}
		})
		if !found || flows > 400_000 {
			t.Fatalf("%d flows are held, and the other pod's rank is followed: %v", flows, found)
		}
	}
	if r.sampler.ReadErrors()[trace.ReasonHostile] == 0 {
		t.Error("no file was given up")
	}
}

// counted is a history that counts what it is told of at a time.
type counted struct{ most, all int }

func (c *counted) Completions(_ *node.Process, done []trace.Completion, _ uint64) {
	c.most, c.all = max(c.most, len(done)), c.all+len(done)
}
func (*counted) Lifecycle(*node.Process, []trace.LifecycleEvent, uint64) {}
func (*counted) Sampled(*node.Process, uint64)                           {}
func (*counted) Forgotten(*node.Process)                                 {}

// TestRingsAreReadInPieces has a file whose ring is larger than any job's. A round takes no more of it than its share, in time and in memory,
// and when the process has died all of it is read.
func TestRingsAreReadInPieces(t *testing.T) {
	const ring, share = 150_000, 1 << 16
	h := &counted{}
	r := newRig(t, func(o *node.Options) { o.History = h })
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	w, err := tracetest.Create(filepath.Join(r.dir, "a.trace"), identity(0), tracetest.Size{Completions: ring})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	for i := range uint64(ring) {
		w.Complete(trace.Completion{Number: i})
	}
	r.after(0)
	if h.most > share || h.all > share {
		t.Errorf("a round read %d records", h.all)
	}
	r.procs.Remove(4000)
	r.after(time.Second)
	if h.most > share || h.all != ring {
		t.Errorf("%d records were read, %d at a time", h.all, h.most)
	}
}

// TestWrongOwner has a file that claims to be of a process of another user.
func TestWrongOwner(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	w := r.file("a.trace", identity(0))
	// The fake process belongs to whoever runs the test. Only root can give files away; for others root is the other user.
	if os.Geteuid() == 0 {
		if err := os.Chown(w.Path(), 12345, -1); err != nil {
			t.Fatal(err)
		}
	} else if err := os.Chmod(w.Path(), 0o600); err != nil {
		t.Fatal(err)
	}
	r.after(0)
	if p := r.only(); p.Kernel.Verified == (os.Geteuid() == 0) {
		t.Errorf("%+v", p.Kernel)
	}
}

// TestOwnerInANamespace has a file that claims to be of a process in a user namespace, where the file's owner is who the process is. Anybody may
// have that number here: it counts only where the kernel shows that the process holds the file.
func TestOwnerInANamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	for name, tc := range map[string]struct {
		users string
		holds bool
		want  bool
	}{
		"it holds the file":          {"0 100000 65536\n", true, true},
		"it holds another file":      {"0 100000 65536\n", false, false},
		"it is another user there":   {"0 99000 65536\n", true, false},
		"its namespace has no such":  {"0 100000 1000\n", true, false},
		"it is in the host's":        {"0 0 4294967295\n", true, false},
		"several ranges":             {"0 5 1\n1 100001 65535\n", true, true},
		"no map can be read":         {"", true, false},
		"a map that is none":         {"evil\n", true, false},
		"a range beyond all numbers": {"0 18446744073709551615 18446744073709551615\n", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, UID: 101_000})
			r.procs.Write("4000/uid_map", tc.users)
			w := r.file("a.trace", identity(0))
			if err := os.Chown(w.Path(), 1000, -1); err != nil {
				t.Fatal(err)
			}
			if tc.holds {
				var st unix.Stat_t
				if err := unix.Stat(w.Path(), &st); err != nil {
					t.Fatal(err)
				}
				r.procs.Write("locks", fmt.Sprintf("1: FLOCK  ADVISORY  WRITE 4000 %02x:%02x:%d 0 EOF\n", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino))
			}
			r.after(0)
			if p := r.only(); p.Kernel.Verified != tc.want {
				t.Errorf("%+v", p.Kernel)
			}
		})
	}
}

// TestAnotherUsersClaim has a process of another user claim the rank of a job: the kernel bears out that it lives and wrote the
// file. It is a job of the same name, and of another owner.
func TestAnotherUsersClaim(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of two users; TestConflictingClaims has the rules")
	}
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, UID: 1002})
	r.procs.Put(proctest.Process{PID: 6666, StartTicks: 40, UID: 1001})
	chown := func(w *tracetest.Writer, uid int) {
		t.Helper()
		if err := os.Chown(w.Path(), uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	chown(r.file("good.trace", identity(0)), 1002)
	r.after(time.Second)
	id := identity(0)
	id.PID, id.StartTicks, id.Hostname, id.CreatedNS = 6666, 40, "elsewhere", r.clock
	chown(r.file("evil.trace", id), 1001)
	r.after(time.Second)
	want := 2
	for range 2 { // The second time with the other user's killed.
		for _, p := range r.processes() {
			evil := p.File == "evil.trace"
			if !p.Kernel.Verified || p.Disputed != "" || evil != (p.UID == "1001") {
				t.Errorf("%s of user %s: verified %v, disputed %q", p.File, p.UID, p.Kernel.Verified, p.Disputed)
			}
			if p.Host == "elsewhere" {
				t.Errorf("%s says where it runs", p.File)
			}
		}
		owners := map[string]int{}
		for _, ref := range r.sampler.Ranks() {
			owners[ref.Owner] = ref.HostPID
		}
		if owners["1002"] != 4000 || len(owners) != want {
			t.Errorf("ranks by owner are %v", owners)
		}
		want = 1
		r.procs.Remove(6666)
		r.after(time.Second)
	}
	if n := r.sampler.DisputedClaims(); n != 0 {
		t.Errorf("%d disputed claims, want none", n)
	}
}

// TestClaimOfAProcessWithoutAFile has a pod's root claim, by a file of its own, to be the launcher of a job: it lives, began before the
// ranks, is in their pod and has no trace file. The rank keeps its place.
func TestClaimOfAProcessWithoutAFile(t *testing.T) {
	const pod = "0::/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice/x.scope\n"
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 3999, StartTicks: 40, Cgroup: pod})
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, Cgroup: pod})
	r.procs.Write("3999/maps", "7f00-7f10 r-xp 00000000 fd:01 9   /usr/bin/torchrun\n")
	good := r.file("good.trace", identity(0))
	r.procs.Write("4000/maps", mapsPlugin+mapsTrace(t, good.Path(), "/a path/"+filepath.Base(good.Path())+" (deleted)"))
	r.after(time.Second)
	id := identity(0)
	id.PID, id.StartTicks, id.CreatedNS = 3999, 40, 1
	r.file("evil.trace", id)
	for range 3 {
		r.after(time.Second)
	}
	if refs := r.sampler.Ranks(); len(refs) != 1 || refs[0].HostPID != 4000 {
		t.Errorf("ranks %+v", refs)
	}
	if p := r.only(); p.File != "good.trace" || p.Disputed != "" {
		t.Errorf("%s is disputed: %q", p.File, p.Disputed)
	}
	if n := r.sampler.ReadErrors()[trace.ReasonIdentity]; n != 1 {
		t.Errorf("%d files counted, want 1", n)
	}
}

// TestTwoFilesOfOneProcess has files that claim the same living process. The kernel shows by a lock or a mapping which
// one it writes.
func TestTwoFilesOfOneProcess(t *testing.T) {
	line := map[string]func(id string, ino uint64) (name, content string){
		"lock": func(id string, ino uint64) (string, string) {
			return "locks", fmt.Sprintf("1: POSIX  ADVISORY  WRITE 7 00:01:3 0 EOF\n2: FLOCK  ADVISORY  READ 4000 %s:%d 0 EOF\n", id, ino)
		},
		"mapping": func(id string, ino uint64) (string, string) {
			return "4000/maps", fmt.Sprintf("00400000-00401000 r-xp 00000000 08:01 9 /bin/x\n7f000000-7f800000 rw-s 00000000 %s %d /dev/shm/x\n", id, ino)
		},
	}
	for _, tt := range []struct {
		name  string
		shown string   // How the kernel shows it.
		held  []string // Which files are shown.
		late  bool     // The second file comes later.
		want  []string
	}{
		{"the first is locked", "lock", []string{"a.trace"}, false, []string{"a.trace"}},
		{"the second is locked", "lock", []string{"b.trace"}, false, []string{"b.trace"}},
		{"the first is mapped", "mapping", []string{"a.trace"}, true, []string{"a.trace"}},
		{"the second is mapped", "mapping", []string{"b.trace"}, true, []string{"b.trace"}},
		{"nothing is shown", "", nil, true, []string{"a.trace", "b.trace"}},
		{"both are locked", "lock", []string{"a.trace", "b.trace"}, false, []string{"a.trace", "b.trace"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
			r.file("a.trace", identity(0))
			if tt.late {
				r.after(time.Second)
			}
			r.file("b.trace", identity(0))
			content := map[string]string{}
			for _, name := range tt.held {
				var st unix.Stat_t
				if err := unix.Stat(filepath.Join(r.dir, name), &st); err != nil {
					t.Fatal(err)
				}
				file, text := line[tt.shown](fmt.Sprintf("%02x:%02x", unix.Major(st.Dev), unix.Minor(st.Dev)), st.Ino)
				content[file] += text
			}
			for file, text := range content {
				r.procs.Write(file, text)
			}
			for range 30 { // It is not asked about again and again.
				r.after(time.Second)
			}
			var got []string
			for _, p := range r.processes() {
				got = append(got, p.File)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("files %v, want %v", got, tt.want)
			}
			refused := uint64(2 - len(tt.want))
			if n := r.sampler.ReadErrors()[trace.ReasonIdentity]; n != refused {
				t.Errorf("%d files counted, want %d", n, refused)
			}
			if n := strings.Count(r.logs.String(), "writes another trace file"); uint64(n) != refused {
				t.Errorf("%d log lines, want %d:\n%s", n, refused, r.logs.String())
			}
		})
	}
}
