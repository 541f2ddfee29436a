// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package pyspy runs the node's own py-spy on a process.
package pyspy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/exporter/proc"
)

const (
	maxOutput = 1 << 20
	maxError  = 200
	// maxAtATime bounds how many run beside the jobs of the node.
	maxAtATime = 4
	// waitForPipes is how long what a killed py-spy holds open is waited for.
	waitForPipes = 500 * time.Millisecond
)

// Spy is an installed py-spy.
type Spy struct {
	path   string
	places chan struct{}
}

// Find finds py-spy by its path, or on the PATH where that is empty. It must be the node's own: one that a job brings along would run with
// the exporter's rights.
func Find(path string) (*Spy, error) {
	if path == "" {
		path = "py-spy"
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return nil, fmt.Errorf("looking for py-spy: %w", err)
	}
	return &Spy{path: found, places: make(chan struct{}, maxAtATime)}, nil
}

// Dump takes the stacks of a process, which goes on meanwhile. py-spy enters the mount namespace of a container by itself.
func (s *Spy) Dump(ctx context.Context, pid int, startTicks uint64) (json.RawMessage, error) {
	// py-spy takes numbers of the exporter's own PID namespace.
	own, err := proc.Open("/proc")
	if err != nil {
		return nil, err
	}
	if start, err := own.StartTime(pid); err != nil || start != startTicks {
		return nil, errors.New("the exporter is not in the node's PID namespace")
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return nil, errors.New("others were looked at until time was up")
	}
	out, failed := limited{left: maxOutput}, limited{left: maxError}
	cmd := exec.CommandContext(ctx, s.path, "dump", "--nonblocking", "--json", "--pid", strconv.Itoa(pid))
	cmd.Env = []string{"LC_ALL=C"}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &failed, waitForPipes
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("py-spy took too long")
	case out.full:
		return nil, errors.New("py-spy printed too much")
	case err != nil:
		first, _, _ := strings.Cut(strings.TrimSpace(failed.b.String()), "\n")
		return nil, fmt.Errorf("py-spy failed (%w): %s", err, strings.TrimSuffix(strings.ToValidUTF8(first, "?"), "."))
	}
	var small bytes.Buffer
	if err := json.Compact(&small, out.b.Bytes()); err != nil {
		return nil, fmt.Errorf("reading what py-spy printed: %w", err)
	}
	return small.Bytes(), nil
}

// limited keeps the beginning of what is written to it.
type limited struct {
	b    bytes.Buffer
	left int
	full bool
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.b.Write(p[:n])
	l.left -= n
	l.full = l.full || n < len(p)
	return len(p), nil
}
