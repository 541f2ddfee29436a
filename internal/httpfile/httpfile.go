// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpfile makes HTTP clients from files in the form of Prometheus's http_config.
package httpfile

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/prometheus/common/config"
)

// NewClient makes a client that asks with the credentials, certificates and headers of a file; an empty name means with none. Errors name
// the flag that named the file.
func NewClient(flag, file, agent string, timeout time.Duration) (*http.Client, error) {
	if file == "" {
		return &http.Client{Timeout: timeout}, nil
	}
	cfg, _, err := config.LoadHTTPConfigFile(file)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("%s=%s: %w", flag, file, err)
	}
	c, err := config.NewClientFromConfig(*cfg, agent)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", flag, file, err)
	}
	c.Timeout = timeout
	return c, nil
}
