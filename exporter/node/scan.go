// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/trace"
)

const (
	// maxFiles bounds how many trace files are followed; a node has a few per GPU.
	maxFiles = 1024
	// rescanPeriod is how often a directory is listed although its time stamp says that nothing changed.
	rescanPeriod = 5 * time.Second
	// settlePeriod is how long after a change a directory is listed every round: its time stamp is coarse.
	settlePeriod = time.Second
	// readyPatience is how long a file may be without its magic before it counts as broken.
	readyPatience = 5 * time.Second
	// retryPeriod is how often an unreadable file is tried again.
	retryPeriod = 10 * time.Second
)

type directory struct {
	path    string
	changed time.Time // Modification time when last listed.
	listed  time.Time
	missing bool
	left    int // Files left out at the last listing.
}

// fileID tells a file from another one that was put in its place.
type fileID struct{ dev, ino uint64 }

func idOf(fi os.FileInfo) (id fileID, uid uint32) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return fileID{uint64(st.Dev), st.Ino}, st.Uid //nolint:unconvert // Dev's type differs between systems.
	}
	return fileID{}, 0
}

// unreadFile is a file that could not be read, or whose process is long dead: it is left alone.
type unreadFile struct {
	id      fileID
	err     error // nil: forgotten after its process died.
	first   time.Time
	nextTry time.Time
	counted bool
}

// scan brings the list of processes in line with the directories.
func (s *Sampler) scan(now time.Time) {
	for _, d := range s.dirs {
		changed, err := modified(d.path)
		if err != nil {
			s.noteMissing(d, err)
			s.vanish(d.path, nil)
			continue
		}
		d.missing = false
		// Listing very many files takes long, and making one more is easy.
		quiet := changed.Equal(d.changed) && now.Sub(changed) > settlePeriod || d.left > 0
		if quiet && now.Sub(d.listed) < rescanPeriod && !s.waiting(now) {
			continue
		}
		d.changed, d.listed = changed, now
		s.list(d, now)
	}
}

// modified is when a directory changed last. The call is made every round and hides from the runtime that it is a system
// call: it is over before another thread could take over, and telling would wake the runtime's monitor.
func modified(path string) (time.Time, error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return time.Time{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	var st unix.Stat_t
	dir := unix.AT_FDCWD
	_, _, errno := unix.RawSyscall6(unix.SYS_NEWFSTATAT, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&st)), 0, 0, 0)
	if errno != 0 {
		return time.Time{}, &fs.PathError{Op: "stat", Path: path, Err: errno}
	}
	return time.Unix(st.Mtim.Unix()), nil
}

func (s *Sampler) noteMissing(d *directory, err error) {
	if !d.missing && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("Looking at trace directory", "dir", d.path, "err", err)
	}
	d.missing = true
	d.changed = time.Time{}
}

// waiting tells whether an unreadable file is due to be tried again.
func (s *Sampler) waiting(now time.Time) bool {
	for _, u := range s.unread {
		if u.err != nil && !u.nextTry.After(now) {
			return true
		}
	}
	return false
}

func (s *Sampler) list(d *directory, now time.Time) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		s.log.Warn("Listing trace directory", "dir", d.path, "err", err)
		return
	}
	present := map[string]fileID{}
	var files []found
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), trace.Suffix) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(d.path, e.Name())
		if fi, err := os.Lstat(path); err == nil {
			id, uid := idOf(fi)
			present[path] = id
			files = append(files, found{path, id, uid, fi.Size() == 0})
		}
	}
	s.vanish(d.path, present)
	chosen, left := s.share(files, maxFiles)
	if left > 0 && left != d.left {
		s.log.Warn("Too many trace files: some are left out", "dir", d.path, "limit", maxFiles, "left_out", left)
	}
	d.left = left
	slices.SortFunc(chosen, func(a, b found) int { return cmp.Compare(a.path, b.path) })
	for _, f := range chosen {
		s.consider(f.path, f.id, now)
	}
}

// vanish marks what is no longer in a directory.
func (s *Sampler) vanish(dir string, present map[string]fileID) {
	for _, p := range s.processes {
		if filepath.Dir(p.path) == filepath.Clean(dir) && present[p.path] != p.id {
			p.unlinked = true
		}
	}
	for path, u := range s.unread {
		if filepath.Dir(path) == filepath.Clean(dir) && present[path] != u.id {
			delete(s.unread, path)
		}
	}
}

// consider opens a file unless it is known.
func (s *Sampler) consider(path string, id fileID, now time.Time) {
	for _, p := range s.processes {
		if p.path == path && p.id == id {
			return
		}
	}
	u := s.unread[path]
	if u != nil && (u.err == nil || u.nextTry.After(now)) {
		return
	}
	f, err := trace.Open(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.countUnread(path, id, err, now)
		}
		return
	}
	delete(s.unread, path)
	if !s.makeRoom(Tenant{UID: f.Owner()}) {
		s.countUnread(path, id, &trace.Error{Reason: trace.ReasonHostile, Err: errTooMany}, now)
		f.Close()
		return
	}
	p := newProcess(path, id, f)
	s.ask(p, now)
	if p.Dead() {
		// It died before it was found: since its last stamp at the latest.
		if s.shown()+f.Slots() > maxState {
			s.countUnread(path, id, &trace.Error{Reason: trace.ReasonHostile, Err: errTooLarge}, now)
			f.Close()
			return
		}
		if err := f.Snapshot(&p.Snap); err != nil {
			s.countUnread(path, id, err, now)
			f.Close()
			return
		}
		p.deadSince = now.Add(-p.silence(s.opts.Clock()))
		if now.Sub(p.deadSince) >= s.opts.KeepDead {
			s.ignore(p)
			f.Close()
			return
		}
		if err := s.split(p); err != nil {
			s.countUnread(path, id, err, now)
			p.file.Close()
			return
		}
		s.readLast(p, now)
	}
	s.processes = append(s.processes, p)
	slices.SortStableFunc(s.processes, func(a, b *Process) int { return cmp.Compare(a.path, b.path) })
	s.log.Info("Following trace file", "file", path, "pid", p.Snap.Identity.PID, "state", string(p.Kernel.State))
}

// ignore remembers a file that is not to be opened again.
func (s *Sampler) ignore(p *Process) { s.unread[p.path] = &unreadFile{id: p.id} }

// countUnread notes a file that could not be read: one count and one log line each time its error changes.
func (s *Sampler) countUnread(path string, id fileID, err error, now time.Time) {
	u := s.unread[path]
	if u == nil || u.err == nil {
		u = &unreadFile{id: id, first: now}
		s.unread[path] = u
	}
	u.nextTry = now.Add(retryPeriod)
	if errors.Is(err, trace.ErrNotReady) && now.Sub(u.first) < readyPatience {
		u.err, u.nextTry = err, now
		return
	}
	if u.counted && u.err.Error() == err.Error() {
		return
	}
	u.err, u.counted = err, true
	s.readErrors[trace.ReasonOf(err)]++
	s.log.Warn("Skipping trace file", "file", path, "err", err)
}
