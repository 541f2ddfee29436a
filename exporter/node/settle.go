// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"time"

	"github.com/culprit-project/culprit/trace"
)

var errOtherFile = errors.New("the process that it claims to be of lives and writes another trace file")

// settle refuses files that claim a living process of which the kernel shows that it writes another one: copies, forgeries,
// and what a process left before it began another program. Where the kernel bears out all of them, or none, all stay.
func (s *Sampler) settle(now time.Time) {
	claims := map[int][]*Process{}
	for _, p := range s.processes {
		if p.Verified() && !p.Dead() && !p.Lost {
			claims[p.Kernel.HostPID] = append(claims[p.Kernel.HostPID], p)
		}
	}
	for pid, list := range claims {
		if len(list) < 2 {
			continue
		}
		var others []*Process
		for _, p := range list {
			if !s.procs.Holds(pid, p.id.dev, p.id.ino) {
				others = append(others, p)
			}
		}
		if len(others) == len(list) {
			continue
		}
		for _, p := range others {
			s.lose(p, now, &trace.Error{Reason: trace.ReasonIdentity, Err: errOtherFile})
			// It will not become true while the process lives.
			s.unread[p.path].nextTry = now.Add(s.opts.KeepDead)
		}
	}
}
