// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/internal/ports"
)

// A body hides a request: where a proxy before the analyzer and the analyzer differ about where the body ends, the hidden one passes the
// proxy's checks. The analyzer answers the first request alone, or refuses it, and reads nothing behind what it refused.
func TestHiddenRequests(t *testing.T) {
	c, am := newCluster(t, 1), newAlertmanager(t)
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	run := command(t, "--web.listen-address="+free[0], "--prometheus.url="+c.prometheus.URL, "--alertmanager.url="+am.server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "to be ready", func() bool {
		resp, err := http.Get("http://" + free[0] + "/-/ready")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	const hidden = "GET /-/healthy HTTP/1.1\r\nHost: culprit\r\n\r\n"
	const post = "POST /api/v1/alerts HTTP/1.1\r\nHost: culprit\r\nContent-Type: application/json\r\n"
	const form = "POST /api/v1/alerts HTTP/1.1\r\nHost: culprit\r\nContent-Type: text/plain\r\n"
	chunked := post + "Transfer-Encoding: chunked\r\n"
	const empty = `{"version":"4"}`
	for _, tc := range []struct {
		name, sent string
		want       []string // The statuses of all answers.
	}{
		{"two requests", "HEAD /-/ready HTTP/1.1\r\nHost: culprit\r\n\r\n" + hidden, []string{"200", "200"}},
		{"a body as long as it says", fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", form, len(hidden), hidden), []string{"415"}},
		{"a body of a request that has none", fmt.Sprintf("GET /-/ready HTTP/1.1\r\nHost: culprit\r\nContent-Length: %d\r\n\r\n%s", len(hidden), hidden), []string{"200"}},
		{"length and chunks", fmt.Sprintf("%sContent-Length: %d\r\n\r\n0\r\n\r\n%s", chunked, 5+len(hidden), hidden), []string{"400"}},
		{"a chunk's size with a sign", chunked + "\r\n+5\r\n" + hidden, []string{"400"}},
		{"a size of another base", chunked + "\r\n0x5\r\n" + hidden, []string{"400"}},
		{"a size beyond all numbers", chunked + "\r\nfffffffffffffffff\r\n" + hidden, []string{"400"}},
		{"a chunk that is longer than its size", chunked + fmt.Sprintf("\r\n%x\r\n%sx\r\n0\r\n\r\n%s", len(empty), empty, hidden), []string{"400"}},
		{"a chunk without an end of line", chunked + fmt.Sprintf("\r\n%x\n%s\n0\n\n%s", len(empty), empty, hidden), []string{"400"}},
		{"a header behind the chunks", chunked + fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\nContent-Length: 5\r\n\r\n%s", len(empty), empty, hidden), []string{"200"}},
		{"a header on two lines", post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + hidden, []string{"400"}},
		{"a space before the colon", post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, []string{"400"}},
		{"chunks in HTTP/1.0", strings.Replace(chunked, "HTTP/1.1", "HTTP/1.0", 1) + "\r\n0\r\n\r\n" + hidden, []string{"400"}},
		{"two hosts", "GET /-/ready HTTP/1.1\r\nHost: culprit\r\nHost: evil\r\n\r\n" + hidden, []string{"400"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", free[0])
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, tc.sent); err != nil {
				t.Fatal(err)
			}
			// A last request that the analyzer would answer, too, had it kept its place in the stream; then nothing more is sent.
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			var got []string
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				if status, ok := strings.CutPrefix(lines.Text(), "HTTP/1.1 "); ok {
					got = append(got, status[:3])
				} else if status, ok := strings.CutPrefix(lines.Text(), "HTTP/1.0 "); ok {
					got = append(got, status[:3])
				}
			}
			if strings.Join(got, " ") != strings.Join(tc.want, " ") {
				t.Errorf("answers %q, want %q", got, tc.want)
			}
		})
	}
}
