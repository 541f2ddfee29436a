// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/search"
)

// Heads gives the communicators that are the head of some rank, that is, that hold its oldest operation in flight, by their
// identifier in Prometheus. It does not fill in how many operations they have completed.
func (d *Directory) Heads(ctx context.Context, job identity.Job) ([]search.Comm, error) {
	selector := job.Selector()
	ages, agesErr := config.Query(d.cfg.Queries.Ages, selector)
	// One member suffices for the size. Reading the series of all members would be the largest part of the query's cost.
	comms, commsErr := config.Query(d.cfg.Queries.Comms, selector+","+Selector("comm_rank", "0"))
	if err := errors.Join(agesErr, commsErr); err != nil {
		return nil, err
	}
	var counts, sizes model.Vector
	var wg sync.WaitGroup
	wg.Go(func() { counts, agesErr = d.vector(ctx, fmt.Sprintf("count by (comm) (topk by (rank) (1, %s))", ages)) })
	wg.Go(func() {
		sizes, commsErr = d.vector(ctx, fmt.Sprintf("group by (comm, nranks) (last_over_time(%s[%s]))", comms, d.cfg.Lookback))
	})
	wg.Wait()
	if err := errors.Join(agesErr, commsErr); err != nil {
		return nil, err
	}
	sizeOf := make(map[model.LabelValue]int, len(sizes))
	for _, s := range sizes {
		if n, err := strconv.Atoi(string(s.Metric["nranks"])); err == nil {
			sizeOf[s.Metric["comm"]] = n
		}
	}
	out := make([]search.Comm, 0, len(counts))
	for _, s := range counts {
		c := s.Metric["comm"]
		out = append(out, search.Comm{ID: rca.CommID(c), Size: sizeOf[c], Heads: int(s.Value), Completed: -1})
	}
	return out, nil
}

// mostNamed bounds how many communicators one query names.
const mostNamed = 512

// Least fills in the smallest number of completed operations of any member.
func (d *Directory) Least(ctx context.Context, job identity.Job, comms []search.Comm) error {
	selector := job.Selector()
	if len(comms) <= mostNamed {
		names := make([]string, 0, len(comms))
		for i := range comms {
			names = append(names, string(comms[i].ID))
		}
		selector += "," + selectorOneOf("comm", names)
	}
	completed, err := config.Query(d.cfg.Queries.Completed, selector)
	if err != nil {
		return err
	}
	vector, err := d.vector(ctx, fmt.Sprintf("min by (comm) (%s)", completed))
	if err != nil {
		return err
	}
	least := make(map[rca.CommID]int64, len(vector))
	for _, s := range vector {
		least[rca.CommID(s.Metric["comm"])] = int64(s.Value)
	}
	for i := range comms {
		if n, known := least[comms[i].ID]; known {
			comms[i].Completed = n
		}
	}
	return nil
}

// Idle gives the ranks with nothing in flight that are in no call which makes or ends a communicator. It gives none when there
// are more than most, because then being idle does not set anybody apart.
func (d *Directory) Idle(ctx context.Context, job identity.Job, most int) ([]int, error) {
	selector := job.Selector()
	processes, err := config.Query(d.cfg.Queries.Processes, selector)
	if err != nil {
		return nil, err
	}
	stalled, err := config.Query(d.cfg.Queries.Stalled, selector)
	if err != nil {
		return nil, err
	}
	calls, err := config.Query(d.cfg.Queries.Calls, selector)
	if err != nil {
		return nil, err
	}
	vector, err := d.vector(ctx, fmt.Sprintf("topk(%d, %s unless on (rank) (%s > 0) unless on (rank) %s)", most+1, processes, stalled, calls))
	if err != nil || len(vector) > most {
		return nil, err
	}
	var out []int
	for _, s := range vector {
		if rank, err := strconv.Atoi(string(s.Metric["rank"])); err == nil && rank >= 0 {
			out = append(out, rank)
		}
	}
	slices.Sort(out)
	return out, nil
}

// CommsOf gives the communicators of which some ranks are members, by their identifier in Prometheus.
func (d *Directory) CommsOf(ctx context.Context, job identity.Job, ranks []int) ([]search.Comm, error) {
	if len(ranks) == 0 {
		return nil, nil
	}
	names := make([]string, 0, len(ranks))
	for _, r := range ranks {
		names = append(names, strconv.Itoa(r))
	}
	members, err := d.members(ctx, job.Selector()+","+selectorOneOf("rank", names))
	if err != nil {
		return nil, err
	}
	var out []search.Comm
	for i := range members {
		id := rca.CommID(members[i].Comm)
		if !slices.ContainsFunc(out, func(c search.Comm) bool { return c.ID == id }) {
			out = append(out, search.Comm{ID: id, Size: members[i].NRanks, Completed: -1})
		}
	}
	return out, nil
}
