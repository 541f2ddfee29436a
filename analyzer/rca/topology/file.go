// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v2"
)

// file is the format of the project's own topology file.
type file struct {
	Hosts []struct {
		Names string            `yaml:"names"` // Host list; empty: every host.
		NICs  map[string]string `yaml:"nics"`  // NIC by GPU index.
	} `yaml:"hosts"`
	Switches []struct {
		Name     string   `yaml:"name"`
		Hosts    string   `yaml:"hosts"`    // Host list of the connected hosts.
		NICs     []string `yaml:"nics"`     // Only these NICs of those hosts; empty: all.
		Switches string   `yaml:"switches"` // Host list of the switches below.
	} `yaml:"switches"`
}

// Own reads the project's own topology file:
//
//	hosts:
//	  - names: node-[0000-0127]
//	    nics: {0: mlx5_0, 1: mlx5_1}
//	switches:
//	  - {name: rail0-leaf0, hosts: "node-[0000-0031]", nics: [mlx5_0]}
//	  - {name: spine0, switches: "rail[0-7]-leaf[0-3]"}
func Own(r io.Reader) (*Topology, error) {
	text, err := io.ReadAll(io.LimitReader(r, 16<<20))
	if err != nil {
		return nil, fmt.Errorf("reading topology: %w", err)
	}
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, fmt.Errorf("reading topology: %w", err)
	}
	t := &Topology{nics: map[string]map[string]string{}, parents: map[string][]string{}}
	for i, h := range f.Hosts {
		names := []string{""}
		if h.Names != "" {
			if names, err = expand(h.Names); err != nil {
				return nil, fmt.Errorf("reading topology: hosts[%d]: %w", i, err)
			}
		}
		for _, name := range names {
			t.nics[name] = h.NICs
		}
	}
	for i, s := range f.Switches {
		if s.Name == "" {
			return nil, fmt.Errorf("reading topology: switches[%d]: it has no name", i)
		}
		hosts, err := expand(s.Hosts)
		if err != nil {
			return nil, fmt.Errorf("reading topology: switches[%d]: hosts: %w", i, err)
		}
		below, err := expand(s.Switches)
		if err != nil {
			return nil, fmt.Errorf("reading topology: switches[%d]: switches: %w", i, err)
		}
		for _, h := range hosts {
			if len(s.NICs) == 0 {
				below = append(below, h)
			}
			for _, n := range s.NICs {
				below = append(below, h+"/"+n)
			}
		}
		for _, b := range below {
			t.parents[b] = append(t.parents[b], s.Name)
		}
	}
	return t, nil
}

// Files names the files that a topology is read from; all may be empty.
type Files struct {
	Slurm string `yaml:"slurm"` // topology.conf.
	NCCL  string `yaml:"nccl"`  // File that NCCL_TOPO_DUMP_FILE wrote on one host.
	File  string `yaml:"file"`  // File in the project's own format.
}

// Load reads the named files through open and merges them; nil where none is named.
func Load(open func(name string) (io.ReadCloser, error), f Files) (*Topology, error) {
	var t *Topology
	for _, c := range []struct {
		name string
		read func(io.Reader) (*Topology, error)
	}{{f.Slurm, Slurm}, {f.NCCL, NCCL}, {f.File, Own}} {
		if c.name == "" {
			continue
		}
		part, err := loadOne(open, c.name, c.read)
		if err != nil {
			return nil, err
		}
		if t == nil {
			t = &Topology{}
		}
		t.merge(part)
	}
	if t == nil {
		return nil, nil // Nothing is configured: nil knows nothing.
	}
	if err := t.finish(); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return t, nil
}

func loadOne(open func(string) (io.ReadCloser, error), name string, read func(io.Reader) (*Topology, error)) (t *Topology, err error) {
	f, err := open(name)
	if err != nil {
		return nil, fmt.Errorf("opening topology: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if t, err = read(f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}
