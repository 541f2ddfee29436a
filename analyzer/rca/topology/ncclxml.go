// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// element is any element of NCCL's topology XML: a system of cpu, pci, gpu, nic and net.
type element struct {
	XMLName  xml.Name
	Dev      string    `xml:"dev,attr"`
	Name     string    `xml:"name,attr"`
	Children []element `xml:",any"`
}

// NCCL reads the topology XML that NCCL_TOPO_DUMP_FILE writes for one host, and that NCCL_TOPO_FILE reads. It gives each GPU its
// nearest NIC; where several are equally near, GPUs take turns, as in NCCL. All hosts are taken as alike.
func NCCL(r io.Reader) (*Topology, error) {
	var root element
	dec := xml.NewDecoder(io.LimitReader(r, 64<<20))
	if err := dec.Decode(&root); err != nil {
		return nil, fmt.Errorf("reading NCCL topology: %w", err)
	}
	var s ncclScan
	if err := s.walk(&root, nil); err != nil {
		return nil, fmt.Errorf("reading NCCL topology: %w", err)
	}
	if len(s.gpus) == 0 {
		return nil, errors.New("reading NCCL topology: it has no GPU")
	}
	nics := map[string]string{}
	taken := map[string]int{}
	slices.SortFunc(s.gpus, func(a, b ncclDevice) int { return a.dev - b.dev })
	for _, g := range s.gpus {
		best, near := "", -1
		for _, n := range s.nets {
			switch c := common(g.path, n.path); {
			case c > near, c == near && taken[n.name] < taken[best]:
				best, near = n.name, c
			}
		}
		if best != "" {
			taken[best]++
			nics[strconv.Itoa(g.dev)] = best
		}
	}
	return &Topology{nics: map[string]map[string]string{"": nics}, parents: map[string][]string{}}, nil
}

// ncclDevice is a GPU or a network device with its path from the root.
type ncclDevice struct {
	dev  int
	name string
	path []int
}

type ncclScan struct {
	gpus, nets []ncclDevice
	seen       int
}

func (s *ncclScan) walk(e *element, path []int) error {
	const deep = 64
	if len(path) > deep {
		return fmt.Errorf("more than %d levels", deep)
	}
	switch e.XMLName.Local {
	case "gpu":
		dev, err := strconv.ParseUint(e.Dev, 10, 16)
		if err != nil {
			return fmt.Errorf("gpu: dev %q is no number", e.Dev)
		}
		s.gpus = append(s.gpus, ncclDevice{dev: int(dev), path: slices.Clone(path)})
	case "net":
		if e.Name == "" {
			return errors.New("net without a name")
		}
		s.nets = append(s.nets, ncclDevice{name: e.Name, path: slices.Clone(path)})
	}
	for i := range e.Children {
		s.seen++
		if err := s.walk(&e.Children[i], append(path, i)); err != nil {
			return err
		}
	}
	return nil
}

// common is the number of levels that two paths share.
func common(a, b []int) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
