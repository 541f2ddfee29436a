// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Pool bounds the answers of one kind that are made at a time, in all and for one client. Kinds do not share: whoever reads
// history slowly does not keep the present from an analysis.
type Pool struct {
	places, perClient int
	timeout           time.Duration // Of one answer: a client that does not read must not keep the place. 0: it ends by itself.
	refused           func()

	mu        sync.Mutex
	held      int
	strangers int // Places of those who are no readers.
	clients   map[string]int
	readers   map[string]time.Time // Who has read its last answer to the end, and when.
	left      chan struct{}        // Closed when somebody leaves; nil: nobody waits.
}

// NewPool makes a pool of so many places. It calls refused, if not nil, for each request that has to go without.
func NewPool(places, perClient int, timeout time.Duration, refused func()) *Pool {
	return &Pool{places: places, perClient: perClient, timeout: timeout, refused: refused, clients: map[string]int{}, readers: map[string]time.Time{}}
}

// One place of so many is kept for readers. Else those who ask from many addresses and never read would hold all for as long as an answer may
// take, and a scrape would find none.
const keptForReaders = 4

// maxReaders bounds how many clients are known as readers. Whoever read longest ago is forgotten.
const maxReaders = 1 << 10

// stranger tells whether a client is no reader.
func (p *Pool) stranger(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, reads := p.readers[client]
	return !reads
}

// enter takes a place for a client; false: there is none, or it has its share.
func (p *Pool) enter(client string, stranger bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held >= p.places || p.clients[client] >= p.perClient || stranger && p.strangers >= p.places-p.places/keptForReaders {
		return false
	}
	p.held++
	p.clients[client]++
	if stranger {
		p.strangers++
	}
	return true
}

// note remembers whether a client has read an answer to the end.
func (p *Pool) note(client string, read bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !read {
		delete(p.readers, client)
		return
	}
	p.readers[client] = time.Now()
	if len(p.readers) > maxReaders {
		first := client
		for c, at := range p.readers {
			if at.Before(p.readers[first]) {
				first = c
			}
		}
		delete(p.readers, first)
	}
}

func (p *Pool) leave(client string, stranger bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stranger {
		p.strangers--
	}
	if p.left != nil {
		close(p.left)
		p.left = nil
	}
	p.held--
	if p.clients[client]--; p.clients[client] == 0 {
		delete(p.clients, client)
	}
}

// Limit answers 503 when too many answers of the pool are being made.
func (p *Pool) Limit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := peer(r)
		stranger := p.stranger(from)
		if !p.enter(from, stranger) {
			if p.refused != nil {
				p.refused()
			}
			refuse(w)
			return
		}
		defer p.leave(from, stranger)
		var deadline time.Time
		if p.timeout > 0 {
			deadline = time.Now().Add(p.timeout)
		}
		// Writers that cannot be bounded are a test's.
		_ = http.NewResponseController(w).SetWriteDeadline(deadline)
		out := &answer{ResponseWriter: w}
		h.ServeHTTP(out, r)
		p.note(from, !out.unread)
	})
}

// answer notes whether it could be written.
type answer struct {
	http.ResponseWriter
	unread bool
}

func (a *answer) Write(b []byte) (int, error) {
	n, err := a.ResponseWriter.Write(b)
	a.unread = a.unread || err != nil
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
}

// Wait has requests wait for a place, for as long as their clients do.
func (p *Pool) Wait(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := peer(r)
		if !p.await(r.Context(), from) {
			return
		}
		defer p.leave(from, false)
		h.ServeHTTP(w, r)
	})
}

// await takes a place for a client when there is one; false: the client has gone before.
func (p *Pool) await(ctx context.Context, client string) bool {
	for {
		// Before the look: who leaves after it closes this one.
		left := p.someoneLeaves()
		if p.enter(client, false) {
			return true
		}
		select {
		case <-left:
		case <-ctx.Done():
			return false
		}
	}
}

// someoneLeaves gives a channel that is closed when the next place becomes free.
func (p *Pool) someoneLeaves() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == nil {
		p.left = make(chan struct{})
	}
	return p.left
}

// thisHost is the client that all programs of this host are.
const thisHost = "this host"

// peer is the client that a request comes from.
func peer(r *http.Request) string { return clientAt(r.RemoteAddr) }

// clientAt is an address without its port. Any program of this host can connect from each of the host's addresses, of which 127.0.0.0/8
// alone has millions: together they are one client. So is a network of IPv6 with its 2^64 addresses: whoever has one has all.
func clientAt(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	zoneless, _, _ := strings.Cut(host, "%")
	switch ip := net.ParseIP(zoneless); {
	case ip == nil:
		return host
	case ip.IsLoopback() || own.has(ip):
		return thisHost
	case ip.To4() == nil:
		return ip.Mask(net.CIDRMask(64, 128)).String() + "/64"
	default:
		return ip.String() // Also of one that is written as an address of IPv6.
	}
}

// own are the addresses of this host.
var own addresses

// addressesPeriod is how long the host's addresses are remembered: listing them asks the kernel.
const addressesPeriod = 10 * time.Second

type addresses struct {
	mu     sync.Mutex
	listed time.Time
	known  map[string]bool
}

func (a *addresses) has(ip net.IP) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || time.Since(a.listed) >= addressesPeriod {
		a.listed, a.known = time.Now(), map[string]bool{}
		list, _ := net.InterfaceAddrs() // Where they are not told, each counts as a client of its own.
		for _, address := range list {
			if network, ok := address.(*net.IPNet); ok {
				a.known[network.IP.String()] = true
			}
		}
	}
	return a.known[ip.String()]
}
