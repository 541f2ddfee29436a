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

	"github.com/culprit-project/culprit/analyzer/methods/holmes"
	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// options are what the command line says of the job, in files that it names as well.
func (c *config) options() (opt diagnosis.Options, err error) {
	opt = diagnosis.Options{WorldSize: c.worldSize, JobID: c.jobID, Base: c.base}
	var files topology.Files
	for _, name := range c.topology {
		text, err := os.ReadFile(name)
		if err != nil {
			return opt, fmt.Errorf("reading the topology: %w", err)
		}
		form := topologyForm(text, &files)
		if *form != "" {
			return opt, fmt.Errorf("--topology: %s and %s have the same form, only one can be read", *form, name)
		}
		*form = name
	}
	if opt.Topology, err = topology.Load(func(name string) (io.ReadCloser, error) { return os.Open(name) }, files); err != nil {
		return opt, fmt.Errorf("--topology: %w", err)
	}
	if c.operators == "" {
		return opt, nil
	}
	f, err := os.Open(c.operators)
	if err != nil {
		return opt, fmt.Errorf("opening the operator model: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if opt.Operators, err = holmes.ReadModel(f); err != nil {
		return opt, fmt.Errorf("--operator-model %s: %w", c.operators, err)
	}
	return opt, nil
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
