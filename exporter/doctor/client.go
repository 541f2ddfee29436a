// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	httpconfig "github.com/prometheus/common/config"
)

// NewClient makes a client that asks with the credentials, certificates and headers of a file in the form of Prometheus's http_config; an
// empty name means with none.
func NewClient(file string) (*http.Client, error) {
	if file == "" {
		return &http.Client{Timeout: timeout}, nil
	}
	cfg, _, err := httpconfig.LoadHTTPConfigFile(file)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("--http.config.file=%s: %w", file, err)
	}
	c, err := httpconfig.NewClientFromConfig(*cfg, "culprit-doctor")
	if err != nil {
		return nil, fmt.Errorf("--http.config.file=%s: %w", file, err)
	}
	c.Timeout = timeout
	return c, nil
}
