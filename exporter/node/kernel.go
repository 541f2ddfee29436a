// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	// maxThreads bounds how many threads of a process are watched.
	maxThreads = 64
	// searchPeriod is how often a process or thread that was not found is searched for again; it means listing all.
	searchPeriod = 10 * time.Second
	// ioWindow is what the rates of bytes are taken over. A process that saves a checkpoint moves bytes in bursts and rests in fsync
	// between them.
	ioWindow = 10 * time.Second
)

// kernelWatch is what was read of a process the last time, for rates.
type kernelWatch struct {
	at         time.Time
	cpu        float64
	io         []ioCount // Of the window, oldest first.
	searched   time.Time
	threads    map[int]threadWatch // By the thread's own number.
	cgroup     proc.Cgroup
	cgroupRead bool
}

// ioCount is how many bytes a process had read and written at a time.
type ioCount struct {
	at time.Time
	proc.IO
}

type threadWatch struct {
	tid      int // As this procfs knows it; 0 not found.
	searched time.Time
	at       time.Time
	sched    proc.Sched
	pinned   time.Time // When the affinity was read.
	cpus     string
	cpuCount int
}

// ask brings the kernel's view of a process up to date.
func (s *Sampler) ask(p *Process, now time.Time) {
	p.asked = true
	k := &p.Kernel
	if boot := p.Snap.Identity.BootID; boot != "" && boot != s.procs.BootID() {
		p.end() // Written before the machine was booted.
		return
	}
	if k.HostPID == 0 && !s.search(p, now) {
		return
	}
	st, err := s.procs.Stat(k.HostPID)
	if err != nil || st.StartTicks != p.Snap.Identity.StartTicks {
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			k.State = nodeapi.ProcessUnknown
			return
		}
		p.end()
		return
	}
	k.State = stateOf(st.State)
	if k.State == nodeapi.ProcessZombie {
		p.end()
		k.State = nodeapi.ProcessZombie
		return
	}
	p.aliveAt = now
	s.askUsage(p, st, now)
	s.askThreads(p, now)
}

// search finds the process by its claim. It reports whether there is one to look at.
func (s *Sampler) search(p *Process, now time.Time) bool {
	w := &p.watch
	k := &p.Kernel
	if !w.searched.IsZero() && now.Sub(w.searched) < searchPeriod {
		s.judgeByLock(p, now)
		return false
	}
	w.searched = now
	pid, err := s.procs.Find(p.claim())
	switch {
	case errors.Is(err, proc.ErrGone):
		p.end()
		return false
	case err != nil:
		k.State = nodeapi.ProcessUnknown
		s.judgeByLock(p, now)
		return false
	}
	// A file may claim to be another user's process. Root may write for anybody.
	owner := p.file.Owner()
	uid, err := s.procs.UID(pid)
	if err != nil || owner != 0 && uid != owner && !p.dir.own && !s.ownsThere(p, pid, uid) {
		k.State = nodeapi.ProcessUnknown
		return false
	}
	p.uid = uid
	k.HostPID, k.Verified, s.found = pid, true, true
	return true
}

// ownsThere tells whether the file's owner is who the process is in its own user namespace, as in a volume that is mounted with the namespace's
// map. Anybody may have that number here, so the kernel must show that the process holds the file.
func (s *Sampler) ownsThere(p *Process, pid int, uid uint32) bool {
	outside, ok := s.procs.Outside(pid, p.file.Owner())
	return ok && outside == uid && s.procs.Holds(pid, p.id.dev, p.id.ino)
}

// judgeByLock decides about a process that cannot be seen: once it held its file's lock, giving it up means its end.
func (s *Sampler) judgeByLock(p *Process, now time.Time) {
	held := p.file.WriterHolds()
	if held {
		p.aliveAt = now
	}
	if p.lockSeen && !held {
		p.end()
	}
	p.lockSeen = p.lockSeen || held
}

// end notes that the process is no more.
func (p *Process) end() {
	p.Kernel = nodeapi.Kernel{
		State: nodeapi.ProcessGone, HostPID: p.Kernel.HostPID, Verified: p.Kernel.Verified,
		CgroupPath: p.Kernel.CgroupPath, ContainerID: p.Kernel.ContainerID, PodUID: p.Kernel.PodUID,
	}
}

func stateOf(c byte) nodeapi.ProcessState {
	switch c {
	case 'R':
		return nodeapi.ProcessRunning
	case 'S', 'I':
		return nodeapi.ProcessSleep
	case 'D':
		return nodeapi.ProcessDisk
	case 'T', 't':
		return nodeapi.ProcessStopped
	case 'Z', 'X', 'x':
		return nodeapi.ProcessZombie
	}
	return nodeapi.ProcessUnknown
}

func (s *Sampler) askUsage(p *Process, st proc.Stat, now time.Time) {
	k, w := &p.Kernel, &p.watch
	seconds := now.Sub(w.at).Seconds()
	first := w.at.IsZero()
	k.CPUCores = rate(first, st.CPUSeconds-w.cpu, seconds)
	if io, err := s.procs.IO(k.HostPID); err == nil {
		w.countIO(ioCount{now, io})
		oldest := &w.io[0]
		seconds := now.Sub(oldest.at).Seconds()
		k.ReadBytesPerSec = rate(first, float64(io.ReadBytes-oldest.ReadBytes), seconds)
		k.WriteBytesPerSec = rate(first, float64(io.WriteBytes-oldest.WriteBytes), seconds)
	}
	w.at, w.cpu = now, st.CPUSeconds
	k.Wchan = ""
	if k.State == nodeapi.ProcessDisk {
		k.Wchan = s.procs.Wchan(k.HostPID, k.HostPID)
	}
	if !w.cgroupRead {
		w.cgroup = s.procs.Cgroup(k.HostPID)
		k.CgroupPath, k.ContainerID, k.PodUID = w.cgroup.Path, w.cgroup.ContainerID, w.cgroup.PodUID
		w.cgroupRead = true
	}
}

// countIO adds a count and drops what is older than the window, but for the last before it.
func (w *kernelWatch) countIO(c ioCount) {
	w.io = append(w.io, c)
	for len(w.io) > 2 && c.at.Sub(w.io[1].at) >= ioWindow {
		w.io = slices.Delete(w.io, 0, 1)
	}
}

func rate(first bool, difference, seconds float64) float64 {
	if first || seconds <= 0 || difference < 0 {
		return 0
	}
	return difference / seconds
}

// askThreads looks at the threads that the communicators name: those that drive the network and those that call NCCL.
func (s *Sampler) askThreads(p *Process, now time.Time) {
	k, w := &p.Kernel, &p.watch
	roles := p.threadRoles()
	if w.threads == nil {
		w.threads = map[int]threadWatch{}
	}
	before := k.Threads
	k.Threads = make([]nodeapi.Thread, 0, len(roles))
	for _, inner := range sortedThreads(roles) {
		t := w.threads[inner]
		if t.tid == 0 && !s.findThread(p, inner, &t, now) {
			w.threads[inner] = t
			continue
		}
		sched, err := s.procs.ThreadSched(k.HostPID, t.tid)
		if err != nil {
			delete(w.threads, inner)
			continue
		}
		first, seconds := t.at.IsZero(), now.Sub(t.at).Seconds()
		th := nodeapi.Thread{
			TID: t.tid, Role: roles[inner],
			CPUCores:     rate(first, sched.CPUSeconds-t.sched.CPUSeconds, seconds),
			RunDelayFrac: min(1, rate(first, sched.DelaySeconds-t.sched.DelaySeconds, seconds)),
		}
		for i := range before {
			if before[i].TID == th.TID {
				th.State, th.Wchan = before[i].State, before[i].Wchan
			}
		}
		if t.pinned.IsZero() || now.Sub(t.pinned) >= searchPeriod {
			t.pinned = now
			t.cpus, t.cpuCount = s.procs.Affinity(k.HostPID, t.tid)
		}
		th.CPUs, th.CPUCount = t.cpus, t.cpuCount
		t.at, t.sched = now, sched
		w.threads[inner] = t
		k.Threads = append(k.Threads, th)
	}
	for inner := range w.threads {
		if _, named := roles[inner]; !named {
			delete(w.threads, inner)
		}
	}
}

// askThreadStates looks at what the threads are doing at this moment. Nobody wants to know while all is well.
func (s *Sampler) askThreadStates(p *Process) {
	if p.Dead() || p.Kernel.HostPID == 0 {
		return
	}
	for i := range p.Kernel.Threads {
		th := &p.Kernel.Threads[i]
		st, err := s.procs.ThreadStat(p.Kernel.HostPID, th.TID)
		if err != nil {
			continue
		}
		th.State, th.Wchan = string(stateOf(st.State)), ""
		if st.State == 'D' || st.State == 'S' {
			th.Wchan = s.procs.Wchan(p.Kernel.HostPID, th.TID)
		}
	}
}

// findThread translates a thread's number into this procfs's. In one's own namespace they are the same.
func (s *Sampler) findThread(p *Process, tid int, t *threadWatch, now time.Time) bool {
	if ns := p.Snap.Identity.PIDNamespace; ns == 0 || ns == s.procs.Namespace() {
		t.tid = tid
		return true
	}
	if !t.searched.IsZero() && now.Sub(t.searched) < searchPeriod {
		return false
	}
	t.searched = now
	t.tid = s.procs.FindThread(p.Kernel.HostPID, tid)
	return t.tid != 0
}

// threadRoles names the threads worth watching by their number in the process's own namespace.
func (p *Process) threadRoles() map[int]string {
	roles := map[int]string{}
	add := func(tid uint32, role string) {
		if tid != 0 && len(roles) < maxThreads {
			roles[int(tid)] = role
		}
	}
	for i := range p.Snap.Comms {
		if c := &p.Snap.Comms[i]; !c.Ended {
			add(c.UserTID, "user")
			add(c.ProxyTID, "proxy")
		}
	}
	return roles
}

func sortedThreads(roles map[int]string) []int {
	tids := make([]int, 0, len(roles))
	for tid := range roles {
		tids = append(tids, tid)
	}
	slices.Sort(tids)
	return tids
}
