// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
)

// Clients that do not read hold the places of history, and some of those of the state. Whoever else asks for the state has it.
func TestSlowReadersStopNobodyElse(t *testing.T) {
	a := New(promslog.NewNopLogger(), "test", nil, nil)
	held, free := make(chan struct{}), make(chan struct{})
	slow := func(http.ResponseWriter, *http.Request) { held <- struct{}{}; <-free }
	ask := func(p *pool, h http.HandlerFunc, from string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		limited(p, h)(w, r)
		return w.Code
	}
	quick := func(http.ResponseWriter, *http.Request) {}
	done := make(chan int)
	begin := func(p *pool, from string) {
		go func() { done <- ask(p, slow, from) }()
		<-held
	}
	for range 2 {
		begin(a.past, "10.0.0.1:1")
		begin(a.past, "10.0.0.2:1")
	}
	for range 4 {
		begin(a.present, "10.0.0.1:2")
	}
	for _, tc := range []struct {
		name string
		pool *pool
		from string
		want int
	}{
		{"history, when all places are taken", a.past, "10.0.0.3:1", http.StatusServiceUnavailable},
		{"the state, for the client that has its share", a.present, "10.0.0.1:3", http.StatusServiceUnavailable},
		{"the state, for another client", a.present, "10.0.0.3:2", http.StatusOK},
		{"control", a.control, "10.0.0.3:3", http.StatusOK},
	} {
		if got := ask(tc.pool, quick, tc.from); got != tc.want {
			t.Errorf("%s: status %d, want %d", tc.name, got, tc.want)
		}
	}
	close(free)
	for range 8 {
		<-done
	}
	for name, p := range map[string]*pool{"past": a.past, "present": a.present} {
		if len(p.slots) != 0 || len(p.clients) != 0 {
			t.Errorf("pool %s: %d places are held, clients %v", name, len(p.slots), p.clients)
		}
		if p.timeout > time.Minute {
			t.Errorf("pool %s: an answer may take %s", name, p.timeout)
		}
	}
}
