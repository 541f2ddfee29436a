// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
)

// One user fills the directory. Others' files are looked at all the same, and of the user's own the empty ones go first.
func TestFilesAreShared(t *testing.T) {
	s := &Sampler{unread: map[string]*unreadFile{}}
	var files []found
	for i := range 5000 {
		files = append(files, found{path: fmt.Sprintf("a%04d", i), uid: 1001, empty: true})
	}
	files = append(files, found{path: "z-evil", uid: 1001}, found{path: "z0", uid: 1002}, found{path: "z1", uid: 1003}, found{path: "z2", uid: 1003})
	s.processes = []*Process{claimant("a4999", 1001, "")} // Followed, although its file is empty now.
	chosen, left := s.share(files, maxFiles)
	if len(chosen) != maxFiles || left != len(files)-maxFiles {
		t.Errorf("%d files chosen, %d left out", len(chosen), left)
	}
	has := map[string]bool{}
	for _, f := range chosen {
		has[f.path] = true
	}
	for _, path := range []string{"z-evil", "z0", "z1", "z2", "a4999"} {
		if !has[path] {
			t.Errorf("%s is left out", path)
		}
	}
}

// All places are taken. A newcomer takes one of whoever has most, a dead one first, and nobody makes room for itself.
func TestRoomIsMade(t *testing.T) {
	full := func() *Sampler {
		s := &Sampler{unread: map[string]*unreadFile{}}
		for i := range maxFiles - 1 {
			p := claimant(fmt.Sprint(i), 1001, "")
			p.Lost = true // There is no file to close.
			s.processes = append(s.processes, p)
		}
		s.processes = append(s.processes, claimant("other", 1002, ""))
		s.processes[77].end()
		return s
	}
	s := full()
	if !s.makeRoom(Tenant{UID: 1003}) || len(s.processes) != maxFiles-1 {
		t.Fatalf("%d processes", len(s.processes))
	}
	if s.processes[77].path != "78" || s.processes[len(s.processes)-1].path != "other" {
		t.Error("not the dead one gave way")
	}
	s = full()
	if s.makeRoom(Tenant{UID: 1001}); len(s.processes) != maxFiles-1 || s.processes[77].path != "78" {
		t.Error("of its own, the dead one gives way")
	}
	s.processes = append(s.processes, claimant("another", 1001, ""))
	if s.makeRoom(Tenant{UID: 1001}) {
		t.Error("a living one gave way to its own user's next")
	}
}
