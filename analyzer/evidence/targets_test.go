// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
)

// scraping is a Prometheus with a list of targets.
type scraping struct {
	*prom
	list  []map[string]string
	err   error
	asked atomic.Int64
}

func (s *scraping) Targets(context.Context) ([]map[string]string, error) {
	s.asked.Add(1)
	return s.list, s.err
}

// Series that a Pushgateway, a federation or remote write brought call themselves an exporter's. Nobody asks whom they name, and they claim no
// rank, no communicator and no host, where Prometheus tells which exporters it scrapes.
func TestPushedSeries(t *testing.T) {
	exporter := func(instance string) map[string]string {
		return map[string]string{"job": "culprit-exporter", "instance": instance}
	}
	a := exporter("a:9850")
	for _, tc := range []struct {
		name   string
		list   []map[string]string
		err    error
		all    bool // prometheus.only_targets is off.
		pushed bool // Series of evil:1 count.
	}{
		{name: "exporters are scraped", list: []map[string]string{{"job": "node", "instance": "a:9100"}, a}},
		{name: "it is a target of another job", list: []map[string]string{a, {"job": "node", "instance": "evil:1"}}},
		{name: "it is scraped", list: []map[string]string{a, exporter("evil:1")}, pushed: true},
		{name: "all exporters write from elsewhere", list: []map[string]string{{"job": "node", "instance": "a:9100"}}, pushed: true},
		{name: "the server does not tell", err: ErrUntold, pushed: true},
		{name: "the site has both", list: []map[string]string{a}, all: true, pushed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answers := map[string]model.Value{
				liveQuery: model.Vector{rankSeries(0, "a", "a:9850", "1"), rankSeries(1, "a", "evil:1", "2")},
				`last_over_time(culprit_exporter_build_info{instance="evil:1",job="culprit-exporter"}[10m])`: model.Vector{series("instance", "evil:1")},
				`last_over_time(culprit_nccl_comm_info{job_id="job",job="culprit-exporter"}[10m])`:           model.Vector{series("comm", "1", "rank", "1", "instance", "evil:1")},
			}
			p := &prom{answers: answers, twice: model.Vector{series("host", "a", "instance", "a:9850"), series("host", "a", "instance", "evil:1")}}
			cfg := config.Default().Prometheus
			cfg.OnlyTargets = !tc.all
			d := NewDirectory(&scraping{prom: p, list: tc.list, err: tc.err}, cfg, func(error) {}, clock.System)
			job := identity.Job{ID: "job"}
			want := 1
			if tc.pushed {
				want = 2
			}
			if got, err := d.Processes(t.Context(), job); err != nil || len(got) != want {
				t.Errorf("processes %+v, %v, want %d", got, err, want)
			}
			if known, err := d.Scraped(t.Context(), "evil:1"); err != nil || known != tc.pushed {
				t.Errorf("asked on a trigger's word: %t, %v", known, err)
			}
			if got, err := d.Members(t.Context(), job, nil); err != nil || len(got) != want-1 {
				t.Errorf("members %+v, %v", got, err)
			}
			if got, err := d.ClaimedHosts(t.Context(), job); err != nil || len(got) != want {
				t.Errorf("hosts %+v, %v", got, err)
			}
			if why := d.pushing(); (why == "") != tc.pushed || !tc.pushed && !strings.Contains(why, "evil:1") {
				t.Errorf("left out: %q", why)
			}
		})
	}
}

// Many queries at once need the list, which is long. It is asked for once.
func TestTargetsAreListedOnce(t *testing.T) {
	s := &scraping{prom: &prom{}, list: []map[string]string{{"job": "culprit-exporter", "instance": "a:9850"}}}
	d := NewDirectory(s, config.Default().Prometheus, func(error) {}, clock.System)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { d.ours(t.Context(), model.Vector{series("instance", "a:9850"), series("instance", "evil:1")}) })
	}
	wg.Wait()
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// Prometheus forgets targets that are gone, as the exporter of a host that died, and may have no answer for a while.
func TestTargetsAreRemembered(t *testing.T) {
	now := &stepped{at: time.Unix(1_800_000_000, 0)}
	s := &scraping{prom: &prom{}, list: []map[string]string{{"job": "culprit-exporter", "instance": "a:9850"}, {"job": "culprit-exporter", "instance": "b:9850"}}}
	d := NewDirectory(s, config.Default().Prometheus, func(error) {}, now)
	count := func(instances ...string) int {
		var v model.Vector
		for _, i := range instances {
			v = append(v, series("instance", i))
		}
		return len(d.ours(t.Context(), v))
	}
	for _, step := range []struct {
		name  string
		after time.Duration
		list  []map[string]string
		err   error
		want  int // Of a, b and c.
	}{
		{"both are there", 0, s.list, nil, 2},
		{"one has died", 5 * time.Minute, s.list[:1], nil, 2},
		{"no answer", time.Minute, nil, errors.New("status 503"), 2},
		{"one of two scrapers does not answer", 2 * rememberFor, s.list[:1], errors.New("status 503"), 2},
		{"both do", time.Minute, s.list, nil, 2},
		{"one came", listEvery, []map[string]string{s.list[0], {"job": "culprit-exporter", "instance": "c:9850"}}, nil, 3},
		{"it was long ago", rememberFor, s.list[:1], nil, 2},
	} {
		now.at, s.list, s.err = now.at.Add(step.after), step.list, step.err
		if got := count("a:9850", "b:9850", "c:9850"); got != step.want {
			t.Errorf("%s: %d series count, want %d", step.name, got, step.want)
		}
	}
}

// stepped is a clock that a test moves.
type stepped struct {
	clock.Clock
	at time.Time
}

func (s *stepped) Now() time.Time { return s.at }

// Where nobody tells what is scraped, that is said, once.
func TestNobodyTellsTargets(t *testing.T) {
	now := &stepped{at: time.Unix(1_800_000_000, 0)}
	s := &scraping{prom: &prom{}, err: ErrUntold}
	var said []error
	d := NewDirectory(s, config.Default().Prometheus, func(err error) { said = append(said, err) }, now)
	for range 3 {
		now.at = now.at.Add(time.Hour)
		if got := d.ours(t.Context(), model.Vector{series("instance", "a:9850")}); len(got) != 1 {
			t.Errorf("%d series count, want 1", len(got))
		}
	}
	if len(said) != 1 || !errors.Is(said[0], ErrUntold) || s.asked.Load() != 3 {
		t.Errorf("asked %d times, said %v", s.asked.Load(), said)
	}
}

// An exporter that is scraped since is no longer told to be left out.
func TestPushedSeriesAreForgotten(t *testing.T) {
	d := NewDirectory(&prom{}, config.Default().Prometheus, func(error) {}, clock.System)
	d.leaveOut(map[string]bool{"late:1": true, "evil:1": true})
	d.targets.seen = map[string]time.Time{"late:1": time.Now()}
	if why := d.pushing(); !strings.Contains(why, "evil:1") || strings.Contains(why, "late:1") {
		t.Errorf("%q, want evil:1 alone", why)
	}
}
