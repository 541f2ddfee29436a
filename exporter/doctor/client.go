// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"net/http"

	"github.com/culprit-project/culprit/internal/httpfile"
)

// NewClient makes a client that asks with the credentials, certificates and headers of a file in the form of Prometheus's http_config; an
// empty name means with none.
func NewClient(file string) (*http.Client, error) {
	return httpfile.NewClient("--http.config.file", file, "culprit-doctor", timeout)
}
