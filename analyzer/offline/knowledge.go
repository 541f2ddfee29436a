// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/culprit-project/culprit/analyzer/rca/holmes"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// knowledge is what the engine is told beside the job's files, as the service is by its configuration.
type knowledge struct {
	topology  *topology.Topology
	operators *holmes.Model
}

// know reads the files that the command line names.
func (c *config) know() (k knowledge, err error) {
	var files topology.Files
	for _, name := range c.topology {
		text, err := os.ReadFile(name)
		if err != nil {
			return k, fmt.Errorf("reading the topology: %w", err)
		}
		form := topologyForm(text, &files)
		if *form != "" {
			return k, fmt.Errorf("--topology: %s and %s have the same form, only one can be read", *form, name)
		}
		*form = name
	}
	if k.topology, err = topology.Load(func(name string) (io.ReadCloser, error) { return os.Open(name) }, files); err != nil {
		return k, fmt.Errorf("--topology: %w", err)
	}
	if c.operators == "" {
		return k, nil
	}
	f, err := os.Open(c.operators)
	if err != nil {
		return k, fmt.Errorf("opening the operator model: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if k.operators, err = holmes.ReadModel(f); err != nil {
		return k, fmt.Errorf("--operator-model %s: %w", c.operators, err)
	}
	return k, nil
}

// slurmSwitch begins a line of topology.conf that says something.
var slurmSwitch = regexp.MustCompile(`(?im)^\s*(switchname|blockname)\s*=`)

// topologyForm recognises Slurm's topology.conf and NCCL's XML by content; anything else is the project's own form.
func topologyForm(text []byte, f *topology.Files) *string {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")):
		return &f.NCCL
	case slurmSwitch.Match(text):
		return &f.Slurm
	}
	return &f.File
}
