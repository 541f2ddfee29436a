// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestPasswordsByTurns has strangers send passwords side by side, each of which takes long to check, from one address or many. Few are checked at
// a time, and a request on a connection that has proved who it is waits for none. What is behind authentication holds no place.
func TestPasswordsByTurns(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		checked int32
	}{"one address": {"203.0.113.1:%d", passwordsPerClient}, "many addresses": {"203.0.113.%d:1", passwords}} {
		t.Run(name, func(t *testing.T) {
			var checking, most, served atomic.Int32
			ending := make(chan struct{})
			bounds := NewConnections(1024, 512, time.Hour, nil)
			srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				served.Add(1)
				<-r.Context().Done() // As a page that stays open.
			})}
			bounds.Guard(srv)
			inner := srv.Handler
			srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // As exporter-toolkit does it.
				if _, _, ok := r.BasicAuth(); ok {
					inner.ServeHTTP(w, r)
					return
				}
				n := checking.Add(1)
				defer checking.Add(-1)
				for old := most.Load(); n > old; old = most.Load() {
					most.CompareAndSwap(old, n)
				}
				<-ending
				w.WriteHeader(http.StatusUnauthorized)
			})
			srv.BaseContext(nil)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			ask := func(from string, known bool) {
				conn := &fakeConn{addr: from}
				bounds.state(conn, http.StateNew)
				r := httptest.NewRequestWithContext(context.WithValue(ctx, connectionKey{}, net.Conn(conn)), http.MethodGet, "/", nil)
				r.RemoteAddr = from
				if known {
					r.SetBasicAuth("prometheus", "x")
				}
				wg.Go(func() { srv.Handler.ServeHTTP(httptest.NewRecorder(), r) })
			}
			for i := range 8 { // They have proved who they are, and stay.
				ask(fmt.Sprintf("10.1.0.%d:1", i), true)
				eventually(t, "a request that is let in", func() bool { return int(served.Load()) == i+1 })
			}
			for i := range 64 {
				ask(fmt.Sprintf(c.address, i+1), false)
			}
			eventually(t, "strangers", func() bool { return checking.Load() == c.checked })
			if c.checked < passwords { // Another address has a place of its own, unless strangers have all addresses.
				ask("10.2.0.1:1", true)
				eventually(t, "another client", func() bool { return served.Load() == 9 })
			}
			conn := &fakeConn{addr: "10.3.0.1:1"}
			bounds.state(conn, http.StateNew)
			bounds.prove(conn)
			r := httptest.NewRequestWithContext(context.WithValue(ctx, connectionKey{}, net.Conn(conn)), http.MethodGet, "/", nil)
			r.SetBasicAuth("prometheus", "x")
			before := served.Load()
			wg.Go(func() { srv.Handler.ServeHTTP(httptest.NewRecorder(), r) })
			eventually(t, "a connection that proved who it is", func() bool { return served.Load() == before+1 })
			close(ending)
			cancel()
			wg.Wait()
			if n := most.Load(); n > c.checked {
				t.Errorf("%d passwords were checked at a time", n)
			}
		})
	}
}
