// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

const report = `{
  "nccl_version": "2.29.1",
  "communicators": [{
    "hash": "0xae94423cfbb2ef4a", "size": 3, "ranks_count": 2, "missing_ranks_count": 1,
    "ranks": [
      {"rank": 0, "host": "10.0.0.1", "pid": 1, "cuda_dev": 0, "nvml_dev": 0,
       "status": {"init_state": 0, "async_error": 5, "abort_flag": true}, "collective_counts": {"AllReduce": 9, "Broadcast": 2}},
      {"rank": 1, "host": "10.0.0.1", "pid": 2, "cuda_dev": 1, "nvml_dev": 1,
       "status": {"init_state": 0, "async_error": 0}, "collective_counts": {"AllReduce": 5, "Broadcast": 2}}
    ],
    "missing_ranks": [
      {"rank": 2, "host": "10.0.0.2", "pid": 3, "cuda_dev": 0, "nvml_dev": 0COMMA
       "status": {"unresponsive": true, "considered_dead": false}}
    ]
  }],
  "ras": {"collection_time_sec": 0.25, "timeouts_count": 1}
}`

// server answers one client by a table of commands.
func server(t *testing.T, replies map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			reply, ok := replies[lines.Text()]
			if !ok {
				return
			}
			if _, err := conn.Write([]byte(reply)); err != nil || lines.Text() == "VERBOSE STATUS" {
				return
			}
		}
	}()
	return l.Addr().String()
}

func handshake(format, status string) map[string]string {
	return map[string]string{
		"CLIENT PROTOCOL 2": "SERVER PROTOCOL 2\n", "TIMEOUT 5": "OK\n", "SET FORMAT json": format, "VERBOSE STATUS": status,
	}
}

func TestQuery(t *testing.T) {
	for name, comma := range map[string]string{"valid": ",", "2.28.9": ""} {
		t.Run(name, func(t *testing.T) {
			r, err := Query(t.Context(), server(t, handshake("OK\n", strings.Replace(report, "COMMA", comma, 1))))
			if err != nil {
				t.Fatal(err)
			}
			c := r.Communicators[0]
			if c.Hash != "0xae94423cfbb2ef4a" || len(c.Ranks) != 2 || !c.Ranks[0].Status.Abort || c.Ranks[0].Status.AsyncError != 5 {
				t.Errorf("communicator %+v", c)
			}
			if len(c.Missing) != 1 || c.Missing[0].Rank != 2 || !c.Missing[0].Status.Unresponsive {
				t.Errorf("missing %+v", c.Missing)
			}
			if c.Lag() != 4 || r.RAS.CollectionSeconds != 0.25 || r.RAS.Timeouts != 1 {
				t.Errorf("lag %d, %+v", c.Lag(), r.RAS)
			}
		})
	}
}

func TestQueryFails(t *testing.T) {
	if _, err := Query(t.Context(), server(t, handshake("ERROR: unknown command\n", ""))); !errors.Is(err, ErrFormat) {
		t.Errorf("old server: %v", err)
	}
	for name, replies := range map[string]map[string]string{
		"nothing":       {},
		"not RAS":       {"CLIENT PROTOCOL 2": "HTTP/1.1 400 Bad Request\n"},
		"endless line":  {"CLIENT PROTOCOL 2": strings.Repeat("x", 1<<16)},
		"broken report": handshake("OK\n", "{"),
	} {
		if _, err := Query(t.Context(), server(t, replies)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestQueryEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // Accepts in the backlog and says nothing.
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := Query(ctx, l.Addr().String())
		done <- err
	}()
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(time.Minute):
		t.Fatal("Query goes on")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(report))
	f.Add([]byte(`{"communicators":[{"ranks":[{"collective_counts":null}]}]}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if r, err := Parse(b); err == nil {
			for i := range r.Communicators {
				r.Communicators[i].Lag()
			}
		}
	})
}
