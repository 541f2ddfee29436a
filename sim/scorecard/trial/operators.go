// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/methods/holmes"
	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// taught are the scenarios that a detector of abnormal operators learns from: one of each kind of slowness that a rank,
// a NIC or a host can have.
var taught = []string{
	string(cluster.GPUThrottle), string(cluster.NICBandwidth), string(cluster.SlowData), string(cluster.BackgroundCompute), string(cluster.PCIeDowngrade),
}

// learnFor is how long after the fault operators are learned from.
const learnFor = 32 * time.Second

// Operators gives labelled operators of simulated jobs to train Holmes' detector on (H3). An operator is abnormal when it
// takes longer by a share of the iteration that matters than the same operator of the same job without the fault.
func Operators(ctx context.Context, opt matrix.Options) ([]holmes.Operator, error) {
	var out []holmes.Operator
	for _, c := range matrix.Cases(opt) {
		if c.Group != "slow" || !slices.Contains(taught, c.Scenario) {
			continue
		}
		sick, err := operators(ctx, &c, c.Config.Faults)
		if err != nil {
			return nil, err
		}
		well, err := operators(ctx, &c, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, label(c.Name, sick, well)...)
	}
	return out, nil
}

// operators simulates a case with some faults and gives what its operators took.
func operators(ctx context.Context, c *matrix.Case, faults []cluster.Fault) ([]holmes.Operator, error) {
	cfg, until := c.Config, c.Config.Until
	cfg.Faults = faults
	if len(c.Config.Faults) > 0 {
		until = c.Config.Faults[0].At + learnFor
	}
	w, err := newWorld(cfg, c.Scrape, nil)
	if err != nil {
		return nil, fmt.Errorf("simulating %s: %w", c.Name, err)
	}
	if err := w.until(ctx, until); err != nil {
		return nil, fmt.Errorf("simulating %s: %w", c.Name, err)
	}
	s, err := newService(w, engine.Analyze)
	if err != nil {
		return nil, err
	}
	session, err := s.diagnoser.Gatherer.Open(ctx, identity.Job{ID: cfg.Job.ID}, nil)
	if err != nil {
		return nil, fmt.Errorf("gathering %s: %w", c.Name, err)
	}
	session.Ask(ctx, session.AllNodes())
	session.AskHistory(ctx, session.AllNodes(), time.Duration(s.cfg.Analysis.History))
	ev := session.Evidence()
	return holmes.Operators(record.New(&ev, rca.Options{})), nil
}

// label marks what the fault made longer. Names are made the case's own, so that several cases fit into one table.
func label(name string, sick, well []holmes.Operator) []holmes.Operator {
	const longer, matters = 1.3, 0.005
	type key struct {
		rank   int
		comm   string
		number int64
	}
	usual := make(map[key]float64, len(well))
	for i := range well {
		o := &well[i]
		usual[key{o.Rank, o.Communicator, o.Number}] = o.Seconds
	}
	out := sick[:0]
	for i := range sick {
		o := sick[i]
		u, known := usual[key{o.Rank, o.Communicator, o.Number}]
		if !known {
			continue
		}
		o.Abnormal = o.Seconds > longer*u && o.Seconds-u > matters*o.IterationSeconds
		o.Like = name + ":" + o.Like
		out = append(out, o)
	}
	return out
}
