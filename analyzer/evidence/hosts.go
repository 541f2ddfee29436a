// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// An exporter says which host it runs on, and a compromised one may give the name of another. Where exporters on two instances give one
// name, nobody knows whose it is: their ranks are then called by the instance that Prometheus scrapes. exporters.host_label takes the
// name from the scrape configuration instead, and leaves nothing to be said.

// HostClaim says that the exporter of an instance calls its host so.
type HostClaim struct{ Host, Instance string }

// hostName is what hosts are called. Letters of other alphabets would look like another host's name.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*\.?)*$`)

// sameHost reports whether two names may be of one host: they differ in case, or one is the short form of the other.
func sameHost(a, b string) bool {
	a, b = strings.ToLower(strings.TrimSuffix(a, ".")), strings.ToLower(strings.TrimSuffix(b, "."))
	shortA, _, dottedA := strings.Cut(a, ".")
	shortB, _, dottedB := strings.Cut(b, ".")
	return a == b || shortA == shortB && !(dottedA && dottedB)
}

// boundHost gives the name that a label of a target gives a host: its value without a port. A target without the label is called by its
// instance.
func boundHost(value, instance string) string {
	value = cmp.Or(value, instance)
	if host, _, err := net.SplitHostPort(value); err == nil {
		return host
	}
	return value
}

// Hosts of exporters, as they call them in general and in the series of a job: those that are scraped now, and those that Prometheus cannot
// scrape, by what they said last. What became of a target that is no more says nothing.
const hostsQuery = `(group by (host, instance) (%[1]s or last_over_time(%[1]s[%[2]s]) and on (instance) up{%[3]s} == 0) or group by (host, instance) (%[4]s))`

// Addresses of exporters that another one gives as the name of its host.
const addressesQuery = `label_replace(group by (instance) (%[1]s), "host", "$1", "instance", "(.*?)(:[0-9]+)?") and on (host) %[2]s unless on (host, instance) %[2]s`

// ClaimedHosts gives the hosts that may have been claimed by several exporters, with all that claim them. Names with a domain are among
// them where another begins alike, and all names with capital letters, as PromQL cannot compare names but for their case.
func (d *Directory) ClaimedHosts(ctx context.Context, job identity.Job) ([]HostClaim, error) {
	if d.cfg.HostLabel != "" {
		return nil, nil
	}
	named := func(more string) (string, error) {
		selector := more
		if scope := job.Scope(); scope != "" {
			selector += "," + scope
		}
		exporters, err := config.Query(d.cfg.Queries.Exporters, selector)
		processes, processesErr := config.Query(d.cfg.Queries.Processes, more+","+job.Selector())
		up := strings.Trim(d.cfg.ExporterSelector+","+job.Scope(), ",")
		return fmt.Sprintf(hostsQuery, exporters, d.cfg.Lookback, up, processes), cmp.Or(err, processesErr)
	}
	all, err := named(`host!=""`)
	if err != nil {
		return nil, err
	}
	capital, _ := named(`host=~".*[A-Z].*"`)
	short := fmt.Sprintf(`label_replace(%s, "short", "$1", "host", "([^.]*).*")`, all)
	exporters, _ := config.Query(d.cfg.Queries.Exporters, `host!=""`)
	var twice, capitals, addresses model.Vector
	var twiceErr, capitalsErr, addressesErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		twice, twiceErr = d.vector(ctx, fmt.Sprintf("%[1]s and on (short) (count by (short) (group by (short, instance) (%[1]s)) > 1)", short))
	})
	wg.Go(func() { capitals, capitalsErr = d.vector(ctx, capital) })
	wg.Go(func() { addresses, addressesErr = d.vector(ctx, fmt.Sprintf(addressesQuery, exporters, all)) })
	wg.Wait()
	var out []HostClaim
	for _, s := range d.ours(ctx, slices.Concat(twice, capitals, addresses)) {
		if c := (HostClaim{string(s.Metric["host"]), string(s.Metric["instance"])}); !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b HostClaim) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Instance, b.Instance))
	})
	return out, cmp.Or(twiceErr, capitalsErr, addressesErr)
}

// rivals gives the other instances that claim the host of an instance.
func rivals(claims []HostClaim, host, instance string) []string {
	var out []string
	for _, c := range claims {
		if c.Instance != instance && sameHost(c.Host, host) && !slices.Contains(out, c.Instance) {
			out = append(out, c.Instance)
		}
	}
	return out
}

// callHosts gives each process the name by which its host may be called.
func (s *Session) callHosts(processes []Process, claims []HostClaim) {
	for i := range processes {
		p := &processes[i]
		if p.Host == "" || p.Instance == "" {
			continue
		}
		why := "the exporter at " + p.Instance + " says that it runs on it, and that is no name of a host"
		if others := rivals(claims, p.Host, p.Instance); len(others) > 0 {
			why = fmt.Sprintf("the exporters at %s say that they run on it", strings.Join(slices.Sorted(slices.Values(append(others, p.Instance))), " and "))
		} else if hostName.MatchString(p.Host) || s.g.Directory.cfg.HostLabel != "" {
			continue
		}
		if s.hosts == nil {
			s.hosts = map[string]string{}
		}
		s.hosts[p.Host] = why + ", so its ranks are called by the address of their exporter"
		p.Host = p.Instance
	}
}

// hostOf gives the name of a node's host: as Prometheus has it. An exporter may tell the analyzer another name than it told Prometheus, or
// tell Prometheus none: then it is called by its address, of which the name may be that of the host.
func (s *Session) hostOf(n *Node, told string) string {
	for _, r := range n.Ranks {
		if host := s.processes[r].Host; host != "" {
			return host
		}
	}
	if n.instance == "" || sameHost(told, boundHost("", n.instance)) {
		return told
	}
	return n.instance
}

// claimedHosts adds hosts that several exporters claim to what is missing.
func (a *assembly) claimedHosts(s *Session) {
	for host, why := range s.hosts {
		a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "host", Name: host, Why: why})
	}
}

// Conflicts gives what is in conflict about the job, its ranks and its hosts, as a verdict lists it.
func Conflicts(ev *rca.Evidence) []string {
	var out []string
	for i := range ev.Missing {
		if m := &ev.Missing[i]; m.Claimed() {
			out = append(out, m.String())
		}
	}
	slices.Sort(out)
	return out
}
