// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/exporter-toolkit/web"

	"github.com/culprit-project/culprit/exporter/api"
	"github.com/culprit-project/culprit/internal/ports"
)

// TestIdleConnections has a stranger make more connections than a client may have, and send nothing. They are closed, and a scrape is answered.
func TestIdleConnections(t *testing.T) {
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	no, file := false, ""
	flags := &web.FlagConfig{WebListenAddresses: &free, WebSystemdSocket: &no, WebConfigFile: &file}
	log := slog.New(slog.DiscardHandler)
	a := api.New(log, "", nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	go func() { ended <- listen(ctx, log, flags, handler, a.Guard) }()
	get := func() error {
		resp, err := http.Get("http://" + free[0])
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		return err
	}
	for deadline := time.Now().Add(time.Minute); get() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(get())
		}
	}
	var closed sync.WaitGroup
	const most, more = 128, 20
	gone := make(chan struct{}, most+more)
	for range most + more {
		conn, err := net.Dial("tcp", free[0])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		closed.Go(func() {
			_, _ = conn.Read(make([]byte, 1))
			gone <- struct{}{}
		})
	}
	for range more {
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Fatal("they stay open")
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := get(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	closed.Wait()
}
