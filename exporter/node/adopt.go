// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/trace"
)

// ownDirectory is where the files that this exporter writes itself are said to lie.
const ownDirectory = "probes"

// Adopt follows a trace file that this exporter writes itself, about a process that does not. It keeps a descriptor of its own.
func (s *Sampler) Adopt(name string, file *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return fmt.Errorf("following a trace file: %w", err)
	}
	f, err := trace.OpenFile(file)
	if err != nil {
		return fmt.Errorf("following a trace file: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.makeRoom(Tenant{UID: f.Owner()}) {
		return fmt.Errorf("following a trace file: %w", errTooMany)
	}
	p := newProcess(filepath.Join(ownDirectory, name), fileID{uint64(st.Dev), st.Ino}, f) //nolint:unconvert // Dev's type differs between systems.
	p.dir = &directory{path: ownDirectory, own: true}
	s.ask(p, s.opts.Now())
	s.processes = append(s.processes, p)
	return nil
}

// Abandon forgets such a file, unless its process has died: then its last state is kept as that of others.
func (s *Sampler) Abandon(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if !p.dir.own || filepath.Base(p.path) != name {
			continue
		}
		if now := s.opts.Now(); !p.Dead() {
			s.ask(p, now)
			s.sampleSafely(p, now, true, true)
		}
		p.unlinked = true // There is no name that could bring it back.
		p.abandoned = !p.Dead()
	}
}

// Reports tells whether a process writes a trace file itself.
func (s *Sampler) Reports(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.Kernel.HostPID == pid && !p.dir.own && !p.Dead() && !p.Lost {
			return true
		}
	}
	return false
}
