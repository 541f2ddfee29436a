// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// change is a change that must not affect which rank is named. It returns the same trouble told differently, the options for it,
// and the new name of each rank.
type change struct {
	name   string
	change func(rng *rand.Rand, ev *rca.Evidence, opt *rca.Options) (called func(rank int) int)
}

var changes = []change{
	{"ranks have other numbers", renumbered},
	{"hosts have other names", rehosted},
	{"all takes three times as long", threeTimes},
	{"a communicator that is not used", besideIdle},
}

func same(rank int) int { return rank }

func renumbered(rng *rand.Rand, ev *rca.Evidence, _ *rca.Options) func(int) int {
	to := rng.Perm(ev.WorldSize)
	called := func(r int) int {
		if r < 0 {
			return r
		}
		return to[r]
	}
	for i := range ev.Ranks {
		ev.Ranks[i].ID = called(ev.Ranks[i].ID)
	}
	for i := range ev.Comms {
		for k, r := range ev.Comms[i].Members {
			ev.Comms[i].Members[k] = called(r)
		}
	}
	for i := range ev.Facts {
		ev.Facts[i].Rank = called(ev.Facts[i].Rank)
	}
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		s.Rank, s.Peer = called(s.Rank), called(s.Peer)
	}
	return called
}

func rehosted(rng *rand.Rand, ev *rca.Evidence, _ *rca.Options) func(int) int {
	name := map[string]string{"": ""}
	for _, n := range rng.Perm(len(ev.Ranks)) {
		if host := ev.Ranks[n].Host; host != "" && name[host] == "" {
			name[host] = fmt.Sprintf("machine-%c", 'z'-len(name))
		}
	}
	for i := range ev.Ranks {
		ev.Ranks[i].Host = name[ev.Ranks[i].Host]
	}
	for i := range ev.Facts {
		ev.Facts[i].Host = name[ev.Facts[i].Host]
	}
	return same
}

func threeTimes(_ *rand.Rand, ev *rca.Evidence, opt *rca.Options) func(int) int {
	const factor = 3
	*opt = opt.WithDefaults()
	stretch(reflect.ValueOf(opt).Elem(), factor)
	stretch(reflect.ValueOf(ev).Elem(), factor)
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		s.Start, s.End, s.Entered = factor*s.Start, factor*s.End, factor*s.Entered
	}
	return same
}

// stretch multiplies every duration in a value; negative ones are unknown and stay.
func stretch(v reflect.Value, factor int64) {
	switch v.Kind() { // The others hold nothing.
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				stretch(field, factor)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			stretch(v.Index(i), factor)
		}
	case reflect.Int64:
		if v.Type() == reflect.TypeFor[time.Duration]() && v.Int() > 0 {
			v.SetInt(factor * v.Int())
		}
	}
}

func besideIdle(_ *rand.Rand, ev *rca.Evidence, _ *rca.Options) func(int) int {
	idle := rca.Comm{ID: "idle/1", Name: "idle", Size: ev.WorldSize}
	for r := range ev.WorldSize {
		idle.Members = append(idle.Members, r)
	}
	ev.Comms = append(ev.Comms, idle)
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		r.Memberships = append(r.Memberships, rca.Membership{
			Comm: idle.ID, CommRank: r.ID, Called: 3, Started: 3, Completed: 3, SinceCompleted: time.Hour, SinceCalled: time.Hour,
		})
	}
	return same
}

// cloned copies everything that a change may modify.
func cloned(ev rca.Evidence) rca.Evidence {
	ev.Ranks, ev.Comms, ev.Facts, ev.Timeline = slices.Clone(ev.Ranks), slices.Clone(ev.Comms), slices.Clone(ev.Facts), slices.Clone(ev.Timeline)
	for i := range ev.Comms {
		ev.Comms[i].Members = slices.Clone(ev.Comms[i].Members)
	}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		r.Memberships, r.Calls = slices.Clone(r.Memberships), slices.Clone(r.Calls)
		for k := range r.Memberships {
			m := &r.Memberships[k]
			m.InFlight, m.Recent = slices.Clone(m.InFlight), slices.Clone(m.Recent)
			for o := range m.InFlight {
				m.InFlight[o].Flows = slices.Clone(m.InFlight[o].Flows)
			}
		}
	}
	return ev
}

// accused gives the ranks that a verdict accuses, in order, under the names that a change gave them.
func accused(v rca.Verdict, called func(int) int) []int {
	var out []int
	for _, r := range rcatest.Accused(v) {
		out = append(out, called(r))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// unchanged checks that no change affects which rank the verdict accuses, or of what.
func unchanged(t *testing.T, rng *rand.Rand, ev rca.Evidence, what string) {
	t.Helper()
	want := Analyze(cloned(ev), rca.Options{})
	for _, c := range changes {
		told, opt := cloned(ev), rca.Options{}
		called := c.change(rng, &told, &opt)
		got := Analyze(told, opt)
		if got.Class != want.Class || got.Cause != want.Cause || got.Page != want.Page || !slices.Equal(accused(got, same), accused(want, called)) {
			t.Errorf("%s, but %s: %s/%s %v, page %t; was %s/%s %v, page %t\n%s\n%s", what, c.name, got.Class, got.Cause, accused(got, same), got.Page,
				want.Class, want.Cause, accused(want, called), want.Page, got.Summary, want.Summary)
		}
	}
}

// TestHungJobsToldOtherwise: the culprit of a hang does not depend on the names of ranks and hosts, on the pace of the job, or on
// communicators that no rank uses.
func TestHungJobsToldOtherwise(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for range jobs(200) {
		m, _ := hung(t, rng)
		unchanged(t, rng, m.evidence(), fmt.Sprintf("%+v dp%d pp%d tp%d", m.fault, m.dp, m.pp, m.tp))
	}
}

// TestSlowJobsToldOtherwise: the same holds for the culprit of a slow job.
func TestSlowJobsToldOtherwise(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	for range jobs(60) {
		j, _, what := slowed(rng)
		unchanged(t, rng, j.Evidence(), what)
	}
}

// TestSlowJobsTenthOfRecordsLost: lost records may hide the culprit of a slow job, but never accuse another rank.
func TestSlowJobsTenthOfRecordsLost(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 13))
	named := 0
	for range jobs(60) {
		j, rank, what := slowed(rng)
		ev := j.Evidence()
		lost := map[int]uint64{}
		ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool {
			drop := rng.IntN(10) == 0
			if drop {
				lost[s.Rank]++
			}
			return drop
		})
		for i := range ev.Ranks {
			ev.Ranks[i].Lost = lost[ev.Ranks[i].ID]
		}
		v := Analyze(ev, rca.Options{})
		for _, r := range rcatest.Accused(v) {
			if r != rank {
				t.Errorf("%s: names innocent %d\n%s", what, r, v.Summary)
			} else {
				named++
			}
		}
	}
	t.Logf("named with a tenth of the records lost: %d of %d, a fifth of which are healthy", named, jobs(60))
}

// slowed gives a random job and the rank that slows it, -1 none.
func slowed(rng *rand.Rand) (j *rcatest.SlowJob, rank int, what string) {
	j = rcatest.NewSlowJob(2+rng.IntN(3), 1+rng.IntN(3), 1+rng.IntN(2))
	j.Rng = rand.New(rand.NewPCG(rng.Uint64(), 1))
	rank = rng.IntN(j.World())
	switch rng.IntN(5) {
	case 0:
		what, j.Compute = "slow compute", rcatest.One(rank, 1.3+rng.Float64())
	case 1:
		what, j.Send = "slow sender", rcatest.One(rank, 3+3*rng.Float64())
	case 2:
		what, j.Flush = "slow flush", rcatest.One(rank, 80)
	case 3:
		late := rank
		what, j.Host = "late calls", func(r, _ int) time.Duration {
			if r == late {
				return 100 * time.Millisecond
			}
			return 0
		}
	default:
		what, rank = "healthy", -1
	}
	return j, rank, fmt.Sprintf("%s at %d of %d", what, rank, j.World())
}

// jobs gives how many jobs to draw: CULPRIT_JOBS times the usual number.
func jobs(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("CULPRIT_JOBS")); err == nil && n > 0 {
		return n * usual
	}
	return usual
}
