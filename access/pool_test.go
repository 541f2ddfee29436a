// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Clients that do not read hold places. Another client has the rest, and another kind of answer its own.
func TestSlowReadersStopNobodyElse(t *testing.T) {
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan int)
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { held <- struct{}{}; <-free })
	quick := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	ask := func(p *Pool, h http.Handler, from string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		p.Limit(h).ServeHTTP(w, r)
		return w.Code
	}
	refused := 0
	count := func() { refused++ }
	past, present := NewPool(4, 2, time.Minute, count), NewPool(8, 4, time.Minute, count)
	begin := func(p *Pool, from string) {
		go func() { done <- ask(p, slow, from) }()
		<-held
	}
	past.note("10.0.0.2", true) // It may have the last place.
	for range 2 {
		begin(past, "10.0.0.1:1")
		begin(past, "10.0.0.2:1")
	}
	// One program on this host, with two of its addresses.
	own.has(net.ParseIP("192.0.2.1"))
	own.known["192.0.2.9"] = true
	begin(present, "127.0.0.1:2")
	begin(present, "[::1]:2")
	begin(present, "192.0.2.9:2")
	begin(present, "127.9.9.9:2")
	for _, tc := range []struct {
		name string
		pool *Pool
		from string
		want int
	}{
		{"history, when all places are taken", past, "10.0.0.3:1", http.StatusServiceUnavailable},
		{"the state, for the client that has its share", present, "127.0.0.3:3", http.StatusServiceUnavailable},
		{"the state, for it from another of its addresses", present, "192.0.2.9:3", http.StatusServiceUnavailable},
		{"the state, for another client", present, "10.0.0.3:2", http.StatusOK},
	} {
		if got := ask(tc.pool, quick, tc.from); got != tc.want {
			t.Errorf("%s: status %d, want %d", tc.name, got, tc.want)
		}
	}
	if refused != 3 {
		t.Errorf("%d refusals counted, want 3", refused)
	}
	close(free)
	for range 8 {
		<-done
	}
	for name, p := range map[string]*Pool{"past": past, "present": present} {
		if p.held != 0 || len(p.clients) != 0 {
			t.Errorf("pool %s: %d places are held, clients %v", name, p.held, p.clients)
		}
	}
}

// Clients with very many addresses ask and never read. Whoever read its last answer finds a place, as often as it comes.
func TestReadersFindPlaces(t *testing.T) {
	large := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Flood") != "" {
			<-r.Context().Done() // It waits for its client to read, until the answer's time is over.
			_, _ = w.Write([]byte("x"))
			return
		}
		_, _ = w.Write([]byte("metrics"))
	})
	p := NewPool(8, 4, 0, nil)
	h := p.Limit(large)
	flooded, end := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	ask := func(ctx context.Context, from string, w http.ResponseWriter) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
		r.RemoteAddr = from
		if ctx == flooded {
			r.Header.Set("Flood", "1")
		}
		h.ServeHTTP(w, r)
	}
	scrape := func() int {
		w := httptest.NewRecorder()
		ask(t.Context(), "10.0.0.1:1", w)
		return w.Code
	}
	flood := func(addresses int) {
		for i := range addresses {
			crowd.Go(func() {
				ask(flooded, fmt.Sprintf("203.0.%d.%d:1", i/100, i%100), unwritable{httptest.NewRecorder()})
			})
		}
	}
	held := func() int { p.mu.Lock(); defer p.mu.Unlock(); return p.held }
	if code := scrape(); code != http.StatusOK {
		t.Fatalf("a scrape before: status %d", code)
	}
	flood(300)
	for held() < 6 {
		runtime.Gosched()
	}
	for range 3 {
		if code := scrape(); code != http.StatusOK {
			t.Errorf("a scrape among clients that do not read: status %d", code)
		}
	}
	if n := held(); n != 6 {
		t.Errorf("strangers hold %d places, want 6", n)
	}
	end()
	crowd.Wait()
	if p.strangers != 0 || p.held != 0 || len(p.readers) != 1 {
		t.Errorf("%d places of strangers, %d in all, and %d readers are left", p.strangers, p.held, len(p.readers))
	}
	for i := range 2 * maxReaders {
		p.note(strconv.Itoa(i), true)
	}
	if len(p.readers) != maxReaders {
		t.Errorf("%d readers are known", len(p.readers))
	}
}

// unwritable is an answer that nobody reads.
type unwritable struct{ http.ResponseWriter }

func (unwritable) Write([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// A client that does not read loses its place when the time of an answer is over.
func TestSlowReaderLosesItsPlace(t *testing.T) {
	ended := make(chan struct{})
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<16); ; {
			if _, err := w.Write(block); err != nil {
				close(ended)
				return
			}
		}
	})
	s := httptest.NewServer(NewPool(1, 1, 50*time.Millisecond, nil).Limit(endless))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the answer goes on")
	}
}
