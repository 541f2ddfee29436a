// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/scorecard/harm"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// hurt is a verdict on spoiled evidence that waits for the answer.
type hurt struct {
	harm    string
	liar    string
	verdict rca.Verdict
	rests   *kept.Record // What the verdict rests on.
}

// askHarmed repeats the service's last analysis on what spoiled nodes tell of the same moment. Nobody looks a second time: the
// job stands still meanwhile.
func (t *trial) askHarmed(ctx context.Context) error {
	if t.s.last.ev == nil {
		return nil
	}
	var hosts []string
	for _, n := range t.s.job.Nodes() {
		if n.Answers() {
			hosts = append(hosts, n.Name())
		}
	}
	for _, name := range t.Harms {
		h := harm.Named(name)
		if h == nil {
			return fmt.Errorf("there is no harm %q", name)
		}
		s, ok := h.On(t.Name, hosts)
		if !ok {
			continue
		}
		d := t.s.newDiagnoser(&spoiled{t.s.job, &s}, func(instance string) bool { return s.Unseen && slices.Contains(s.Silent, instance) })
		d.Config.ConfirmAfter = 0
		out, err := d.Diagnose(ctx, t.s.last.request)
		if err != nil {
			return fmt.Errorf("under %s: %w", name, err)
		}
		t.harmed = append(t.harmed, hurt{name, s.Liar, out.Verdict, out.Rests})
	}
	return nil
}

// spoiled are nodes to which harm has been done.
type spoiled struct {
	evidence.NodeAPI
	by *harm.Spoiler
}

func (s *spoiled) silent(base string) (host string, err error) {
	host = strings.TrimPrefix(base, "http://")
	if slices.Contains(s.by.Silent, host) {
		return host, fmt.Errorf("asking %s: %w", host, context.DeadlineExceeded)
	}
	return host, nil
}

// State implements evidence.NodeAPI.
func (s *spoiled) State(ctx context.Context, base, jobID string, ranks []int, comms []string, take func(int64) bool) (*nodeapi.State, int64, error) {
	if _, err := s.silent(base); err != nil {
		return nil, 0, err
	}
	st, size, err := s.NodeAPI.State(ctx, base, jobID, ranks, comms, take)
	if st == nil {
		return nil, size, err
	}
	if s.by.State != nil {
		s.by.State(st)
	}
	return st, size, err
}

// Trace implements evidence.NodeAPI.
func (s *spoiled) Trace(ctx context.Context, base, jobID string, span time.Duration, yield func(*nodeapi.TraceLine)) (int64, error) {
	host, err := s.silent(base)
	if err != nil {
		return 0, err
	}
	return s.NodeAPI.Trace(ctx, base, jobID, span, func(l *nodeapi.TraceLine) {
		if l.Completion == nil || s.by.Record == nil {
			yield(l)
			return
		}
		c := *l.Completion
		if s.by.Record(host, &c.Completion) {
			yield(&nodeapi.TraceLine{Completion: &c})
		}
	})
}
