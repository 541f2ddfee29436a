// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
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

// directory is a root of trace files, with the folders in it.
type directory struct {
	path    string
	changed map[string]time.Time // By path of a folder: its modification time when last listed.
	listed  time.Time
	missing bool
	trouble string // What was said of it last.
	left    int    // Files and folders left out at the last listing.
	private bool   // In a mount namespace of a process's own: it is not listed.
	own     bool   // Not in the filesystem: this exporter writes the files, about processes that do not.
}

// has tells whether a file lies in the directory or in a folder in it.
func (d *directory) has(path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(d.path, "/")+"/")
}

// name is a file's path in the directory.
func (d *directory) name(path string) string {
	return strings.TrimPrefix(path, strings.TrimSuffix(d.path, "/")+"/")
}

// fileID tells a file from another one that was put in its place.
type fileID struct{ dev, ino uint64 }

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
		if _, err := modified(d.path); err != nil {
			s.noteMissing(d, err)
			s.vanish(d, nil)
			continue
		}
		if d.missing {
			d.missing = false
			s.log.Info("Trace directory is there now", "dir", d.path)
		}
		// Listing very many files takes long, and making one more is easy.
		quiet := d.left > 0 || d.quiet(now)
		if quiet && now.Sub(d.listed) < rescanPeriod && !s.waiting(now) {
			continue
		}
		d.listed = now
		s.list(d, now)
	}
}

// quiet tells whether no folder has changed since it was listed.
func (d *directory) quiet(now time.Time) bool {
	for path, before := range d.changed {
		if changed, err := modified(path); err != nil || !changed.Equal(before) || now.Sub(changed) <= settlePeriod {
			return false
		}
	}
	return len(d.changed) > 0
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
	_, _, errno := unix.RawSyscall6(unix.SYS_NEWFSTATAT, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	if errno != 0 {
		return time.Time{}, &fs.PathError{Op: "stat", Path: path, Err: errno}
	}
	return time.Unix(st.Mtim.Unix()), nil
}

func (s *Sampler) noteMissing(d *directory, err error) {
	switch {
	case d.missing:
	case errors.Is(err, fs.ErrNotExist):
		s.log.Warn("Trace directory does not exist: no job on this node is watched until one makes it", "dir", d.path)
	default:
		s.log.Warn("Looking at trace directory", "dir", d.path, "err", err)
	}
	d.missing = true
	d.changed = nil
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
	t, err := readTree(d.path, s.inUse(d), s.procs.Owners)
	if err != nil {
		d.say(s, err.Error())
		s.vanish(d, nil)
		return
	}
	defer t.close()
	d.say(s, t.trouble())
	d.changed = t.changed
	present := map[string]fileID{}
	for _, f := range t.files {
		present[f.path] = f.id
	}
	for _, r := range t.refused {
		present[r.path] = r.id
	}
	s.vanish(d, present)
	chosen, left := s.share(t.files, maxFiles)
	if left += t.left; left > 0 && left != d.left {
		s.log.Warn("Too many trace files: some are left out", "dir", d.path, "limit", maxFiles, "left_out", left)
	}
	d.left = left
	slices.SortFunc(chosen, func(a, b found) int { return cmp.Compare(a.path, b.path) })
	for _, f := range chosen {
		s.consider(d, f, now)
	}
	for _, r := range t.refused {
		if u := s.unread[r.path]; u == nil || !u.nextTry.After(now) {
			s.countUnread(r.path, r.id, r.err, now)
		}
	}
}

// say tells what is wrong with the directory, when that changes.
func (d *directory) say(s *Sampler, trouble string) {
	if trouble != "" && trouble != d.trouble {
		s.log.Warn("Looking at trace directory", "dir", d.path, "err", trouble)
	}
	d.trouble = trouble
}

// inUse gives the files of the directory that are followed, and the folders that they lie in.
func (s *Sampler) inUse(d *directory) map[string]bool {
	used := map[string]bool{}
	for _, p := range s.processes {
		if d.has(p.path) && !p.Dead() {
			folder := filepath.Dir(p.path)
			used[p.path], used[folder], used[filepath.Dir(folder)] = true, true, true
		}
	}
	return used
}

// vanish marks what is no longer in a directory.
func (s *Sampler) vanish(d *directory, present map[string]fileID) {
	for _, p := range s.processes {
		if d.has(p.path) && present[p.path] != p.id {
			p.unlinked = true
		}
	}
	for path, u := range s.unread {
		if d.has(path) && present[path] != u.id {
			delete(s.unread, path)
		}
	}
}

// open opens a file that was found, if it still is that one.
func (f *found) open() (*trace.File, error) {
	file, err := trace.OpenAt(f.in.fd(), filepath.Base(f.path))
	if err != nil {
		return nil, err
	}
	if !f.in.shared && file.Owner() != f.in.owner {
		return nil, errors.Join(&trace.Error{Reason: trace.ReasonOwner, Err: errStranger}, file.Close())
	}
	return file, nil
}

// consider opens a file unless it is known.
func (s *Sampler) consider(d *directory, found found, now time.Time) {
	path, id := found.path, found.id
	for _, p := range s.processes {
		if p.path == path && p.id == id {
			return
		}
	}
	u := s.unread[path]
	if u != nil && (u.err == nil || u.nextTry.After(now)) {
		return
	}
	f, err := found.open()
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
	p.dir = d
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
		p.deadSince, p.foundDead = now.Add(-p.silence(s.opts.Clock())), p.Kernel.State == nodeapi.ProcessGone
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
