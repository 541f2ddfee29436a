// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/culprit-project/culprit/sim/matrix"
)

// queue hands out cases and knows how many are done. Many may use it at once.
type queue struct {
	started time.Time
	cases   []matrix.Case

	mu           sync.Mutex
	taken, ended int
}

func newQueue(cases []matrix.Case) *queue { return &queue{started: time.Now(), cases: cases} }

// next gives a case that nobody has taken; false when there is none left.
func (q *queue) next() (matrix.Case, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken == len(q.cases) {
		return matrix.Case{}, false
	}
	q.taken++
	return q.cases[q.taken-1], true
}

// done notes that a case has ended, and says how many have and about how long the others will take.
func (q *queue) done() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended++
	left := time.Since(q.started) / time.Duration(q.ended) * time.Duration(len(q.cases)-q.ended)
	return fmt.Sprintf("%d/%d, about %s left:", q.ended, len(q.cases), left.Round(time.Minute))
}
