// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package calm bounds what a log takes. Files of users, claims of processes and connections of strangers each cause a line, and whoever makes
// a thousand a second would fill the disk of the log, or push out of it what happened before.
package calm

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	// most is how many lines of one place in the code are written in a period: as many as somebody reads, and one of each rank of a large node.
	most   = 200
	period = time.Minute
)

// Handler hands on the first lines of each place in the code, and counts the others. Lines for debugging are not bounded.
type Handler struct {
	next   slog.Handler
	counts *counts // Of all handlers made from one.
}

type counts struct {
	mu      sync.Mutex
	byPlace map[uintptr]*count
}

type count struct {
	since          time.Time
	lines, leftOut int
}

// New bounds the lines of a logger.
func New(l *slog.Logger) *slog.Logger {
	return slog.New(&Handler{l.Handler(), &counts{byPlace: map[uintptr]*count{}}})
}

// ForServer has a server write to the log, as it does for each connection that breaks off.
func ForServer(s *http.Server, l *slog.Logger) {
	s.ErrorLog = slog.NewLogLogger(l.Handler(), slog.LevelInfo)
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.counts}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.counts}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		write, leftOut := h.counts.add(r.PC, r.Time)
		if !write {
			return nil
		}
		if leftOut > 0 {
			r = r.Clone()
			r.Add("like_it_left_out", leftOut)
		}
	}
	return h.next.Handle(ctx, r)
}

// add counts a line. It says whether to write it, and how many before it were left out.
func (c *counts) add(place uintptr, at time.Time) (write bool, leftOut int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.byPlace[place]
	if n == nil {
		n = &count{since: at}
		c.byPlace[place] = n
	}
	if at.Sub(n.since) >= period {
		leftOut = n.leftOut
		*n = count{since: at}
	}
	if n.lines++; n.lines <= most {
		return true, leftOut
	}
	n.leftOut++
	return false, 0
}
