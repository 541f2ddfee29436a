// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// bounded is a server with bounds, whose users need a password.
type bounded struct {
	t      *testing.T
	server *httptest.Server
	bounds *Connections
	mu     sync.Mutex
	closed map[string]int
	states map[http.ConnState]int // How often a connection came to each, as the server tells.
}

func newBounded(t *testing.T, most, perClient int, silence time.Duration, start func(*httptest.Server)) *bounded {
	t.Helper()
	b := &bounded{t: t, closed: map[string]int{}, states: map[http.ConnState]int{}}
	b.bounds = NewConnections(most, perClient, silence, func(reason string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.closed[reason]++
	})
	b.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") }))
	b.bounds.Guard(b.server.Config)
	// As exporter-toolkit does it: outside of what is guarded.
	inner := b.server.Config.Handler
	b.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := r.BasicAuth(); user != "prometheus" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
	ours := b.server.Config.ConnState
	b.server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		b.mu.Lock()
		b.states[state]++
		b.mu.Unlock()
		ours(conn, state)
	}
	start(b.server)
	t.Cleanup(b.server.Close)
	return b
}

func (b *bounded) count(reason string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed[reason]
}

// made and open count connections.
func (b *bounded) made() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states[http.StateNew]
}

func (b *bounded) open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states[http.StateNew] - b.states[http.StateClosed]
}

func (b *bounded) dial() net.Conn {
	b.t.Helper()
	conn, err := new(net.Dialer).DialContext(b.t.Context(), "tcp", b.server.Listener.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn
}

// ask gets an answer as Prometheus does, over a connection that stays open.
func (b *bounded) ask(client *http.Client) error {
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.server.URL, nil)
	if err != nil {
		return err
	}
	r.SetBasicAuth("prometheus", "x")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "fine" {
		return fmt.Errorf("%q, %w", text, err)
	}
	return nil
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// ended waits until the other side has closed a connection.
func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it stays open")
	}
}

// TestIdleConnections has very many connections that say nothing, or the beginning of a request, or that were refused. They hold no more than
// their client's share, and another one is served, with and without TLS.
func TestIdleConnections(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){
		"plain": (*httptest.Server).Start,
		"TLS":   (*httptest.Server).StartTLS,
		"HTTP/2": func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.StartTLS()
		},
	} {
		for what, say := range map[string]string{
			"silent": "", "a beginning": "GET / HTTP/1.1\r\nHost: x\r\n", "refused": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "no HTTP": "\x16\x03\x01\x02",
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				b := newBounded(t, 16, 8, time.Hour, start)
				client := b.server.Client()
				if err := b.ask(client); err != nil {
					t.Fatal(err)
				}
				for range 50 {
					_, _ = io.WriteString(b.dial(), say) // It may be closed already.
				}
				eventually(t, "they stay open", func() bool { return b.made() == 51 && b.open() <= 8 })
				// The same connection still serves, and a new one is taken.
				for range 3 {
					if err := b.ask(client); err != nil {
						t.Error(err)
					}
					client.CloseIdleConnections()
				}
			})
		}
	}
}

// TestSilentConnections has connections closed that prove nothing in time, whatever they send.
func TestSilentConnections(t *testing.T) {
	b := newBounded(t, 100, 100, 50*time.Millisecond, (*httptest.Server).Start)
	client := b.server.Client()
	if err := b.ask(client); err != nil {
		t.Fatal(err)
	}
	slow := b.dial()
	for _, say := range []string{"", "GET / HTTP/1.1\r\nX: ", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		conn := b.dial()
		if _, err := io.WriteString(conn, say); err != nil {
			t.Fatal(err)
		}
		ended(t, conn)
	}
	ended(t, slow)
	if n := b.count(ClosedSilent); n != 4 {
		t.Errorf("%d closed", n)
	}
	// One that got in rests as long as it likes.
	eventually(t, "they stay open", func() bool { return b.open() == 1 })
	if err := b.ask(client); err != nil {
		t.Error(err)
	}
}

// TestCrowdGivesWay has connections of several addresses: the client with most gives way, those first that have proved nothing, and none that is
// at work.
func TestCrowdGivesWay(t *testing.T) {
	c := NewConnections(6, 4, time.Hour, nil)
	conns := map[string]*fakeConn{}
	add := func(name, addr string) {
		conns[name] = &fakeConn{addr: addr}
		c.state(conns[name], http.StateNew)
	}
	want := func(open string) {
		t.Helper()
		for name, conn := range conns {
			if conn.closed == strings.Contains(open, name) {
				t.Errorf("%s is closed: %v, want %q open", name, conn.closed, open)
			}
		}
	}
	own.has(net.ParseIP("10.0.0.1"))
	add("a", "10.0.0.1:1")
	c.prove(conns["a"])
	c.state(conns["a"], http.StateIdle)
	add("b", "10.0.0.1:2")
	c.prove(conns["b"])
	c.state(conns["b"], http.StateActive)
	add("c", "10.0.0.1:3")
	add("d", "10.0.0.1:4")
	want("abcd")
	add("e", "10.0.0.1:5") // c, the oldest that proved nothing.
	want("abde")
	add("f", "10.0.0.2:1")
	add("g", "10.0.0.3:1")
	want("abdefg")
	add("h", "10.0.0.4:1") // There are six: the first client gives way.
	want("abefgh")
	c.prove(conns["e"])
	c.state(conns["e"], http.StateActive)
	add("i", "10.0.0.1:6")
	want("abeghi") // f is the oldest that proved nothing, now that each client has one such.
}

// TestCrowdOfAddresses has somebody with very many addresses, of which each makes one connection. One address of IPv6 is a whole network's, and
// connections that proved something do not give way to those that prove nothing, whoever has most.
func TestCrowdOfAddresses(t *testing.T) {
	own.has(net.ParseIP("10.0.0.1"))
	for name, address := range map[string]string{"addresses": "203.0.%d.%d:1", "networks": "[2001:db8:%x:%x::1]:1", "one network": "[2001:db8::%x:%x]:1"} {
		t.Run(name, func(t *testing.T) {
			c := NewConnections(64, 16, time.Hour, nil)
			var friends []*fakeConn
			for i := range 3 {
				friends = append(friends, &fakeConn{addr: fmt.Sprintf("10.0.0.2:%d", i)})
				c.state(friends[i], http.StateNew)
				c.prove(friends[i])
				c.state(friends[i], http.StateIdle)
			}
			crowd := 0
			for i := range 200 {
				strangers := &fakeConn{addr: fmt.Sprintf(address, i/100, i%100)}
				c.state(strangers, http.StateNew)
				if i == 150 {
					friends = append(friends, &fakeConn{addr: "10.0.0.1:1"}) // It has not had the time to say anything.
					c.state(friends[3], http.StateNew)
				}
				crowd = len(c.open)
				if i == 160 {
					c.prove(friends[3])
				}
			}
			for i, k := range friends {
				if k.closed {
					t.Errorf("connection %d of others is closed", i)
				}
			}
			if limit := map[string]int{"one network": 16 + 4}[name]; limit > 0 && crowd > limit || crowd > 64 {
				t.Errorf("%d connections are open", crowd)
			}
		})
	}
}

// TestCrowdThatAsks has somebody with very many addresses, of which each sends one request and then rests. Who comes later gets the time to send
// one, too, from an address of his own or from one of theirs.
func TestCrowdThatAsks(t *testing.T) {
	own.has(net.ParseIP("10.0.0.1"))
	for name, address := range map[string]string{"many addresses": "203.0.%d.%d:1", "one address": "10.0.0.2:%d%02d"} {
		t.Run(name, func(t *testing.T) {
			c := NewConnections(64, 32, time.Hour, nil)
			crowd := func(from, to int) {
				for i := from; i < to; i++ {
					k := &fakeConn{addr: fmt.Sprintf(address, i/100, i%100)}
					c.state(k, http.StateNew)
					c.prove(k)
					c.state(k, http.StateIdle)
				}
			}
			crowd(0, 100)
			late := &fakeConn{addr: "10.0.0.2:1"}
			c.state(late, http.StateNew)
			crowd(100, 400)
			if late.closed {
				t.Error("a newcomer gave way to connections that rest")
			}
			if n := len(c.open); n > 64 {
				t.Errorf("%d connections are open", n)
			}
		})
	}
}

// TestUnreadAnswersGiveWay has connections that asked and do not read: a newcomer finds a place all the same, of one that has waited for its
// client for longest.
func TestUnreadAnswersGiveWay(t *testing.T) {
	c := NewConnections(8, 8, time.Hour, nil)
	own.has(net.ParseIP("10.0.0.1"))
	var crowd []*fakeConn
	for i := range 8 {
		k := &fakeConn{addr: fmt.Sprintf("203.0.113.%d:1", i)}
		c.state(k, http.StateNew)
		c.prove(k)
		c.state(k, http.StateActive)
		if i != 3 { // It is answered.
			c.get(k).writing.Store(time.Now().Add(-time.Duration(2+i) * unreadFor).UnixNano())
		}
		crowd = append(crowd, k)
	}
	for i := range 2 {
		late := &fakeConn{addr: fmt.Sprintf("10.0.0.2:%d", i)}
		c.state(late, http.StateNew)
		c.prove(late)
		c.state(late, http.StateActive)
		if late.closed || !crowd[7-i].closed {
			t.Errorf("newcomer %d is closed: %v, the answer that waited longest: %v", i, late.closed, crowd[7-i].closed)
		}
	}
	if crowd[3].closed {
		t.Error("a connection that is answered gave way")
	}
}

// TestUnreadAnswersAreSeen has a real client that does not read.
func TestUnreadAnswersAreSeen(t *testing.T) {
	c := NewConnections(8, 8, time.Hour, nil)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<16); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})}
	c.Guard(srv)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	waits := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, k := range c.open {
			if since := k.writing.Load(); since != 0 && time.Now().UnixNano()-since > int64(unreadFor) {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(time.Minute); !waits(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("an answer that nobody reads is not seen to wait")
		}
	}
}

// fakeConn is a connection of which only the address counts.
type fakeConn struct {
	net.Conn
	addr   string
	closed bool
}

func (f *fakeConn) RemoteAddr() net.Addr { a, _ := net.ResolveTCPAddr("tcp", f.addr); return a }
func (f *fakeConn) Close() error         { f.closed = true; return nil }
