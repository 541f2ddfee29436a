// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// View hands over the job as it stands now. The simulation waits meanwhile.
func (c *Cluster) View(f func(*cluster.Recording)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.rec)
}

// Collect hands over what the collector nccl exports now, and the build; it fails when the host does not answer.
func (n *Node) Collect(emit func(prometheus.Metric)) error {
	if !n.Answers() {
		return n.silence()
	}
	s, err := n.scrape()
	if err != nil {
		return err
	}
	build := make(chan prometheus.Metric, 1)
	buildInfo().Collect(build)
	emit(<-build)
	return s.collector().Collect(context.Background(), emit)
}

// silence is the error of whoever asks a host that is not there.
func (n *Node) silence() error {
	return fmt.Errorf("asking %s: %w", n.name, context.DeadlineExceeded)
}

// node finds the exporter of a base URL whose host is the node's name.
func (c *Cluster) node(base string) (*Node, error) {
	name := strings.TrimPrefix(base, "http://")
	for _, n := range c.nodes {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node is called %s", name)
}

// State answers GET /api/v1/state of the node http://NAME in memory, and tells how large the answer would be.
// Its processes are honest, so it costs nothing.
func (c *Cluster) State(_ context.Context, base, jobID string, ranks []int, comms []string, _ func(int64) bool) (*nodeapi.State, int64, error) {
	n, err := c.node(base)
	if err != nil {
		return nil, 0, err
	}
	if !n.Answers() {
		return nil, 0, n.silence()
	}
	f := filter{jobs: []string{jobID}}
	for _, r := range ranks {
		f.ranks = append(f.ranks, int32(r))
	}
	for _, text := range comms {
		var id trace.CommID
		if err := id.UnmarshalText([]byte(text)); err != nil {
			return nil, 0, fmt.Errorf("comm %q is not a hexadecimal number: %w", text, err)
		}
		f.comms = append(f.comms, id)
	}
	st, err := n.State()
	if err != nil {
		return nil, 0, err
	}
	f.narrow(st)
	size, err := sizeOf(st)
	return st, size, err
}

// sizedProcess is which of a node's processes are measured, one of so many: those of one job are alike.
const sizedProcess = 8

// sizeOf tells about how many bytes the answer takes as JSON.
func sizeOf(st *nodeapi.State) (int64, error) {
	var size counter
	enc := json.NewEncoder(&size)
	for i := range st.Processes {
		if i%sizedProcess != 0 {
			continue
		}
		before := size
		if err := enc.Encode(st.Processes[i]); err != nil {
			return 0, err
		}
		size = before + (size-before)*counter(min(sizedProcess, len(st.Processes)-i))
	}
	frame := *st
	frame.Processes = nil
	err := enc.Encode(&frame)
	return int64(size), err
}

// sizedEvery is how often the size of a record is measured: the sum needs no more.
const sizedEvery = 64

// Trace answers GET /api/v1/trace of the node http://NAME in memory, without samples, and tells how large the answer would be.
// What yield gets it must not keep.
func (c *Cluster) Trace(_ context.Context, base, jobID string, history time.Duration, yield func(*nodeapi.TraceLine)) (int64, error) {
	n, err := c.node(base)
	if err != nil {
		return 0, err
	}
	if !n.Answers() {
		return 0, n.silence()
	}
	f := filter{jobs: []string{jobID}}
	wanted := map[string]bool{}
	var size counter
	enc := json.NewEncoder(&size)
	records := 0
	err = n.Trace(history, func(l *nodeapi.TraceLine) error {
		switch {
		case l.Process != nil:
			wanted[l.Process.File] = f.wants(l.Process)
			if !wanted[l.Process.File] {
				return nil
			}
		case l.Sample != nil:
			return nil
		case l.Completion != nil:
			if !wanted[l.Completion.File] {
				return nil
			}
			if records++; records%sizedEvery != 1 {
				yield(l)
				return nil
			}
			before := size
			err := enc.Encode(l)
			size = before + sizedEvery*(size-before)
			yield(l)
			return err
		}
		yield(l)
		return enc.Encode(l)
	})
	return int64(size), err
}

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
