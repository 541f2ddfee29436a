// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// again is how often a trigger that still fires is posted, and expires after how long Alertmanager takes one that is not to have ended.
	again   = 10 * time.Second
	expires = 30 * time.Second
	// waiting bounds the posts that wait for a slow Alertmanager.
	waiting = 64
)

// alert is what Alertmanager's API takes (POST /api/v2/alerts).
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// poster posts triggers to all Alertmanagers, one after the other, and never keeps the watcher waiting.
type poster struct {
	rule   *Rule
	urls   []string
	labels map[string]string
	client *http.Client
	log    *slog.Logger
	queue  chan alert
	posts  *prometheus.CounterVec
	failed map[string]bool // URLs that refused the last post.
}

func newPoster(rule *Rule, o Options) (*poster, error) {
	p := &poster{
		rule: rule, labels: o.Labels, client: o.Client, log: o.Log, queue: make(chan alert, waiting), failed: map[string]bool{},
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "culprit_exporter_trigger_posts_total", Help: "Posts of triggers to Alertmanagers, by what came of them.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{"accepted", "failed", "dropped"} {
		p.posts.WithLabelValues(outcome)
	}
	for _, u := range o.URLs {
		parsed, err := url.Parse(u)
		if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
			return nil, fmt.Errorf("--trigger.url=%s is no URL of an Alertmanager, such as http://alertmanager:9093", u)
		}
		p.urls = append(p.urls, parsed.JoinPath("api/v2/alerts").String())
	}
	return p, nil
}

// send queues a job's trigger, firing until ends.
func (p *poster) send(j job, stall float64, began, ends time.Time) {
	labels := maps.Clone(p.labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, p.rule.Labels)
	labels["alertname"], labels["job_id"], labels["owner"] = p.rule.Alert, j.id, j.owner
	a := alert{
		Labels: labels, StartsAt: began, EndsAt: ends,
		Annotations: map[string]string{"summary": p.rule.Summary, "description": p.rule.describe(j.id, stall), "runbook_url": p.rule.RunbookURL},
	}
	select {
	case p.queue <- a:
	default:
		p.posts.WithLabelValues("dropped").Inc()
	}
}

func (p *poster) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-p.queue:
			for _, u := range p.urls {
				p.report(u, p.post(ctx, u, a))
			}
		}
	}
}

func (p *poster) post(ctx context.Context, to string, a alert) error {
	body, err := json.Marshal([]alert{a})
	if err != nil {
		return fmt.Errorf("writing the trigger: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("posting the trigger: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("posting the trigger: %w", err)
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("posting the trigger: %s answers %s: %q", to, resp.Status, said)
	}
	return nil
}

// report counts a post, and says when an Alertmanager begins or ceases to refuse them.
func (p *poster) report(to string, err error) {
	if err == nil {
		p.posts.WithLabelValues("accepted").Inc()
		if p.failed[to] {
			p.log.Info("Alertmanager takes triggers again", "url", to)
		}
		p.failed[to] = false
		return
	}
	p.posts.WithLabelValues("failed").Inc()
	if !p.failed[to] {
		p.log.Warn("Triggers come by Prometheus's rules only: Alertmanager does not take them from here", "url", to, "err", err)
	}
	p.failed[to] = true
}
