// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace"
)

var (
	errOtherFile = errors.New("the process that it claims to be of lives and writes another trace file")
	errNoFile    = errors.New("the process that it claims to be of lives and does not have it mapped")
)

// settle refuses files that claim a living process of which the kernel shows that it writes another one, or none: copies, forgeries,
// and what a process left before it began another program. Root in a pod may own a file that claims any process of the node, and
// one without a trace file, such as the launcher of a job, began before the ranks that it started. Where the kernel bears out all of
// them, or shows no mappings, all stay.
func (s *Sampler) settle(now time.Time) {
	claims := map[int][]*Process{}
	for _, p := range s.processes {
		if p.Verified() && !p.Dead() && !p.Lost {
			claims[p.Kernel.HostPID] = append(claims[p.Kernel.HostPID], p)
		}
	}
	for pid, list := range claims {
		held := func(p *Process) bool { return p.dir.own || s.procs.Holds(pid, p.id.dev, p.id.ino) }
		others := slices.DeleteFunc(slices.Clone(list), held)
		reason := errOtherFile
		if len(others) == len(list) {
			reason = errNoFile
			others = slices.DeleteFunc(others, func(p *Process) bool { return !s.procs.Disowns(pid, filepath.Base(p.path)) })
		}
		for _, p := range others {
			s.lose(p, now, &trace.Error{Reason: trace.ReasonIdentity, Err: reason})
			// It will not become true while the process lives.
			s.unread[p.path].nextTry = now.Add(s.opts.KeepDead)
		}
	}
}
