// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// Ablation is what becomes of a corpus without a row of the engine's tables.
type Ablation struct {
	Row     string
	Named   int // Verdicts that name the row.
	Changes []Change
	Before  Tally // Of the verdicts that change,
	After   Tally // with and without the row.
}

// Ablate has the engine analyse the cases again without each of some rows: those of slowness, and those of hangs that say what a rank shows
// in itself. A row of hangs can do its work without being named, since it keeps another from being: it is left out of all hangs. Of other
// cases a row is left out where the verdict names it.
func Ablate(ctx context.Context, dir string, cases []Case, verdicts []Verdict, rows []string, workers int) ([]Ablation, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]Ablation, len(rows))
	for i, row := range rows {
		out[i] = Ablation{Row: row, Before: Tally{}, After: Tally{}}
	}
	var lock sync.Mutex
	one := func(c *Case, v *Verdict) error {
		r, err := c.rests(dir)
		if err != nil {
			return err
		}
		for i, row := range rows {
			named := v.names(row)
			if !named && v.Group != matrix.GroupHang {
				continue
			}
			opt := r.Options
			opt.Without = row
			now := c.judge(r, engine.Analyze, opt)
			lock.Lock()
			if named {
				out[i].Named++
			}
			if !same(v, &now) {
				out[i].Changes = append(out[i].Changes, Change{v, &now})
				out[i].Before[v.Fate]++
				out[i].After[now.Fate]++
			}
			lock.Unlock()
		}
		return nil
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for i := range next {
				if err := one(&cases[i], &verdicts[i]); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for i := range cases {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return out, context.Cause(ctx)
}

// names reports whether a verdict names a row, alone or as the part of another.
func (v *Verdict) names(row string) bool {
	return slices.ContainsFunc(v.Rows, func(r string) bool { return slices.Contains(strings.Split(r, "/"), row) })
}
