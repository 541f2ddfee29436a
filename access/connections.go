// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Reasons for which a connection is closed.
const (
	ClosedSilent  = "silent"  // No request of it got in for too long.
	ClosedCrowded = "crowded" // There were too many, in all or of its client.
)

// ClosedReasons lists them.
func ClosedReasons() []string { return []string{ClosedSilent, ClosedCrowded} }

// Connections bounds the connections of a server, in all and of one client. Each takes some ten kilobytes, whoever made it: a place among them is
// free for whoever reaches the server, but not for long. A request that got in, behind the server's authentication where it has one, proves
// a connection. When there are too many, those give way that have proved nothing, all such together counting as one client: addresses cost
// nothing. Where another client has more, those of it that rest do.
type Connections struct {
	// ByAnswer has an answer prove a connection, not a request: where there is no authentication, half a request proves nothing.
	ByAnswer bool

	most, perClient int
	silence         time.Duration
	closed          func(reason string)

	mu      sync.Mutex
	open    map[net.Conn]*connection
	clients map[string]int
}

// connection is what is known of one.
type connection struct {
	conn    net.Conn
	client  string
	since   time.Time
	proved  bool
	resting bool         // It waits for its next request.
	writing atomic.Int64 // Since when it waits for the client to read, nanoseconds of Unix time; 0: it does not.
	silent  *time.Timer
}

// NewConnections makes bounds on connections, and on how long one may prove nothing. It calls closed for each that is closed.
func NewConnections(most, perClient int, silence time.Duration, closed func(reason string)) *Connections {
	return &Connections{most: most, perClient: perClient, silence: silence, closed: closed, open: map[net.Conn]*connection{}, clients: map[string]int{}}
}

type connectionKey struct{}

// watched notes while an answer waits for its client to read.
type watched struct {
	http.ResponseWriter
	k *connection
}

func (w *watched) Write(b []byte) (int, error) {
	w.k.writing.Store(time.Now().UnixNano())
	defer w.k.writing.Store(0)
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Guard has the bounds hold for a server. Its handler must be set, and its authentication lie outside of that.
func (c *Connections) Guard(srv *http.Server) {
	next := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pass(r.Context())
		conn, ok := r.Context().Value(connectionKey{}).(net.Conn)
		if ok && !c.ByAnswer {
			c.prove(conn)
		}
		if k := c.get(conn); k != nil {
			w = &watched{w, k}
		}
		next.ServeHTTP(w, r)
		if ok && c.ByAnswer {
			c.prove(conn)
		}
	})
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, conn)
	}
	// Authentication is put around the handler when the server is started, and this around that.
	gate := newGate()
	srv.BaseContext = func(net.Listener) context.Context {
		srv.Handler = gate.before(c, srv.Handler)
		return context.Background()
	}
	srv.ConnState = c.state
	srv.RegisterOnShutdown(c.end)
}

// end closes what has proved nothing, for which the server would wait.
func (c *Connections) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.open {
		if !k.proved {
			c.shut(k, ClosedSilent)
		}
	}
}

// state is told by the server what becomes of a connection.
func (c *Connections) state(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.add(conn)
	case http.StateActive, http.StateIdle:
		c.mu.Lock()
		defer c.mu.Unlock()
		if k := c.open[conn]; k != nil {
			k.resting, k.since = state == http.StateIdle, time.Now()
		}
	case http.StateClosed, http.StateHijacked:
		c.mu.Lock()
		defer c.mu.Unlock()
		if k := c.open[conn]; k != nil {
			c.remove(k)
		}
	}
}

func (c *Connections) add(conn net.Conn) {
	k := &connection{conn: conn, client: clientAt(conn.RemoteAddr().String()), since: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = k
	c.clients[k.client]++
	k.silent = time.AfterFunc(c.silence, func() { c.expire(k) })
	if c.clients[k.client] > c.perClient {
		c.shut(c.victim(k, k.client, c.perClient), ClosedCrowded)
	} else if len(c.open) > c.most {
		c.shut(c.victim(k, c.crowd(), c.most), ClosedCrowded)
	}
}

// prove notes that a request got in.
func (c *Connections) prove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.open[conn]; k != nil && !k.proved {
		k.proved = true
		k.silent.Stop()
	}
}

func (c *Connections) get(conn net.Conn) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[conn]
}

func (c *Connections) hasProved(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.open[conn]
	return k != nil && k.proved
}

func (c *Connections) expire(k *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[k.conn] == k && !k.proved {
		c.shut(k, ClosedSilent)
	}
}

// crowd is the client that gives way: of those who have proved nothing the one with most, unless another one has proved more than all these
// have.
func (c *Connections) crowd() string {
	proved, unproved, all := map[string]int{}, map[string]int{}, 0
	for _, k := range c.open {
		if k.proved {
			proved[k.client]++
		} else {
			unproved[k.client]++
			all++
		}
	}
	if client, n := largest(proved); n > all {
		return client
	}
	client, n := largest(unproved)
	if n == 1 {
		return "" // They are alike: the oldest of all.
	}
	return client
}

// largest is the client with most connections.
func largest(clients map[string]int) (out string, most int) {
	for client, n := range clients {
		if n > most || n == most && client < out {
			out, most = client, n
		}
	}
	return out, most
}

// newcomers is the share of places that connections have before they prove something: so many give way to nobody's that rest. Else one
// request from each of many addresses would hold all places, as whoever comes later has had no time to send one.
const newcomers = 4

// unreadFor is how long a client that reads may keep an answer waiting where places are short: its window opens after a round trip.
const unreadFor = time.Second

// victim chooses who gives way for a newcomer, of so many places: of the client's, or of anybody's, the oldest that proved nothing where these
// have more than their share, else what rests longest, else what has waited longest for its client to read. Of the others at work none does:
// then it is the newcomer.
func (c *Connections) victim(newcomer *connection, client string, places int) *connection {
	var unproved, resting, unread *connection
	n, stuck := 0, time.Now().Add(-unreadFor).UnixNano()
	older := func(k, than *connection) bool { return than == nil || k.since.Before(than.since) }
	for _, k := range c.open {
		switch {
		case k == newcomer || client != "" && k.client != client:
		case !k.proved:
			if n++; older(k, unproved) {
				unproved = k
			}
		case k.resting:
			if older(k, resting) {
				resting = k
			}
		default:
			if since := k.writing.Load(); since != 0 && since < stuck {
				unread, stuck = k, since
			}
		}
	}
	switch {
	case unproved != nil && (n > places/newcomers || resting == nil):
		return unproved
	case resting != nil:
		return resting
	case unread != nil:
		return unread
	}
	return newcomer
}

// shut closes a connection at once: nothing is said to the other side, which may not read.
func (c *Connections) shut(k *connection, reason string) {
	c.remove(k)
	if c.closed != nil {
		c.closed(reason)
	}
	conn := k.conn
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	_ = conn.Close() // The server finds it closed.
}

func (c *Connections) remove(k *connection) {
	k.silent.Stop()
	delete(c.open, k.conn)
	if c.clients[k.client]--; c.clients[k.client] == 0 {
		delete(c.clients, k.client)
	}
}
