// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package looks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const second = 1_000_000_000

// stack is what py-spy prints of a process with one thread; frames are innermost first.
func stack(gil bool, frames ...string) []byte {
	var list []string
	for _, f := range frames {
		name, file, _ := strings.Cut(f, "@")
		list = append(list, fmt.Sprintf(`{"name":%q,"filename":%q,"line":7}`, name, file))
	}
	return fmt.Appendf(nil, `[{"pid":9,"thread_id":1,"os_thread_id":9,"thread_name":"MainThread","owns_gil":%t,"frames":[%s]}]`, gil, strings.Join(list, ","))
}

func look(at uint64, th nodeapi.LookedThread, python []byte) *nodeapi.LookedAt {
	if th.TID == 0 {
		th.PID, th.TID = 9, 9
	}
	return &nodeapi.LookedAt{PID: 9, AtNS: at, Threads: []nodeapi.LookedThread{th}, Python: python}
}

func file(kind string) *nodeapi.LookedFile {
	return &nodeapi.LookedFile{Path: "/data/a", Mount: "/data", Type: kind, Source: "nas1:/data"}
}

// TestStill: a rank is still when two looks find it asleep in the same call with the same stack, and nothing has moved. Whatever moves, is
// flushed or could be something else leaves it alone.
func TestStill(t *testing.T) {
	reads := nodeapi.LookedThread{State: "D", Call: "read", Wchan: "rpc_wait_bit_killable", Switches: 5, CPUSeconds: 1, File: file("nfs4")}
	with := func(change func(*nodeapi.LookedThread)) nodeapi.LookedThread {
		th := reads
		change(&th)
		return th
	}
	loader := stack(false, "read_image@images.py", "<module>@train.py")
	pdb := stack(false, "cmdloop@cmd.py", "interaction@pdb.py", "step@train.py")
	prompt := nodeapi.LookedThread{State: "S", Call: "read", Wchan: "n_tty_read", Switches: 5}
	for _, tc := range []struct {
		name           string
		was, is        nodeapi.LookedThread
		before, after  []byte
		storage, still bool
	}{
		{"a read that does not come back", reads, reads, loader, loader, true, true},
		{"without Python", reads, reads, nil, nil, true, true},
		{"on FUSE it sleeps otherwise", with(func(th *nodeapi.LookedThread) { th.State, th.File = "S", file("fuse.sshfs") }), with(func(th *nodeapi.LookedThread) { th.State, th.File = "S", file("fuse.sshfs") }), loader, loader, true, true},
		{"the thread has run", reads, with(func(th *nodeapi.LookedThread) { th.Switches++ }), loader, loader, true, false},
		{"it has used the CPU", reads, with(func(th *nodeapi.LookedThread) { th.CPUSeconds += 0.01 }), loader, loader, true, false},
		{"another line", reads, reads, loader, stack(false, "read_image@other.py"), true, false},
		{"further in the file", reads, with(func(th *nodeapi.LookedThread) { f := *th.File; f.Position = 4096; th.File = &f }), loader, loader, true, false},
		{"a flush", with(func(th *nodeapi.LookedThread) { th.Call = "fsync" }), with(func(th *nodeapi.LookedThread) { th.Call = "fsync" }), loader, loader, true, false},
		{"a local disk", with(func(th *nodeapi.LookedThread) { th.File = file("ext4") }), with(func(th *nodeapi.LookedThread) { th.File = file("ext4") }), loader, loader, true, false},
		{"a driver", with(func(th *nodeapi.LookedThread) { th.File = file("devtmpfs") }), with(func(th *nodeapi.LookedThread) { th.File = file("devtmpfs") }), loader, loader, false, true},
		{"a pipe with a name", with(func(th *nodeapi.LookedThread) { th.State, th.Wchan = "S", "anon_pipe_read" }), with(func(th *nodeapi.LookedThread) { th.State, th.Wchan = "S", "anon_pipe_read" }), loader, loader, false, true},
		{"a prompt", prompt, prompt, pdb, pdb, false, true},
		{"a file of a thread beside it", with(func(th *nodeapi.LookedThread) { th.PID, th.TID = 9, 10 }), with(func(th *nodeapi.LookedThread) { th.PID, th.TID = 9, 10 }), loader, loader, false, false},
		{
			"a worker of the loader", with(func(th *nodeapi.LookedThread) { th.PID, th.TID = 20, 20 }), with(func(th *nodeapi.LookedThread) { th.PID, th.TID = 20, 20 }),
			stack(false, "get@queue.py", "__next__@torch/utils/data/dataloader.py"), stack(false, "get@queue.py", "__next__@torch/utils/data/dataloader.py"), true, true,
		},
	} {
		ev := rca.Evidence{Ranks: []rca.Rank{{ID: 3, PID: 9}}}
		first := Set{3: look(second, tc.was, tc.before)}
		Apply(&ev, first, nil)
		if ev.Ranks[0].Still {
			t.Errorf("%s: still by one look", tc.name)
		}
		ev = rca.Evidence{Ranks: []rca.Rank{{ID: 3, PID: 9}}}
		Apply(&ev, Merge(first, Set{3: look(4*second, tc.is, tc.after)}), first)
		if r := &ev.Ranks[0]; (r.Storage != nil) != tc.storage || r.Still != tc.still {
			t.Errorf("%s: storage %+v, still %v", tc.name, r.Storage, r.Still)
		}
		ev = rca.Evidence{Ranks: []rca.Rank{{ID: 3, PID: 9}}}
		if Apply(&ev, Merge(first, nil), first); ev.Ranks[0].Still {
			t.Errorf("%s: still without a second look", tc.name)
		}
		ev = rca.Evidence{Ranks: []rca.Rank{{ID: 3, PID: 8}}}
		if Apply(&ev, first, nil); ev.Ranks[0].Storage != nil || ev.Ranks[0].Stack != nil {
			t.Errorf("%s: another process", tc.name)
		}
	}
}

// TestFacts: what the kernel keeps from a process, and what could not be seen, is told.
func TestFacts(t *testing.T) {
	was := look(second, nodeapi.LookedThread{State: "S", Call: "clock_nanosleep", Wchan: "hrtimer_nanosleep"}, stack(true, "solve@ext.py"))
	is := *was
	is.AtNS, is.TracerPID, is.Tracer, is.SwappedBytes = 3*second, 77, "gdb", 3e9
	was.Cgroup = &nodeapi.CgroupUse{ThrottledSeconds: 1}
	is.Cgroup = &nodeapi.CgroupUse{ThrottledSeconds: 2, MemoryStalled: 0.5, OOMKills: 2}
	is.Missing = []string{"Kernel stacks are not seen: the exporter lacks CAP_SYS_ADMIN."} // Which decides nothing.
	refused := &nodeapi.LookedAt{Missing: []string{"Its exporter did not look at it closely: it answered 403."}}
	ev := rca.Evidence{Ranks: []rca.Rank{{ID: 3, PID: 9, Host: "node-1"}, {ID: 4, PID: 10, Host: "node-1"}}}
	Apply(&ev, Set{3: &is, 4: refused}, Set{3: was})
	var texts []string
	for _, f := range ev.Facts {
		if f.Rank < 3 || f.Host != "node-1" {
			t.Errorf("%+v", f)
		}
		texts = append(texts, f.Text)
	}
	all := strings.Join(texts, "\n")
	if strings.Contains(all, "CAP_SYS_ADMIN") {
		t.Errorf("what decides nothing is told:\n%s", all)
	}
	for _, want := range []string{
		"sleeps in clock_nanosleep (kernel: hrtimer_nanosleep)", "gdb (process 77) traces it", "holds the interpreter lock while it sleeps, in solve (ext.py:7)",
		"3.0 GB of it are swapped out", "held threads back for 0.5 s in each second", "waited for memory for 50%", "killed 2 processes", "rank 4: Its exporter did not look at it closely: it answered 403",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
}

// TestWrites: a save that moves bytes shows it, also where its file system does not count them.
func TestWrites(t *testing.T) {
	th := nodeapi.LookedThread{State: "S", Call: "write", Wchan: "request_wait_answer", Switches: 5, File: file("fuse")}
	saves := stack(false, "save@torch/serialization.py", "save_checkpoint@train.py")
	was := look(second, th, saves)
	th.Switches = 900
	is := look(3*second, th, saves)
	is.WrittenBytes = 64 << 20
	ev := rca.Evidence{Ranks: []rca.Rank{{ID: 3, PID: 9, WriteBytesPerSec: 0}}}
	if Apply(&ev, Set{3: is}, Set{3: was}); ev.Ranks[0].WriteBytesPerSec != 32<<20 || ev.Ranks[0].Still {
		t.Errorf("%+v", ev.Ranks[0])
	}
}

// TestServes: a server that answers one rank between two looks is no reason to give another up.
func TestServes(t *testing.T) {
	th := nodeapi.LookedThread{State: "D", Call: "openat", Switches: 5, File: file("lustre")}
	moved := th
	moved.Switches = 6
	for name, tc := range map[string]struct {
		other nodeapi.LookedThread
		want  bool
	}{"one is served": {moved, false}, "nobody is": {th, true}} {
		ev := rca.Evidence{Ranks: []rca.Rank{{ID: 3, PID: 9}, {ID: 4, PID: 9}}}
		Apply(&ev, Set{3: look(4*second, th, nil), 4: look(4*second, tc.other, nil)}, Set{3: look(second, th, nil), 4: look(second, th, nil)})
		if ev.Ranks[0].Still != tc.want {
			t.Errorf("%s: still %v", name, ev.Ranks[0].Still)
		}
	}
}
