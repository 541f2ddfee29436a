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
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/search"
)

// heads is a query for how many ranks each communicator is the head of: the one with their oldest operation in flight.
func (d *Directory) heads(selector string) (string, error) {
	ages, err := config.Query(d.cfg.Queries.Ages, selector)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("count by (comm) (topk by (rank) (1, %s))", ages), nil
}

// Heads gives the communicators of a job that are the head of some rank, by their identifier in Prometheus. How many
// operations they have completed is left open.
func (d *Directory) Heads(ctx context.Context, jobID string) ([]search.Comm, error) {
	selector := Selector("job_id", jobID)
	heads, headsErr := d.heads(selector)
	ages, agesErr := config.Query(d.cfg.Queries.Stuck, selector)
	comms, commsErr := config.Query(d.cfg.Queries.Comms, selector)
	if err := errors.Join(headsErr, agesErr, commsErr); err != nil {
		return nil, err
	}
	var counts, sizes, oldest model.Vector
	var wg sync.WaitGroup
	wg.Go(func() { counts, headsErr = d.vector(ctx, heads) })
	wg.Go(func() {
		sizes, commsErr = d.vector(ctx, fmt.Sprintf("count by (comm) (last_over_time(%s[%s])) and on (comm) %s", comms, d.cfg.Lookback, heads))
	})
	wg.Go(func() { oldest, agesErr = d.vector(ctx, ages) })
	wg.Wait()
	if err := errors.Join(headsErr, agesErr, commsErr); err != nil {
		return nil, err
	}
	at := make(map[rca.CommID]int, len(counts))
	out := make([]search.Comm, 0, len(counts))
	for _, s := range counts {
		id := rca.CommID(s.Metric["comm"])
		at[id] = len(out)
		out = append(out, search.Comm{ID: id, Heads: int(s.Value), Completed: -1})
	}
	each := func(v model.Vector, f func(c *search.Comm, value float64)) {
		for _, s := range v {
			if i, ok := at[rca.CommID(s.Metric["comm"])]; ok {
				f(&out[i], float64(s.Value))
			}
		}
	}
	each(sizes, func(c *search.Comm, value float64) { c.Size = int(value) })
	each(oldest, func(c *search.Comm, value float64) { c.Age = value })
	return out, nil
}

// Least fills in how many operations the member has completed that has completed least.
func (d *Directory) Least(ctx context.Context, jobID string, comms []search.Comm) error {
	selector := Selector("job_id", jobID)
	heads, err := d.heads(selector)
	if err != nil {
		return err
	}
	completed, err := config.Query(d.cfg.Queries.Completed, selector)
	if err != nil {
		return err
	}
	vector, err := d.vector(ctx, fmt.Sprintf("min by (comm) (%s) and on (comm) %s", completed, heads))
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

// Idle gives the ranks with nothing in flight; none when there are more than most, for then it tells of nobody.
func (d *Directory) Idle(ctx context.Context, jobID string, most int) ([]int, error) {
	selector := Selector("job_id", jobID)
	processes, err := config.Query(d.cfg.Queries.Processes, selector)
	if err != nil {
		return nil, err
	}
	stalled, err := config.Query(d.cfg.Queries.Stalled, selector)
	if err != nil {
		return nil, err
	}
	vector, err := d.vector(ctx, fmt.Sprintf("topk(%d, count by (rank) (%s) unless on (rank) (%s > 0))", most+1, processes, stalled))
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

// CommsOf gives the communicators that some ranks are members of, by their identifier in Prometheus.
func (d *Directory) CommsOf(ctx context.Context, jobID string, ranks []int) ([]search.Comm, error) {
	if len(ranks) == 0 {
		return nil, nil
	}
	names := make([]string, 0, len(ranks))
	for _, r := range ranks {
		names = append(names, strconv.Itoa(r))
	}
	members, err := d.members(ctx, Selector("job_id", jobID)+","+selectorOneOf("rank", names))
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
