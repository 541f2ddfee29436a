// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Series get into a Prometheus on other ways than by a scrape: by remote write, and from a Pushgateway or a federation, whose scrape
// configuration honors the labels that somebody wrote. They may call themselves an exporter's. Where Prometheus lists exporters among its
// targets, an exporter is one that it lists: who pushes series is not asked, gets no password, and claims no rank and no host.

// Lister is a Querier that knows what is scraped.
type Lister interface {
	// Targets gives the labels of all targets, beside an error of those that could be had. ErrUntold: a server has no such list.
	Targets(ctx context.Context) ([]map[string]string, error)
}

// ErrUntold says that a server does not tell what it scrapes. Others with Prometheus's API for queries often do not.
var ErrUntold = errors.New("the server does not list its targets")

// listEvery is how often Prometheus is asked for its targets, at most: an exporter that came since is asked one analysis later.
const listEvery = 5 * time.Second

// targets are the instances of exporters that Prometheus has listed.
type targets struct {
	at   time.Time            // Of the last list.
	seen map[string]time.Time // When each was listed last; empty: no exporter ever was.

	untold bool // It was said that nobody tells them.
}

// listed gives the instances that Prometheus scrapes as exporters, or did lately; empty: it does not tell.
func (d *Directory) listed(ctx context.Context, instances []string) map[string]time.Time {
	lister, ok := d.query.(Lister)
	if !ok || !d.cfg.OnlyTargets {
		return nil
	}
	d.listing.Lock() // Several queries of an analysis need the list at once, and one of them asks for it.
	defer d.listing.Unlock()
	now := d.clock.Now()
	d.mu.Lock()
	known := d.targets
	d.mu.Unlock()
	unlisted := func(instance string) bool { _, is := known.seen[instance]; return !is }
	if age := now.Sub(known.at); age < listEvery || age < time.Duration(d.cfg.RefreshInterval) && !slices.ContainsFunc(instances, unlisted) {
		return known.seen
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.cfg.Timeout))
	defer cancel()
	list, err := lister.Targets(ctx)
	seen := maps.Clone(known.seen)
	switch {
	case errors.Is(err, ErrUntold) && len(seen) == 0 && len(list) == 0:
		// Said once. It is no failure where a site has nobody to ask, and then whoever may write there passes for an exporter.
		if !known.untold {
			d.observe(fmt.Errorf("prometheus.only_targets has no effect, set prometheus.scrapers: %w", err))
		}
		known.untold = true
	case err != nil && !errors.Is(err, ErrUntold):
		d.observe(fmt.Errorf("asking prometheus for its targets: %w", err))
		if len(list) == 0 {
			return known.seen
		}
	default:
		maps.DeleteFunc(seen, func(_ string, at time.Time) bool { return now.Sub(at) > rememberFor })
	}
	exporter := d.cfg.Exporter()
	for _, labels := range list {
		if exporter(labels) {
			if seen == nil {
				seen = map[string]time.Time{}
			}
			seen[labels[model.InstanceLabel]] = now
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.targets = targets{now, seen, known.untold}
	return seen
}

// ours leaves out series that did not come by a scrape.
func (d *Directory) ours(ctx context.Context, v model.Vector) model.Vector {
	if len(v) == 0 {
		return v
	}
	instances := make([]string, len(v))
	for i, s := range v {
		instances[i] = string(s.Metric[model.InstanceLabel])
	}
	listed := d.listed(ctx, instances)
	if len(listed) == 0 {
		return v
	}
	pushed := map[string]bool{}
	v = slices.DeleteFunc(v, func(s *model.Sample) bool {
		instance := string(s.Metric[model.InstanceLabel])
		if _, is := listed[instance]; is {
			return false
		}
		pushed[instance] = true
		return true
	})
	d.leaveOut(pushed)
	return v
}

// maxPushed bounds how many instances are remembered that nobody scrapes.
const maxPushed = 1 << 10

// leaveOut notes whose series were left out.
func (d *Directory) leaveOut(instances map[string]bool) {
	if len(instances) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pushed == nil {
		d.pushed = map[string]bool{}
	}
	for i := range instances {
		if len(d.pushed) < maxPushed {
			d.pushed[i] = true
		}
	}
}

// pushing says whose series are left out; empty: nobody's.
func (d *Directory) pushing() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.pushed, func(instance string, _ bool) bool { _, scraped := d.targets.seen[instance]; return scraped })
	if len(d.pushed) == 0 {
		return ""
	}
	names, more := slices.Sorted(maps.Keys(d.pushed)), ""
	if n := len(names) - 3; n > 0 {
		names, more = names[:3], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("series of %s%s are left out: Prometheus does not scrape them as exporters (prometheus.only_targets)", strings.Join(names, ", "), more)
}

// leftOut adds to what is missing that some series are left out, where they may be of ranks that are.
func (a *assembly) leftOut(s *Session) {
	if s.pushed != "" && len(s.processes) < s.world {
		a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "claim", Name: "job " + a.ev.JobID, Why: s.pushed})
	}
}
