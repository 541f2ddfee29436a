// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/culprit-project/culprit/exporter/control"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// SetEvents asks the living processes that match q to report other events, in the syntax of CULPRIT_EVENTS relative to
// what they reported at their start; empty: that again. It tells what became of each. A process follows about a second
// after its next operation.
func (s *Sampler) SetEvents(q Query, events string) []nodeapi.Controlled {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := []nodeapi.Controlled{}
	for _, p := range s.processes {
		if p.Dead() || p.Lost || p.Disputed != "" || !q.matches(p) {
			continue
		}
		c := nodeapi.Controlled{File: p.File(), JobID: p.JobID, Rank: p.Rank, EventMask: p.Snap.Status.EventMask}
		if err := p.control(events); err != nil {
			c.Error = err.Error()
		}
		s.log.Info("Events were asked of a process", "file", p.path, "job_id", p.JobID, "rank", p.Rank, "events", events, "err", c.Error)
		asked = append(asked, c)
	}
	return asked
}

func (p *Process) control(events string) error {
	if events == "" {
		p.controlled = false
		return control.Remove(p.path)
	}
	err := control.Write(p.path, p.file.Owner(), events)
	p.controlled = p.controlled || err == nil
	return err
}
