// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// died ends processes, each this long ago.
func (j *hungJob) died(ago map[int]time.Duration) *hungJob {
	for r, d := range ago {
		j.rank(r).State, j.rank(r).Ended = rca.ProcessGone, d
	}
	return j
}

// stoodFor makes all of it longer ago.
func (j *hungJob) stoodFor(d time.Duration) *hungJob {
	for i := range j.ev.Ranks {
		for k := range j.ev.Ranks[i].Memberships {
			m := &j.ev.Ranks[i].Memberships[k]
			m.SinceCalled, m.SinceCompleted = longer(m.SinceCalled, d), longer(m.SinceCompleted, d)
			for o := range m.InFlight {
				m.InFlight[o].Stuck, m.InFlight[o].Age = d, longer(m.InFlight[o].Age, d)
				for f := range m.InFlight[o].Flows {
					m.InFlight[o].Flows[f].Stuck = d
				}
			}
		}
	}
	return j
}

// longer gives d where a time is known at all.
func longer(was, d time.Duration) time.Duration {
	if was <= 0 {
		return was
	}
	return max(was, d)
}

// undelivered is a ring in which rank 1 has steps that its network does not send.
func undelivered() *hungJob {
	return newHungJob(4).comm("world", 0, 1, 2, 3).in("world", "AllReduce", []int{0, 1, 2, 3}, flows(map[int][]rca.Flow{
		0: {send(1, 4, 2, 2, 2), recv(3, 4, 2, 2, 2)}, 1: {send(2, 6, 4, 4, 2), recv(0, 4, 2, 2, 2)},
		2: {send(3, 4, 2, 2, 2), recv(1, 4, 2, 2, 2)}, 3: {send(0, 4, 2, 2, 2), recv(2, 4, 2, 2, 2)},
	}))
}

// TestEndsOfProcesses: a watchdog, a launcher or an operator ends a job that stands still. Ends that follow a standstill did not
// cause it, and an end that all processes share accuses no rank.
func TestEndsOfProcesses(t *testing.T) {
	const now = time.Second // 6 s after the operation stopped in hungJob.
	all := func(ago time.Duration) map[int]time.Duration {
		return map[int]time.Duration{0: ago, 1: ago, 2: ago, 3: ago}
	}
	for _, c := range []struct {
		name    string
		job     *hungJob
		accused []int
		cause   rca.Cause
	}{
		{"it hangs", undelivered(), []int{1}, rca.CauseNetworkSend},
		{"it hung and was killed", undelivered().died(all(now)), []int{1}, rca.CauseNetworkSend},
		{"it was killed while it ran", undelivered().died(all(6 * time.Second)), nil, rca.CauseUnknown},
		{"it was killed between two operations", newHungJob(4).comm("world", 0, 1, 2, 3).died(all(now)), nil, rca.CauseUnknown},
		{
			"one died, and the others after it",
			undelivered().died(map[int]time.Duration{0: now, 1: now, 2: 7 * time.Second, 3: now}),
			[]int{2},
			rca.CauseProcessGone,
		},
		{"it hung and was killed, and an exporter has not seen it of one", undelivered().died(map[int]time.Duration{0: now, 1: now, 2: now}), []int{1}, rca.CauseNetworkSend},
		{"it hung and was killed, and the sender's exporter was started after that", undelivered().died(map[int]time.Duration{0: 0, 1: 0, 2: now, 3: now}), []int{1}, rca.CauseNetworkSend},
		{"it hung and was killed, and the receiver, of whose end nobody knows when, may have died first", undelivered().died(map[int]time.Duration{0: now, 1: now, 2: 0, 3: 0}), nil, rca.CauseNetworkSend},
		{"it hung and was killed, and all exporters were started after that", undelivered().died(all(0)), nil, rca.CauseNetworkSend},
		{"one died, its exporter was started after that, and the others wait for it", undelivered().died(map[int]time.Duration{2: 0}), []int{2}, rca.CauseProcessGone},
		{"it stood still without a sign of why, and one of them crashed", func() *hungJob {
			return newHungJob(4).comm("world", 0, 1, 2, 3).in("world", "AllReduce", []int{0, 1, 2, 3}).died(map[int]time.Duration{2: now})
		}(), []int{2}, rca.CauseProcessGone},
		{"it hung, and a watchdog ended one that waits", undelivered().died(map[int]time.Duration{3: now}), []int{1}, rca.CauseNetworkSend},
		{"the others waited for one that was outside, and it died", func() *hungJob {
			j := newHungJob(4).comm("world", 0, 1, 2, 3).in("world", "AllReduce", []int{0, 1, 3})
			return j.died(map[int]time.Duration{2: now})
		}(), []int{2}, rca.CauseProcessGone},
		{"one died while it waited, and the job got on since", func() *hungJob {
			j := undelivered().died(map[int]time.Duration{2: 8 * time.Second})
			j.on(2, "world").InFlight[0].Stuck = 20 * time.Second
			return j
		}(), []int{2}, rca.CauseProcessGone},
		{"one died and the others wait for it, and its exporter found out late", func() *hungJob {
			j := undelivered().died(map[int]time.Duration{2: now})
			j.rank(2).SeenAlive = 8 * time.Second
			return j
		}(), []int{2}, rca.CauseProcessGone},
		{"it hung, a watchdog ended one that waits, and its exporter found out late", func() *hungJob {
			j := undelivered().stoodFor(2 * time.Minute).died(map[int]time.Duration{3: now})
			j.rank(3).SeenAlive = time.Minute
			return j
		}(), []int{1}, rca.CauseNetworkSend},
		{"it has stood for long, and its exporter does not know whether the receiver died before", func() *hungJob {
			j := undelivered().stoodFor(2 * time.Minute).died(map[int]time.Duration{2: now})
			j.rank(2).SeenAlive = 3 * time.Minute
			return j
		}(), nil, rca.CauseNetworkSend},
		{"one died and the others wait for it", undelivered().died(map[int]time.Duration{2: 7 * time.Second}), []int{2}, rca.CauseProcessGone},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.job.verdict()
			if !slices.Equal(rcatest.Accused(v), c.accused) || v.Cause != c.cause || v.Page != (len(c.accused) > 0) {
				t.Errorf("%s/%s (%g) accuses %v, page %v; want %v %s: %s", v.Class, v.Cause, v.Confidence, rcatest.Accused(v), v.Page, c.accused, c.cause, v.Summary)
			}
		})
	}
}

// TestNobodyWaitsInAJobThatHasEnded: a standstill pages after a while even if nobody can be named for it, as long as somebody waits. What a
// job that has ended left behind grows older, and pages nobody for that.
func TestNobodyWaitsInAJobThatHasEnded(t *testing.T) {
	const now = time.Second
	for _, c := range []struct {
		name string
		died map[int]time.Duration
		page bool
	}{
		{"all have ended", map[int]time.Duration{0: now, 1: now, 2: 0, 3: 0}, false},
		{"one lives", map[int]time.Duration{1: now, 2: 0, 3: 0}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := undelivered().stoodFor(10 * time.Minute).died(c.died).verdict()
			if len(rcatest.Accused(v)) > 0 || v.Page != c.page {
				t.Errorf("%s/%s (%g) accuses %v, page %v, want %v: %s", v.Class, v.Cause, v.Confidence, rcatest.Accused(v), v.Page, c.page, v.Summary)
			}
		})
	}
}
