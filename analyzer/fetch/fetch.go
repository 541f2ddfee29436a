// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package fetch makes HTTP clients that trust no answer: none is longer than a limit, all that are being read together
// stay within a budget, and none sends the client, with its password, to another address.
package fetch

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	promconfig "github.com/prometheus/common/config"
)

// Budget bounds the bytes of all answers that are being read, unpacked.
type Budget struct {
	most int64
	held atomic.Int64
}

// NewBudget makes a budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{most: bytes} }

// ErrTooLarge is an answer above its own limit, ErrBudget one above what is left for all.
var (
	ErrTooLarge = errors.New("the answer is too large")
	ErrBudget   = errors.New("the answers being read are too large together")
)

// Client makes a client as a configuration section of that name says, for answers of so many bytes.
func Client(cfg promconfig.HTTPClientConfig, section string, answer int64, budget *Budget, opts ...promconfig.HTTPClientOption) (*http.Client, error) {
	rt, err := promconfig.NewRoundTripperFromConfig(cfg, section, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s.http_config: %w", section, err)
	}
	return &http.Client{
		Transport: bounded{rt, answer, budget},
		// The answer that redirects is the answer: another address would be given the credentials of this one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

type bounded struct {
	http.RoundTripper
	answer int64
	budget *Budget
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, left: b.answer, budget: b.budget}
	return resp, nil
}

func (b bounded) CloseIdleConnections() {
	if rt, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		rt.CloseIdleConnections()
	}
}

// body counts what is read of an answer until it is closed.
type body struct {
	io.ReadCloser
	left   int64
	held   atomic.Int64
	budget *Budget
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// It may end exactly here.
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 && err != nil {
			return 0, err
		}
		return 0, ErrTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.held.Add(int64(n))
	if b.budget.held.Add(int64(n)) > b.budget.most {
		return n, ErrBudget
	}
	return n, err
}

func (b *body) Close() error {
	b.budget.held.Add(-b.held.Swap(0))
	return b.ReadCloser.Close()
}
