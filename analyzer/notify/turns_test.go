// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pair is a played cluster of Alertmanagers with one group of alerts, as far as notifications go: each looks at its alerts once in a
// group_interval, waits for its turn, and notifies of what it saw before the wait unless the others' notifications say the same.
type pair struct {
	interval time.Duration

	mu     sync.Mutex
	firing bool // By the last notification.
	calls  int  // Notifications that began a group's firing.
	ended  int
}

func (c *pair) run(stop <-chan struct{}, p *peerStub, turn int, phase time.Duration) {
	for next := phase; ; next = c.interval {
		select {
		case <-stop:
			return
		case <-time.After(next):
		}
		fires, has := p.fires()
		if !has {
			continue
		}
		time.Sleep(time.Duration(turn) * peerTimeout)
		c.mu.Lock()
		switch {
		case fires && !c.firing:
			c.calls++
		case !fires && c.firing:
			c.ended++
		}
		c.firing = fires
		c.mu.Unlock()
	}
}

// fires tells whether an alert fires, and whether there is any.
func (p *peerStub) fires() (fires, has bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lists {
		fires, has = fires || l.EndsAt.After(time.Now()), true
	}
	return fires, has
}

// dies silences a sender that is telling of an end, once a peer has taken it and others have not.
func dies(s *Sender, stop <-chan struct{}, stubs []*peerStub) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		fire, know := 0, 0
		for _, p := range stubs {
			fires, has := p.fires()
			fire += pick(fires, 1, 0)
			know += pick(has, 1, 0)
		}
		s.mu.Lock()
		ends := false
		for _, h := range s.held {
			ends = ends || !h.ending.IsZero()
		}
		s.mu.Unlock()
		if ends && fire < know {
			s.Apply(nil, time.Minute, peerTimeout)
			return
		}
	}
}

func pick(c bool, a, b int) int {
	if c {
		return a
	}
	return b
}

// TestEndCallsNobody: Alertmanagers of a cluster notify in turn, the second one 15 s after it looked at its alerts. Whenever each of them
// looks, and whatever the order in which they are listed, nobody is called again because one still tells of what has ended, not even if an
// analyzer that has told some of them dies before it can tell the others.
func TestEndCallsNobody(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const rounds = 300
	var wrong []string
	for range rounds {
		size, analyzers := 1+rng.IntN(3), 1+rng.IntN(2)
		interval := []time.Duration{10 * time.Second, 30 * time.Second, 5 * time.Minute}[rng.IntN(3)]
		synctest.Test(t, func(t *testing.T) {
			cluster := &pair{interval: interval}
			stop := make(chan struct{})
			var stubs []*peerStub
			var members []string
			for i := range size {
				members = append(members, fmt.Sprintf("am-%d", i))
			}
			for _, turn := range rng.Perm(size) {
				p := &peerStub{lists: map[string]Listed{}, name: members[turn], members: members}
				stubs = append(stubs, p)
				go cluster.run(stop, p, turn, time.Duration(rng.Int64N(int64(interval))))
			}
			var senders []*Sender
			for range analyzers {
				s, _ := runSender(t, stubs...)
				s.Set("i", []Alert{rankAlert("5", "a")})
				senders = append(senders, s)
				time.Sleep(time.Duration(1+rng.IntN(3000)) * time.Millisecond)
			}
			if analyzers == 2 && rng.IntN(2) == 0 {
				go dies(senders[rng.IntN(2)], stop, stubs)
			}
			time.Sleep(6*time.Minute + time.Duration(rng.Int64N(int64(time.Minute))))
			for _, s := range senders {
				s.Set("i", nil)
				time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Second))))
			}
			time.Sleep(20 * time.Minute)
			if cluster.calls != 1 || cluster.ended != 1 {
				wrong = append(wrong, fmt.Sprintf("%d Alertmanagers with a group_interval of %s, told by %d analyzers: called %d times, told of the end %d times", size, interval, analyzers, cluster.calls, cluster.ended))
			}
			close(stop)
			time.Sleep(time.Hour)
		})
	}
	if len(wrong) > 0 {
		t.Errorf("%d of %d are wrong, among them: %s", len(wrong), rounds, wrong[0])
	}
}
