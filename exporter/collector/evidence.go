// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// factPeriod is how often evidence is gathered. Errors are counted from the first look on.
const factPeriod = 5 * time.Second

// FactSource is a collector that has evidence about the node's components.
type FactSource interface {
	// Facts gives what is out of order now. It is called every few seconds, by one goroutine.
	Facts() []nodeapi.Fact
}

// newsSource is a source that says when it has something new, so that nobody waits a period for it.
type newsSource interface{ News() <-chan struct{} }

// Evidence gathers the facts of several sources, each by itself: one that hangs leaves the others fresh.
type Evidence struct {
	log     *slog.Logger
	sources map[string]FactSource

	mu     sync.Mutex
	latest map[string]findings
}

type findings struct {
	facts []nodeapi.Fact
	at    time.Time
}

// NewEvidence makes an Evidence without sources.
func NewEvidence(log *slog.Logger) *Evidence {
	return &Evidence{log: log, sources: map[string]FactSource{}, latest: map[string]findings{}}
}

// Add adds a source. It must not be called once Run runs.
func (e *Evidence) Add(name string, s FactSource) { e.sources[name] = s }

// Run gathers facts until ctx ends.
func (e *Evidence) Run(ctx context.Context) {
	for name, source := range e.sources {
		// Not waited for: a source may hang in a driver.
		go func() {
			ticker := time.NewTicker(factPeriod)
			defer ticker.Stop()
			var news <-chan struct{} // Nil: never.
			if s, ok := source.(newsSource); ok {
				news = s.News()
			}
			for {
				e.look(name, source)
				select {
				case <-ctx.Done():
					return
				case <-news:
				case <-ticker.C:
				}
			}
		}()
	}
}

func (e *Evidence) look(name string, source FactSource) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("Gathering facts panicked", "collector", name, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	facts := source.Facts()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.latest[name] = findings{facts, time.Now()}
}

// Facts gives the latest findings of all sources.
func (e *Evidence) Facts() []nodeapi.Fact {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []nodeapi.Fact
	for _, f := range e.latest {
		for _, fact := range f.facts {
			fact.AgeSeconds += time.Since(f.at).Seconds()
			all = append(all, fact)
		}
	}
	sortFacts(all)
	return all
}
