// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Slurm reads a topology.conf of the topology/tree plugin: lines such as
//
//	SwitchName=leaf0 Nodes=tux[0-3]
//	SwitchName=spine Switches=leaf[0-1]
//
// Every host is below the switches that name it; the file does not say through which of its NICs.
func Slurm(r io.Reader) (*Topology, error) {
	t := &Topology{nics: map[string]map[string]string{}, parents: map[string][]string{}}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	logical := ""
	for line := 1; in.Scan(); line++ {
		text, _, _ := strings.Cut(in.Text(), "#")
		if rest, more := strings.CutSuffix(strings.TrimRight(text, " \t\r"), `\`); more {
			logical += rest
			continue
		}
		if err := t.slurmLine(logical + text); err != nil {
			return nil, fmt.Errorf("reading topology.conf: line %d: %w", line, err)
		}
		logical = ""
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("reading topology.conf: %w", err)
	}
	return t, nil
}

func (t *Topology) slurmLine(text string) error {
	var names, below []string
	for field := range strings.FieldsSeq(text) {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return fmt.Errorf("%q is no assignment", field)
		}
		var err error
		switch strings.ToLower(key) {
		case "switchname":
			names, err = expand(value)
		case "nodes", "switches":
			var list []string
			list, err = expand(value)
			below = append(below, list...)
		case "linkspeed": // Documented as unused.
		default:
			return fmt.Errorf("%q is not known", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(names) != 1 && (len(names) > 1 || len(below) > 0) {
		return fmt.Errorf("%d switches are named, want one", len(names))
	}
	for _, b := range below {
		t.parents[b] = append(t.parents[b], names[0])
	}
	return nil
}
