// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package proc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
)

func open(t *testing.T, root string) *proc.FS {
	t.Helper()
	fs, err := proc.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestReadsAProcess(t *testing.T) {
	tree := proctest.New(t)
	tree.Put(proctest.Process{
		PID: 4242, Command: "evil) R 1 (name", State: "D", CPUTicks: 400, StartTicks: 777, ReadBytes: 10, WriteBytes: 20,
		Cgroup:  "0::/kubepods.slice/cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n",
		Threads: []proctest.Thread{{TID: 4243, State: "S", CPUTicks: 100, RunDelayNS: 2.5e9, Wchan: "futex_do_wait"}},
	})
	fs := open(t, tree.Root)
	st, err := fs.Stat(4242)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(proc.Stat{State: 'D', CPUSeconds: 4, StartTicks: 777}, st); diff != "" {
		t.Errorf("stat (-want +got):\n%s", diff)
	}
	if io, err := fs.IO(4242); err != nil || io != (proc.IO{ReadBytes: 10, WriteBytes: 20, Read: 1, Written: 2}) {
		t.Errorf("io %+v, %v", io, err)
	}
	if st, err := fs.ThreadStat(4242, 4243); err != nil || st.State != 'S' || st.CPUSeconds != 1 {
		t.Errorf("thread stat %+v, %v", st, err)
	}
	if s, err := fs.ThreadSched(4242, 4243); err != nil || s != (proc.Sched{CPUSeconds: 1, DelaySeconds: 2.5}) {
		t.Errorf("schedstat %+v, %v", s, err)
	}
	if w := fs.Wchan(4242, 4243); w != "futex_do_wait" {
		t.Errorf("wchan %q", w)
	}
	if c := fs.Cgroup(4242); c.ContainerID != "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" || c.Path == "" {
		t.Errorf("cgroup %+v", c)
	}
	if _, err := fs.Stat(1000); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent process: %v", err)
	}
}

// TestCgroup has the names that systemd, cgroupfs, containerd, CRI-O, Docker and Slurm give to cgroups.
func TestCgroup(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const uid = "0a1b2c3d-1111-2222-3333-444455556666"
	const slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice"
	for _, tt := range []struct{ name, file, path, container, pod string }{
		{"systemd and containerd", "0::" + slice + "/cri-containerd-" + id + ".scope\n", slice + "/cri-containerd-" + id + ".scope", id, uid},
		{"cgroupfs", "0::/kubepods/besteffort/pod" + uid + "/" + id + "\n", "/kubepods/besteffort/pod" + uid + "/" + id, id, uid},
		{"guaranteed", "0::/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice/crio-" + id + ".scope\n", "/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice/crio-" + id + ".scope", id, uid},
		{
			"version 1", "12:memory:/kubepods/burstable/pod" + uid + "/" + id + "\n1:name=systemd:/kubepods/burstable/pod" + uid + "/" + id + "\n0::/\n",
			"/kubepods/burstable/pod" + uid + "/" + id, id, uid,
		},
		{"static pod", "0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + id + "\n", "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + id, id, "0123456789abcdef0123456789abcdef"},
		{"cgroupfs, from a pod's own namespace", "0::/../../pod" + uid + "/" + id + "\n", "/../../pod" + uid + "/" + id, id, uid},
		{"cgroupfs, of another class", "0::/../../../besteffort/pod" + uid + "/" + id + "\n", "/../../../besteffort/pod" + uid + "/" + id, id, uid},
		{
			"systemd, from a pod's own namespace", "0::/../../kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-" + id + ".scope\n",
			"/../../kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-" + id + ".scope", id, uid,
		},
		{
			"a peer's own cgroup named after another's", "0::/../../pod" + uid + "/" + id + "/kubepods/podffffffff-1111-2222-3333-444455556666/x\n",
			"/../../pod" + uid + "/" + id + "/kubepods/podffffffff-1111-2222-3333-444455556666/x", id, uid,
		},
		{"docker", "0::/system.slice/docker-" + id + ".scope\n", "/system.slice/docker-" + id + ".scope", id, ""},
		{"slurm", "0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_3\n", "/system.slice/slurmstepd.scope/job_17/step_0/user/task_3", "", ""},
		{"slurm, version 1", "4:memory:/slurm/uid_1000/job_17/step_0/task_3\n", "/slurm/uid_1000/job_17/step_0/task_3", "", ""},
		{"a user's own cgroup named after Slurm's", "0::/user.slice/user-7.slice/user@7.service/slurmstepd.scope/job_17/step_0\n", "/user.slice/user-7.slice/user@7.service/slurmstepd.scope/job_17/step_0", "", ""},
		{"a user's own cgroup named after a pod's", "0::/user.slice/user-7.slice/user@7.service" + slice + "\n", "/user.slice/user-7.slice/user@7.service" + slice, "", ""},
		{"a pod's own cgroup named after another's", "0::/kubepods/burstable/pod" + uid + "/" + id + "/kubepods/podffffffff-1111-2222-3333-444455556666/x\n", "/kubepods/burstable/pod" + uid + "/" + id + "/kubepods/podffffffff-1111-2222-3333-444455556666/x", id, uid},
		{"a container's own cgroup named after Slurm's", "0::/system.slice/docker-" + id + ".scope/slurm/job_17/step_0\n", "/system.slice/docker-" + id + ".scope/slurm/job_17/step_0", id, ""},
		{"containerd by cgroupfs under a kubelet with systemd", "0::/system.slice/containerd.service/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice:cri-containerd:" + id + "\n", "/system.slice/containerd.service/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice:cri-containerd:" + id, id, uid},
		{"a kubelet's own root", "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-" + id + ".scope\n", "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-" + id + ".scope", id, uid},
		{"a kubelet's own root, by cgroupfs", "0::/kubelet/kubepods/burstable/pod" + uid + "/crio-" + id + "\n", "/kubelet/kubepods/burstable/pod" + uid + "/crio-" + id, id, uid},
		{"podman", "0::/machine.slice/libpod-" + id + ".scope/container\n", "/machine.slice/libpod-" + id + ".scope/container", id, ""},
		{"podman without root", "0::/user.slice/user-7.slice/user@7.service/user.slice/libpod-" + id + ".scope/container\n", "/user.slice/user-7.slice/user@7.service/user.slice/libpod-" + id + ".scope/container", id, ""},
		{"LXC", "0::/lxc.payload.c1/system.slice/ssh.service\n", "/lxc.payload.c1/system.slice/ssh.service", "c1", ""},
		{"LXC, version 1", "4:memory:/lxc/c1/init.scope\n", "/lxc/c1/init.scope", "c1", ""},
		{"a container in one of LXC's", "0::/lxc.payload.c1/docker/" + id + "\n", "/lxc.payload.c1/docker/" + id, "c1/" + id, ""},
		{"systemd-nspawn", "0::/machine.slice/systemd-nspawn@c1.service/payload\n", "/machine.slice/systemd-nspawn@c1.service/payload", "c1", ""},
		{"a machine", "0::/machine.slice/machine-c1.scope/payload\n", "/machine.slice/machine-c1.scope/payload", "c1", ""},
		{"podman's cgroup named after a pod's", "0::/machine.slice/libpod-" + id + ".scope/container" + slice + "/x\n", "/machine.slice/libpod-" + id + ".scope/container" + slice + "/x", id, ""},
		{"docker's cgroup named after a pod's", "0::/docker/" + id + "/kubepods/burstable/pod" + uid + "/x\n", "/docker/" + id + "/kubepods/burstable/pod" + uid + "/x", id, ""},
		{"LXC's cgroup named after a pod's", "0::/lxc.payload.c1/kubepods/pod" + uid + "/x\n", "/lxc.payload.c1/kubepods/pod" + uid + "/x", "c1", ""},
		{"LXC's cgroup named after Slurm's", "0::/lxc.payload.c1/system.slice/slurmstepd.scope/job_17/step_0\n", "/lxc.payload.c1/system.slice/slurmstepd.scope/job_17/step_0", "c1", ""},
		{"a delegated service's cgroup named after a pod's", "0::/system.slice/condor.service/htcondor/slot1" + slice + "/x\n", "/system.slice/condor.service/htcondor/slot1" + slice + "/x", "", ""},
		{"a Slurm job's cgroup named after a pod's", "0::/system.slice/slurmstepd.scope/job_18/step_0/user/task_0" + slice + "/x\n", "/system.slice/slurmstepd.scope/job_18/step_0/user/task_0" + slice + "/x", "", ""},
		{"a peer's docker cgroup named after a pod's", "0::/../../../../system.slice/docker-" + id + ".scope" + slice + "/x\n", "/../../../../system.slice/docker-" + id + ".scope" + slice + "/x", id, ""},
		{"a cgroup namespace hides it", "0::/\n", "/", "", ""},
		{"nonsense", "what\n\n::\n", "", "", ""},
		{"a name that is no pod's", "0::/user.slice/pod-of-mine/pod12\n", "/user.slice/pod-of-mine/pod12", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := proctest.New(t)
			tree.Put(proctest.Process{PID: 7, Cgroup: tt.file})
			want := proc.Cgroup{Path: tt.path, ContainerID: tt.container, PodUID: tt.pod}
			switch tt.name {
			case "slurm", "slurm, version 1":
				want.SlurmJob, want.SlurmStep = "17", "0"
			case "a Slurm job's cgroup named after a pod's":
				want.SlurmJob, want.SlurmStep = "18", "0"
			}
			if got := open(t, tree.Root).Cgroup(7); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	tree := proctest.New(t)
	tree.Put(proctest.Process{PID: 10, StartTicks: 5})
	tree.Put(proctest.Process{PID: 5000, InnerPID: 7, Namespace: 111, StartTicks: 6})
	tree.Put(proctest.Process{PID: 5001, InnerPID: 7, Namespace: 222, StartTicks: 6})
	fs := open(t, tree.Root)
	for _, tt := range []struct {
		name  string
		claim proc.Claim
		pid   int
		err   error
	}{
		{"same namespace", proc.Claim{PID: 10, Namespace: proctest.InitNamespace, StartTicks: 5}, 10, nil},
		{"number used again", proc.Claim{PID: 10, Namespace: proctest.InitNamespace, StartTicks: 4}, 0, proc.ErrGone},
		{"no such number", proc.Claim{PID: 11, Namespace: proctest.InitNamespace, StartTicks: 5}, 0, proc.ErrGone},
		{"namespace unknown, found", proc.Claim{PID: 10, StartTicks: 5}, 10, nil},
		{"namespace unknown, not found", proc.Claim{PID: 10, StartTicks: 4}, 0, proc.ErrUnseen},
		{"container", proc.Claim{PID: 7, Namespace: 111, StartTicks: 6}, 5000, nil},
		{"other container, same number", proc.Claim{PID: 7, Namespace: 222, StartTicks: 6}, 5001, nil},
		{"container that has ended", proc.Claim{PID: 7, Namespace: 333, StartTicks: 6}, 0, proc.ErrGone},
		{"no number", proc.Claim{}, 0, proc.ErrUnseen},
		{"negative number", proc.Claim{PID: -1, Namespace: 111}, 0, proc.ErrUnseen},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pid, err := fs.Find(tt.claim)
			if pid != tt.pid || !errors.Is(err, tt.err) {
				t.Errorf("got %d, %v; want %d, %v", pid, err, tt.pid, tt.err)
			}
		})
	}
}

func TestInnerMountCannotTellWhoIsGone(t *testing.T) {
	tree := proctest.New(t)
	tree.Put(proctest.Process{PID: 1, Namespace: 999})
	fs := open(t, tree.Root)
	if fs.SeesAll() {
		t.Error("claims to see all processes")
	}
	if _, err := fs.Find(proc.Claim{PID: 7, Namespace: 111, StartTicks: 6}); !errors.Is(err, proc.ErrUnseen) {
		t.Errorf("process of another container: %v", err)
	}
	if _, err := fs.Find(proc.Claim{PID: 7, Namespace: 999, StartTicks: 6}); !errors.Is(err, proc.ErrGone) {
		t.Errorf("process of the own container: %v", err)
	}
}

func TestFindThread(t *testing.T) {
	tree := proctest.New(t)
	tree.Put(proctest.Process{PID: 5000, InnerPID: 7, Namespace: 111, Threads: []proctest.Thread{{TID: 5003, InnerTID: 9}}})
	fs := open(t, tree.Root)
	if tid := fs.FindThread(5000, 9); tid != 5003 {
		t.Errorf("thread 9 is %d", tid)
	}
	if tid := fs.FindThread(5000, 10); tid != 0 {
		t.Errorf("thread 10 is %d", tid)
	}
}

// TestOwnProcess reads the kernel's real procfs.
func TestOwnProcess(t *testing.T) {
	fs := open(t, "/proc")
	st, err := fs.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	pid, err := fs.Find(proc.Claim{PID: os.Getpid(), Namespace: fs.Namespace(), StartTicks: st.StartTicks})
	if err != nil || pid != os.Getpid() {
		t.Errorf("found %d, %v", pid, err)
	}
	if fs.BootID() == "" || st.StartTicks == 0 {
		t.Errorf("boot %q, start %d", fs.BootID(), st.StartTicks)
	}
	if uid, err := fs.UID(os.Getpid()); err != nil || int(uid) != os.Getuid() {
		t.Errorf("uid %d, %v", uid, err)
	}
}

func FuzzStat(f *testing.F) {
	f.Add("1 (a) S 1 1 1 0 -1 4194304 1 0 0 0 3 4 0 0 20 0 1 0 99 4096 1 0\n")
	f.Add("1 (a) b) ) ")
	f.Add("")
	f.Fuzz(func(t *testing.T, content string) {
		tree := proctest.New(t)
		tree.Write("9/stat", content)
		if st, err := open(t, tree.Root).Stat(9); err == nil && st.State == 0 {
			t.Errorf("no state from %q", content)
		}
	})
}

func TestAffinity(t *testing.T) {
	tree := proctest.New(t)
	tree.Put(proctest.Process{PID: 7, Threads: []proctest.Thread{{TID: 8, CPUs: "0-3,8,10-11"}, {TID: 9}}})
	fs := open(t, tree.Root)
	if list, n := fs.Affinity(7, 8); list != "0-3,8,10-11" || n != 7 {
		t.Errorf("%q, %d", list, n)
	}
	for _, tid := range []int{9, 10} {
		if list, n := fs.Affinity(7, tid); list != "" || n != 0 {
			t.Errorf("thread %d: %q, %d", tid, list, n)
		}
	}
	for list, want := range map[string]int{"5": 1, "0-127": 128, "": 0, "x": 0, "3-1": 0, "0-99999999": 0, "1,,2": 0, "-1": 0} {
		if got := proc.CountCPUs(list); got != want {
			t.Errorf("%q: %d CPUs, want %d", list, got, want)
		}
	}
	// The process's own threads, as the running kernel lists them.
	own := open(t, "/proc")
	if list, n := own.Affinity(os.Getpid(), os.Getpid()); n < 1 || list == "" {
		t.Errorf("own: %q, %d", list, n)
	}
}

// TestKeepsFilesOpen follows a real process to its end: what is kept open of it must not outlive it.
func TestKeepsFilesOpen(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	pid := child.Process.Pid
	fs := open(t, "/proc")
	look := func() error {
		_, errStat := fs.Stat(pid)
		_, errIO := fs.IO(pid)
		_, errSched := fs.ThreadSched(pid, pid)
		return errors.Join(errStat, errIO, errSched)
	}
	for range 3 {
		if err := look(); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened(t, pid); n != 3 {
		t.Errorf("%d files are kept open, want 3", n)
	}
	before := opened(t, os.Getpid()) // By other tests.
	if _, err := fs.Find(proc.Claim{PID: os.Getpid(), Namespace: fs.Namespace(), StartTicks: 1}); !errors.Is(err, proc.ErrGone) {
		t.Errorf("another process's claim: %v", err)
	}
	if n := opened(t, os.Getpid()) - before; n != 0 {
		t.Errorf("%d files of a process that was only looked at are kept open", n)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if _, err := fs.Stat(pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its end: %v", err)
	}
	fs.Forget(pid)
	if n := opened(t, pid); n != 0 {
		t.Errorf("%d files are kept open after its end", n)
	}
}

// opened counts the files of a process's directory in procfs that this process has open.
func opened(t *testing.T, pid int) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range fds {
		link, err := os.Readlink("/proc/self/fd/" + fd.Name())
		// Others, as the one that lists them, are not the package's.
		name := filepath.Base(link)
		if err == nil && strings.HasPrefix(link, fmt.Sprintf("/proc/%d/", pid)) && (name == "stat" || name == "io" || name == "schedstat") {
			n++
		}
	}
	return n
}

func FuzzCPUList(f *testing.F) {
	for _, list := range []string{"0-3,8", "5", "", "0-", "4294967296"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		if n := proc.CountCPUs(list); n < 0 {
			t.Errorf("%d CPUs", n)
		}
	})
}
