// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// pool bounds the answers of one kind that are made at a time, in all and for one client. Kinds do not share: whoever reads
// history slowly does not keep the present from an analysis.
type pool struct {
	slots     chan struct{}
	perClient int
	timeout   time.Duration // Of one answer: a client that does not read must not keep the place.

	mu      sync.Mutex
	clients map[string]int
}

func newPool(slots, perClient int, timeout time.Duration) *pool {
	return &pool{slots: make(chan struct{}, slots), perClient: perClient, timeout: timeout, clients: map[string]int{}}
}

// enter takes a place for a client; false: there is none, or it has its share.
func (p *pool) enter(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients[client] >= p.perClient {
		return false
	}
	select {
	case p.slots <- struct{}{}:
		p.clients[client]++
		return true
	default:
		return false
	}
}

func (p *pool) leave(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	<-p.slots
	if p.clients[client]--; p.clients[client] == 0 {
		delete(p.clients, client)
	}
}

// client is the address that a request comes from, without its port.
func client(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// limited answers 503 when too many answers are being made.
func limited(p *pool, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from := client(r)
		if !p.enter(from) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
			return
		}
		defer p.leave(from)
		// Writers that cannot be bounded are a test's.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(p.timeout))
		h(w, r)
	}
}
