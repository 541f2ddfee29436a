// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"context"
	"sync"
)

// alonePast is the number of ranks from which a case has the machine's memory to itself.
const alonePast = 4096

// Run runs the cases, some at the same time, large ones alone, and reports each as it is done. The outcomes are in the
// order of the cases; those that were not run, because of an error or the context, are missing.
func Run(ctx context.Context, cases []Case, workers int, done func(*Outcome)) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		m     meter
		wg    sync.WaitGroup
		lock  sync.Mutex
		slots = make(chan struct{}, max(1, workers))
		out   = make([]*Outcome, len(cases))
	)
	for i := range cases {
		need := 1
		if cases[i].Ranks > alonePast {
			need = cap(slots)
		}
		if !take(ctx, slots, need) {
			break
		}
		wg.Go(func() {
			defer give(slots, need)
			m.alone.RLock()
			t, err := cases[i].run(ctx, &m)
			m.alone.RUnlock()
			if err != nil {
				cancel(err)
				return
			}
			outcome := t.out // A copy: a pointer into the trial would keep its simulation.
			lock.Lock()
			defer lock.Unlock()
			out[i] = &outcome
			done(&outcome)
		})
	}
	wg.Wait()
	list := make([]Outcome, 0, len(cases))
	for _, o := range out {
		if o != nil {
			list = append(list, *o)
		}
	}
	return list, context.Cause(ctx)
}

// take acquires slots one by one; only one caller does at a time.
func take(ctx context.Context, slots chan struct{}, n int) bool {
	for range n {
		if ctx.Err() != nil {
			return false
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func give(slots chan struct{}, n int) {
	for range n {
		<-slots
	}
}
