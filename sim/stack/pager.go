// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Page is one alert as the pager received it from Alertmanager.
type Page struct {
	At          time.Time // When it arrived.
	Status      string    // firing or resolved.
	Labels      map[string]string
	Annotations map[string]string
	StartsAt    time.Time
	From        string // The Alertmanager's address.
	// Notification numbers what arrived together, from 0.
	Notification int
	// Calls: somebody is called, since no alert of the group was firing before. On-call services take what follows until the group is
	// resolved for news of the same trouble.
	Calls bool
}

// OfVerdict reports whether the page tells of a verdict, and not of Culprit itself or of a rank that may still come.
func (p *Page) OfVerdict() bool { return p.Labels["culprit"] == "verdict" }

// pager stands where an on-call service would: a receiver of Alertmanager's webhooks that keeps what it got.
type pager struct {
	addr   string
	server *http.Server

	mu            sync.Mutex
	pages         []Page
	notifications int
	firing        map[string]bool // Groups of alerts, by Alertmanager's key.
}

func startPager() (*pager, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for pages: %w", err)
	}
	p := &pager{addr: l.Addr().String(), firing: map[string]bool{}}
	p.server = &http.Server{Handler: http.HandlerFunc(p.receive), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

func (p *pager) receive(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Status   string `json:"status"`
		GroupKey string `json:"groupKey"`
		From     string `json:"externalURL"`
		Alerts   []struct {
			Status      string            `json:"status"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
			StartsAt    time.Time         `json:"startsAt"`
		} `json:"alerts"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := body.Status == "firing" && !p.firing[body.GroupKey]
	p.firing[body.GroupKey] = body.Status == "firing"
	for _, a := range body.Alerts {
		p.pages = append(p.pages, Page{
			At: now, Status: a.Status, Labels: a.Labels, Annotations: a.Annotations, StartsAt: a.StartsAt, From: body.From, Notification: p.notifications, Calls: calls,
		})
	}
	p.notifications++
}

// forJob gives all that was notified of a job, firing and resolved, oldest first.
func (p *pager) forJob(jobID string) []Page {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Page
	for _, page := range p.pages {
		if page.Labels["job_id"] == jobID {
			out = append(out, page)
		}
	}
	return out
}

func (p *pager) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.server.Shutdown(ctx)
}
