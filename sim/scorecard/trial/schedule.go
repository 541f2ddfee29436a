// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// Resources bound what runs at the same time.
type Resources struct {
	Workers int
	// Memory in bytes that all runs may have together; 0: no bound. A case that needs more than all of it runs alone.
	Memory int64
}

// Bytes that a case may come to need: some for each rank, most of it the operations that it remembers, and some for
// what is looked back at.
const (
	bytesPerRank = 600 << 10
	bytesPerCase = 512 << 20
)

func memory(c *matrix.Case) int64 { return bytesPerCase + int64(c.Ranks)*bytesPerRank }

// Run runs the cases, as many at the same time as the resources allow, and reports each as it is done. Small jobs come
// first and all runs of a scale together, so that a matrix that is ended has whole scales; those that are watched longest
// come first in each, so that no core idles at the end of one. The outcomes are in the order of the cases; those that were not
// run, because of an error or the context, are missing.
func Run(ctx context.Context, cases []matrix.Case, res Resources, done func(*judge.Outcome)) ([]judge.Outcome, error) {
	out := make([]*judge.Outcome, len(cases))
	err := each(ctx, cases, res, func(i int, t *trial) {
		outcome := t.out // A copy: a pointer into the trial would keep its simulation.
		out[i] = &outcome
		done(&outcome)
	})
	list := make([]judge.Outcome, 0, len(cases))
	for _, o := range out {
		if o != nil {
			list = append(list, *o)
		}
	}
	return list, err
}

// each performs the cases, several at the same time, and calls done with the index of each, one at a time.
func each(ctx context.Context, cases []matrix.Case, res Resources, done func(i int, t *trial)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		m    meter
		wg   sync.WaitGroup
		lock sync.Mutex
		free = newRoom(ctx, res)
	)
	for _, i := range bySize(cases) {
		need := memory(&cases[i])
		if !free.take(ctx, need) {
			break
		}
		wg.Go(func() {
			defer free.give(need)
			m.alone.RLock()
			t, err := run(ctx, &cases[i], &m)
			m.alone.RUnlock()
			if err != nil {
				cancel(err)
				return
			}
			lock.Lock()
			defer lock.Unlock()
			done(i, t)
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// bySize orders cases by their ranks, each scale's first seeds first, and by how long they are watched.
func bySize(cases []matrix.Case) []int {
	order := make([]int, len(cases))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &cases[a], &cases[b]
		return cmp.Or(cmp.Compare(x.Ranks, y.Ranks), cmp.Compare(x.Seed, y.Seed), cmp.Compare(y.Config.Until, x.Config.Until))
	})
	return order
}

// room is what is free of the resources.
type room struct {
	lock    sync.Mutex
	changed *sync.Cond
	workers int
	memory  int64
	whole   int64
}

// newRoom is all free. Whoever waits for it is woken when the context ends.
func newRoom(ctx context.Context, res Resources) *room {
	r := &room{workers: max(1, res.Workers), memory: res.Memory, whole: res.Memory}
	r.changed = sync.NewCond(&r.lock)
	context.AfterFunc(ctx, func() {
		r.lock.Lock()
		defer r.lock.Unlock()
		r.changed.Broadcast()
	})
	return r
}

// take waits until there is room for a case and takes it; false when the context ended.
func (r *room) take(ctx context.Context, memory int64) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	for ctx.Err() == nil {
		if r.workers > 0 && r.memory >= r.part(memory) {
			r.workers--
			r.memory -= r.part(memory)
			return true
		}
		r.changed.Wait()
	}
	return false
}

// give frees what take took.
func (r *room) give(memory int64) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.workers++
	r.memory += r.part(memory)
	r.changed.Broadcast()
}

// part is what a case takes of the memory: at most all, and nothing when there is no bound.
func (r *room) part(memory int64) int64 { return min(memory, r.whole) }
