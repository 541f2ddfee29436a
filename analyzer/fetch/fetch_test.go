// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	promconfig "github.com/prometheus/common/config"

	"github.com/culprit-project/culprit/analyzer/fetch"
)

const limit = 1 << 20

func client(t *testing.T, budget *fetch.Budget) *http.Client {
	t.Helper()
	cfg := promconfig.DefaultHTTPClientConfig
	cfg.BasicAuth = &promconfig.BasicAuth{Username: "culprit", Password: "secret"}
	c, err := fetch.Client(cfg, "exporters", limit, budget)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, int, error) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	text, err := io.ReadAll(resp.Body)
	return resp, len(text), err
}

func TestAnswersEnd(t *testing.T) {
	endless := func(w io.Writer) {
		for block := make([]byte, 1<<16); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		bytes  int
		err    error
	}{
		{"a short one", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") }, 4, nil},
		{"one of exactly the limit", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", limit)) }, limit, nil},
		{"an endless one", func(w http.ResponseWriter, _ *http.Request) { endless(w) }, limit, fetch.ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := httptest.NewServer(tc.answer)
			defer s.Close()
			resp, bytes, err := get(t, client(t, fetch.NewBudget(2*limit)), s.URL)
			if bytes != tc.bytes || !errors.Is(err, tc.err) {
				t.Errorf("%d bytes, %v; want %d, %v", bytes, err, tc.bytes, tc.err)
			}
			resp.Body.Close()
		})
	}
}

// All answers being read share a budget; one that is closed gives its part back.
func TestBudget(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", limit)) }))
	defer s.Close()
	c := client(t, fetch.NewBudget(limit*3/2))
	first, _, err := get(t, c, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := get(t, c, s.URL)
	if !errors.Is(err, fetch.ErrBudget) {
		t.Errorf("the second beside the first: %v", err)
	}
	first.Body.Close()
	second.Body.Close()
	if _, _, err := get(t, c, s.URL); err != nil { //nolint:bodyclose // get closes it.
		t.Errorf("after both are closed: %v", err)
	}
}

// The password is for one address only.
func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer s.Close()
	resp, _, err := get(t, client(t, fetch.NewBudget(limit)), s.URL) //nolint:bodyclose // get closes it.
	if err != nil || resp.StatusCode != http.StatusFound || asked != 0 {
		t.Errorf("status %d, %v, and the other address was asked %d times", resp.StatusCode, err, asked)
	}
}
