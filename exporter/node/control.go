// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/culprit-project/culprit/exporter/control"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

var (
	errMoved   = errors.New("the trace file is not in its place any more")
	errPrivate = errors.New("the trace file lies in a mount namespace of the process's own, where the exporter writes nothing")
	errOwn     = errors.New("the exporter follows the process by probes, which report operations and nothing else")
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

// control writes or removes the control file, in the very folder that shows the file which is followed: the job's user could
// have put another one in its place.
func (p *Process) control(events string) error {
	if p.dir.own {
		return errOwn
	}
	if p.dir.private {
		return errPrivate
	}
	folder, err := openParent(p.dir.path, p.path)
	if err != nil {
		if events == "" && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	defer folder.close()
	name := filepath.Base(p.path)
	if events == "" {
		p.controlled = false
		return control.Remove(folder.fd(), name)
	}
	st, err := folder.stat(name)
	if err != nil || (fileID{uint64(st.Dev), st.Ino}) != p.id { //nolint:unconvert // Dev's type differs between systems.
		return errors.Join(errMoved, err)
	}
	err = control.Write(folder.fd(), name, p.file.Owner(), events)
	p.controlled = p.controlled || err == nil
	return err
}
