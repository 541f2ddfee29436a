// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/trace"
)

// A job whose trace files are not found looks like no job at all. So the mappings of all processes are looked at now and then: a
// process with NCCL shows whether it has the plugin, and one with the plugin where its trace file lies, be it in a mount namespace
// of its own, such as that of a container or of Slurm's job_container/tmpfs.

const (
	// coverPeriod is how often processes are looked for.
	coverPeriod = 15 * time.Second
	// coverMost is how long it takes at most until a process that does not take part in collective communication is looked at
	// again. The time doubles with each look, since programs load NCCL early: reading mappings holds up a process that changes them.
	coverMost = 10 * time.Minute
	// coverParts is the same for one that does.
	coverParts = time.Minute
)

// Coverage counts the processes of the node that have NCCL or the plugin mapped.
type Coverage struct {
	Watched   int // Their trace file is followed.
	Unseen    int // They have the plugin, and no trace file of theirs is followed.
	Unwatched int // They have NCCL without the plugin.
}

// look is what was seen of a process the last time.
type look struct {
	start  uint64
	mapped proc.Mapped
	next   time.Time
	wait   time.Duration
	said   bool // That its trace file is not seen.
}

// later puts the next look off.
func (l *look) later(now time.Time) {
	most := coverMost
	if l.mapped.NCCL || l.mapped.Plugin {
		most = coverParts
	}
	l.wait = min(max(2*l.wait, coverPeriod), most)
	l.next = now.Add(l.wait)
}

// Cover looks for processes that are not watched until ctx ends. It uses a procfs of its own.
func (s *Sampler) Cover(ctx context.Context) {
	procs, err := proc.Open(s.opts.ProcFS)
	if err != nil {
		s.log.Warn("Not looking for processes that are not watched", "err", err)
		return
	}
	looks := map[int]*look{}
	for {
		if err := s.cover(procs, looks); err != nil {
			s.log.Warn("Looking for processes that are not watched", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(coverPeriod):
		}
	}
}

// CoverOnce looks at all processes at once; looks of earlier times are forgotten.
func (s *Sampler) CoverOnce() error {
	procs, err := proc.Open(s.opts.ProcFS)
	if err != nil {
		return err
	}
	return s.cover(procs, map[int]*look{})
}

func (s *Sampler) cover(procs *proc.FS, looks map[int]*look) error {
	pids, err := procs.PIDs()
	if err != nil {
		return err
	}
	now := s.opts.Now()
	here := make(map[int]bool, len(pids))
	for _, pid := range pids {
		here[pid] = true
		lookAt(procs, pid, looks, now)
	}
	for pid := range looks {
		if !here[pid] {
			delete(looks, pid)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var c Coverage
	for pid, l := range looks {
		switch {
		case s.follows(pid):
			c.Watched++
		case l.mapped.Plugin && s.adopt(procs, pid, l, now):
			c.Watched++
		case l.mapped.Plugin:
			c.Unseen++
			s.sayUnseen(pid, l)
		case l.mapped.NCCL:
			c.Unwatched++
		}
	}
	s.coverage = c
	s.forgetPrivate(here)
	return nil
}

// lookAt reads a process's mappings, if it is time to.
func lookAt(procs *proc.FS, pid int, looks map[int]*look, now time.Time) {
	l := looks[pid]
	if l != nil && now.Before(l.next) {
		return
	}
	start, err := procs.StartTime(pid)
	if err != nil {
		delete(looks, pid) // It has gone meanwhile.
		return
	}
	if l == nil || l.start != start {
		l = &look{start: start}
		looks[pid] = l
	}
	if l.mapped, err = procs.Mapped(pid, trace.Suffix); err != nil {
		l.mapped = proc.Mapped{} // Another user's, where the exporter may not look.
	}
	l.later(now)
}

// follows tells whether a trace file of the process is followed.
func (s *Sampler) follows(pid int) bool {
	for _, p := range s.processes {
		if p.Kernel.HostPID == pid && !p.Dead() && !p.Lost {
			return true
		}
	}
	return false
}

// adopt follows the trace files of a process that lie in a mount namespace of its own. What lies in ours, beside the directories that
// the exporter was told of, is not for it: another exporter may follow it.
func (s *Sampler) adopt(procs *proc.FS, pid int, l *look, now time.Time) bool {
	if own, err := procs.OwnMounts(pid); err != nil || !own {
		return false
	}
	for _, f := range l.mapped.Files {
		if err := s.adoptFile(procs, pid, f, now); err != nil && !errors.Is(err, os.ErrNotExist) && !l.said {
			s.log.Warn("Opening the trace file of a process", "pid", pid, "file", f.Path, "err", err)
		}
	}
	return s.follows(pid)
}

func (s *Sampler) adoptFile(procs *proc.FS, pid int, f proc.MappedFile, now time.Time) error {
	dir := &directory{path: filepath.Join(s.opts.ProcFS, strconv.Itoa(pid), "root", filepath.Dir(f.Path)), private: true}
	fd, err := procs.OpenDirIn(pid, filepath.Dir(f.Path))
	if err != nil {
		return err
	}
	in, err := newFolder(fd, dir.path)
	if err != nil {
		return err
	}
	defer in.close()
	name := filepath.Base(f.Path)
	st, err := in.stat(name)
	if err != nil {
		return err
	}
	id := fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // Dev's type differs between systems.
	if st.Mode&unix.S_IFMT != unix.S_IFREG || id != (fileID{f.Device, f.Inode}) {
		return errMoved
	}
	for _, p := range s.processes {
		if p.id == id {
			return nil // Of a process that claims to be another one.
		}
	}
	path := filepath.Join(dir.path, name)
	s.consider(dir, found{path: path, id: id, uid: st.Uid, in: in}, now)
	for _, p := range s.processes {
		if p.path == path {
			p.unlinked = true // No listing will tell when it goes.
		}
	}
	return nil
}

// forgetPrivate forgets files that could not be read and whose process, by which their path leads, has gone.
func (s *Sampler) forgetPrivate(here map[int]bool) {
	for path := range s.unread {
		if rest, ok := strings.CutPrefix(path, filepath.Clean(s.opts.ProcFS)+"/"); ok {
			number, _, _ := strings.Cut(rest, "/")
			if pid, err := strconv.Atoi(number); err == nil && !here[pid] {
				delete(s.unread, path)
			}
		}
	}
}

func (s *Sampler) sayUnseen(pid int, l *look) {
	if l.said {
		return
	}
	l.said = true
	file := "none is mapped"
	if len(l.mapped.Files) > 0 {
		file = l.mapped.Files[0].Path
	}
	s.log.Warn("A process has the plugin, and its trace file is in no directory that the exporter reads: add --trace.dir, or set CULPRIT_DIR in the job", "pid", pid, "file", file)
}

// Coverage gives what was counted last.
func (s *Sampler) Coverage() Coverage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.coverage
}

// MissingDirs counts the trace directories that do not exist.
func (s *Sampler) MissingDirs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, d := range s.dirs {
		if d.missing {
			n++
		}
	}
	return n
}
