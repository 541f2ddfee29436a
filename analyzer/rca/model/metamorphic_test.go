// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/model"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// copied gives evidence that shares nothing with the original.
func copied(t *testing.T, ev *rca.Evidence) (out rca.Evidence) {
	t.Helper()
	text, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// said is what a person is told: class and places. Hosts and communicators are left out, since tests rename them.
func said(v *rca.Verdict) string {
	s := string(v.Class) + "/" + string(v.Cause)
	for i := range v.Culprits {
		s += fmt.Sprintf(" %d %s", v.Culprits[i].Rank, v.Culprits[i].Group)
	}
	return s
}

// What changes nothing about a job changes nothing about the answer.
func TestIndependence(t *testing.T) {
	for _, change := range []struct {
		name string
		do   func(*rca.Evidence, *rca.Options)
	}{
		{"order of ranks and communicators", func(ev *rca.Evidence, _ *rca.Options) {
			rng := rand.New(rand.NewPCG(7, 1))
			rng.Shuffle(len(ev.Ranks), func(a, b int) { ev.Ranks[a], ev.Ranks[b] = ev.Ranks[b], ev.Ranks[a] })
			rng.Shuffle(len(ev.Comms), func(a, b int) { ev.Comms[a], ev.Comms[b] = ev.Comms[b], ev.Comms[a] })
			for i := range ev.Ranks {
				m := ev.Ranks[i].Memberships
				rng.Shuffle(len(m), func(a, b int) { m[a], m[b] = m[b], m[a] })
			}
		}},
		{"names of hosts and communicators", func(ev *rca.Evidence, _ *rca.Options) {
			other := func(s string) string { return "x" + strconv.Itoa(len(s)) + reversed(s) }
			for i := range ev.Comms {
				ev.Comms[i].ID, ev.Comms[i].Name = rca.CommID(other(string(ev.Comms[i].ID))), other(ev.Comms[i].Name)
			}
			for i := range ev.Ranks {
				r := &ev.Ranks[i]
				r.Host = other(r.Host)
				for k := range r.Memberships {
					r.Memberships[k].Comm = rca.CommID(other(string(r.Memberships[k].Comm)))
				}
				for k := range r.Calls {
					r.Calls[k].On = rca.CommID(other(string(r.Calls[k].On)))
				}
			}
			for i := range ev.Facts {
				ev.Facts[i].Host = other(ev.Facts[i].Host)
			}
		}},
		{"scale of time", func(ev *rca.Evidence, opt *rca.Options) {
			*opt = opt.WithDefaults()
			opt.HangAfter *= 3
			for i := range ev.Ranks {
				r := &ev.Ranks[i]
				slower(&r.Began, &r.Ended, &r.SeenAlive, &r.GroupOpen)
				for k := range r.Calls {
					slower(&r.Calls[k].Since)
				}
				for k := range r.Memberships {
					m := &r.Memberships[k]
					slower(&m.SinceCompleted, &m.SinceCalled)
					for _, list := range [][]rca.Op{m.InFlight, m.Recent} {
						for o := range list {
							slower(&list[o].Age, &list[o].Stuck)
						}
					}
				}
			}
		}},
		{"an idle communicator", func(ev *rca.Evidence, _ *rca.Options) {
			c := rca.Comm{ID: "idle", Name: "idle", Size: len(ev.Ranks)}
			for i := range ev.Ranks {
				r := &ev.Ranks[i]
				r.Memberships = append(r.Memberships, rca.Membership{Comm: "idle", CommRank: i, SinceCompleted: -1, SinceCalled: -1})
				c.Members = append(c.Members, r.ID)
			}
			ev.Comms = append(ev.Comms, c)
		}},
		{"a rank that takes part in nothing", func(ev *rca.Evidence, _ *rca.Options) {
			ev.Ranks = append(ev.Ranks, rca.Rank{ID: 1000, Host: "idle", State: rca.ProcessRunning, Caps: rcatest.AllCaps, WriteBytesPerSec: -1, ReadBytesPerSec: -1})
		}},
	} {
		t.Run(change.name, func(t *testing.T) {
			for name, r := range model.Recorded(t) {
				before := model.Analyze(copied(t, &r.Evidence), r.Options)
				ev, opt := copied(t, &r.Evidence), r.Options
				change.do(&ev, &opt)
				if after := model.Analyze(ev, opt); said(&before) != said(&after) {
					t.Errorf("%s: %s becomes %s", name, said(&before), said(&after))
				}
			}
		})
	}
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

func slower(times ...*time.Duration) {
	for _, d := range times {
		if *d > 0 {
			*d *= 3
		}
	}
}

// The model is a function: it writes nothing that it is given, and says the same again.
func TestPure(t *testing.T) {
	for name, r := range model.Recorded(t) {
		before, err := json.Marshal(r.Evidence)
		if err != nil {
			t.Fatal(err)
		}
		first := model.Explain(r.Evidence, r.Options)
		again := model.Explain(r.Evidence, r.Options)
		if first.Tell() != again.Tell() {
			t.Errorf("%s: a second time it says something else", name)
		}
		after, err := json.Marshal(r.Evidence)
		if err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Errorf("%s: the evidence was written", name)
		}
	}
}

// A host that is not seen may make the answer wider or unknown. It never makes it another rank.
func TestLessEvidence(t *testing.T) {
	for name, r := range model.Recorded(t) {
		all := model.Analyze(copied(t, &r.Evidence), r.Options)
		for i := range r.Evidence.Ranks {
			ev := copied(t, &r.Evidence)
			lost := ev.Ranks[i].ID
			ev.Ranks = slices.Delete(ev.Ranks, i, i+1)
			ev.Missing = append(ev.Missing, rca.Missing{What: "rank", Name: strconv.Itoa(lost), Ranks: []int{lost}, Why: "left out"})
			less := model.Analyze(ev, r.Options)
			for _, c := range less.Culprits {
				if !holds(all.Culprits, c.Rank) {
					t.Errorf("%s without rank %d: %s becomes %s", name, lost, said(&all), said(&less))
				}
			}
		}
	}
}

func holds(list []rca.Culprit, rank int) bool {
	return rank < 0 || slices.ContainsFunc(list, func(c rca.Culprit) bool { return c.Rank == rank })
}

var numbers = regexp.MustCompile(`(?m)^ +([-+]?\d+\.\d)  (?:\d+ × .*|how rare such faults are|(in all))$`)

// The terms that the explanation prints add up to the score that it prints.
func TestTermsAddUp(t *testing.T) {
	seen := 0
	for name, r := range model.Recorded(t) {
		text := model.Explain(r.Evidence, r.Options).Tell()
		sum, all, n := 0.0, 0.0, 0
		for _, m := range numbers.FindAllStringSubmatch(text, -1) {
			f, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			if m[2] != "" {
				all = f
				continue
			}
			sum += f
			n++
		}
		if n == 0 {
			continue
		}
		seen++
		if rounding := 0.05 * float64(n+1); sum < all-rounding || sum > all+rounding {
			t.Errorf("%s: the terms add up to %.1f, the score is %.1f:\n%s", name, sum, all, text)
		}
		if !strings.Contains(text, fmt.Sprintf("%.1f  ", all)) {
			t.Errorf("%s: no world has the score %.1f:\n%s", name, all, text)
		}
	}
	if seen < 5 {
		t.Errorf("%d incidents have a score, want 5", seen)
	}
}
