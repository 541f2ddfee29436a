// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// To check a password takes a tenth of a second of a processor, on purpose, and exporter-toolkit checks one at a time: whoever sends wrong ones
// side by side keeps all others waiting, those too whose connections have proved who they are, as soon as their own password is no longer
// remembered.
const (
	// passwords and passwordsPerClient bound how many requests are checked at a time on connections that have proved nothing.
	passwords, passwordsPerClient = 2, 1
	// waiting and waitingPerClient bound how many wait for that; others are refused.
	waiting, waitingPerClient = 128, 32
)

// gate stands before a server's authentication.
type gate struct{ waiting, checked *Pool }

func newGate() gate {
	return gate{NewPool(waiting, waitingPerClient, 0, nil), NewPool(passwords, passwordsPerClient, 0, nil)}
}

type passedKey struct{}

// before has requests on connections that have proved nothing come to authentication by turns.
func (g gate) before(c *Connections, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connectionKey{}).(net.Conn); !ok || c.hasProved(conn) {
			next.ServeHTTP(w, r)
			return
		}
		from := peer(r)
		if !g.waiting.enter(from, false) {
			refuse(w)
			return
		}
		if !g.checked.await(r.Context(), from) {
			g.waiting.leave(from, false)
			return
		}
		passed := sync.OnceFunc(func() { g.checked.leave(from, false); g.waiting.leave(from, false) })
		defer passed()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passedKey{}, passed)))
	})
}

// pass makes room for the next: this request is behind authentication.
func pass(ctx context.Context) {
	if passed, ok := ctx.Value(passedKey{}).(func()); ok {
		passed()
	}
}
