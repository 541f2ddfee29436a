// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// maxFactHosts bounds for how many hosts other exporters are queried: the queries name each host.
const maxFactHosts = 256

// NodeFacts adds what other exporters report of the hosts that were asked (X2), and reports whether anything was added. Each host
// is queried once.
func (s *Session) NodeFacts(ctx context.Context) bool {
	var hosts []string
	for _, n := range s.nodes {
		for _, r := range n.Ranks {
			h := s.processes[r].Host
			if !n.asked || h == "" || s.factsOf[h] || len(hosts) == maxFactHosts {
				continue
			}
			s.factsOf[h] = true
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return false
	}
	found := s.g.Directory.Facts(ctx, hosts, s.rankAt)
	s.facts = append(s.facts, found...)
	return len(found) > 0
}

// rankAt gives the rank that uses a GPU of a host, by UUID or else by index; -1 none.
func (s *Session) rankAt(host, uuid, gpu string) int {
	byIndex := -1
	for rank, p := range s.processes {
		switch {
		case p.Host != host:
		case uuid != "" && p.Labels["gpu_uuid"] == uuid:
			return rank
		case gpu != "" && p.GPU == gpu && (uuid == "" || p.Labels["gpu_uuid"] == "") && (byIndex < 0 || rank < byIndex):
			byIndex = rank
		}
	}
	return byIndex
}

// Facts queries what other exporters report of some hosts. A query that fails is left out: these facts only add to the rest of
// the evidence.
func (d *Directory) Facts(ctx context.Context, hosts []string, rankAt func(host, uuid, gpu string) int) []rca.Fact {
	if d.query == nil {
		return nil
	}
	queries := d.cfg.NodeEvidence
	answers := make([]model.Vector, len(queries))
	var wg sync.WaitGroup
	for i := range queries {
		text, err := queries[i].Fill(hosts)
		if err != nil {
			continue // The configuration's check has reported it.
		}
		wg.Go(func() {
			if v, err := d.vector(ctx, text); err == nil {
				answers[i] = v
			}
		})
	}
	wg.Wait()
	var out []rca.Fact
	for i, vector := range answers {
		for _, sample := range vector {
			if f, ok := factOf(&queries[i], sample, hosts, rankAt); ok {
				out = append(out, f)
			}
		}
	}
	slices.SortFunc(out, func(a, b rca.Fact) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Device, b.Device))
	})
	return out
}

func factOf(q *config.FactQuery, s *model.Sample, hosts []string, rankAt func(host, uuid, gpu string) int) (rca.Fact, bool) {
	label := func(name string) string { return string(s.Metric[model.LabelName(name)]) }
	host := hostOf(label(q.Host), hosts)
	value := float64(s.Value)
	if q.Mask != 0 {
		value = float64(uint64(max(0, value)) & q.Mask)
	}
	if host == "" || math.IsNaN(value) || q.Mask != 0 && value == 0 {
		return rca.Fact{}, false
	}
	f := rca.Fact{Host: host, Rank: -1, Component: q.Component, Device: label(q.Device), Kind: q.Kind, Value: value, Expected: q.Expected}
	if q.GPU != "" || q.UUID != "" {
		if f.Rank = rankAt(host, label(q.UUID), label(q.GPU)); f.Rank < 0 {
			return rca.Fact{}, false // The GPU does not belong to the job.
		}
	}
	f.Text = fmt.Sprintf("%s %s: %s %g", f.Component, f.Device, f.Kind, f.Value)
	if q.Expected != 0 {
		f.Text += fmt.Sprintf(" (expected %g)", q.Expected)
	}
	return f, true
}

// hostOf finds the job's host that a label refers to: the same name, possibly with a port or a domain; empty where there is none.
func hostOf(label string, hosts []string) string {
	name := label
	if i := strings.LastIndexByte(label, ':'); i >= 0 && !strings.Contains(label[i:], "]") {
		name = label[:i]
	}
	if slices.Contains(hosts, name) {
		return name
	}
	short, _, _ := strings.Cut(name, ".")
	for _, h := range hosts {
		if hs, _, _ := strings.Cut(h, "."); hs == short && (hs == h || short == name) {
			return h
		}
	}
	return ""
}
