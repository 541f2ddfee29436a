// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/culprit-project/culprit/analyzer/webhook"
)

const (
	// probeKind is that of a synthetic trigger, which is about no job: the doctor posts it to Alertmanager to see it arrive here.
	probeKind = "probe"
	// maxProbes and maxProbe bound what is remembered: probes, and bytes of one's name.
	maxProbes, maxProbe = 16, 64
)

// probes remembers the latest synthetic triggers that a notification brought.
type probes struct {
	mu   sync.Mutex
	seen []string
}

// take remembers the probes among alerts and gives the others.
func (p *probes) take(alerts []webhook.Alert) []webhook.Alert {
	isProbe := func(a webhook.Alert) bool {
		return a.Labels[triggerLabel] == triggerValue && a.Labels[kindLabel] == probeKind
	}
	if !slices.ContainsFunc(alerts, isProbe) {
		return alerts
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []webhook.Alert
	for i := range alerts {
		if !isProbe(alerts[i]) {
			out = append(out, alerts[i])
			continue
		}
		if id := alerts[i].Labels["job_id"]; len(id) <= maxProbe && !slices.Contains(p.seen, id) {
			p.seen = append(p.seen, id)
			p.seen = p.seen[max(0, len(p.seen)-maxProbes):]
		}
	}
	return out
}

// ServeHTTP answers whether a probe has come.
func (p *probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.seen, r.PathValue("id")) {
		http.Error(w, "no such probe has arrived", http.StatusNotFound)
		return
	}
	fmt.Fprintln(w, "arrived")
}
