// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package calm

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHandler has one place in the code write many lines: it keeps no other place from writing, and what was left out is counted in its next line.
func TestHandler(t *testing.T) {
	var out bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	at := time.Unix(1_800_000_000, 0)
	var place, other [1]uintptr
	runtime.Callers(1, place[:])
	runtime.Callers(1, other[:])
	write := func(level slog.Level, pc uintptr, text string) {
		if err := l.With("a", 1).Handler().Handle(context.Background(), slog.NewRecord(at, level, text, pc)); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 * most {
		write(slog.LevelWarn, place[0], "flood")
		write(slog.LevelDebug, place[0], "debug")
	}
	write(slog.LevelWarn, other[0], "another")
	if n := strings.Count(out.String(), "msg=flood"); n != most {
		t.Errorf("%d lines of a flood", n)
	}
	if strings.Count(out.String(), "msg=debug") != 10*most || strings.Count(out.String(), "msg=another") != 1 {
		t.Error("other lines are missing")
	}
	out.Reset()
	at = at.Add(period)
	write(slog.LevelWarn, place[0], "flood")
	write(slog.LevelWarn, place[0], "flood")
	if n := strings.Count(out.String(), "like_it_left_out=1800"); n != 1 {
		t.Errorf("%d lines say how many were left out:\n%s", n, out.String())
	}
}

// TestForServer: connections that break off are lines of one place.
func TestForServer(t *testing.T) {
	var out bytes.Buffer
	var s http.Server
	ForServer(&s, New(slog.New(slog.NewTextHandler(&out, nil))))
	for range 3 * most {
		s.ErrorLog.Print("http: TLS handshake error from 192.0.2.1")
	}
	if n := strings.Count(out.String(), "\n"); n != most {
		t.Errorf("%d lines", n)
	}
}
