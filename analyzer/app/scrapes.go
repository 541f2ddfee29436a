// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	promapi "github.com/prometheus/client_golang/api"

	"github.com/culprit-project/culprit/analyzer/evidence"
)

// scrapes is a Prometheus that tells what it scrapes. The library's own call asks for targets that were dropped, too, which are many.
type scrapes struct {
	evidence.Querier
	client promapi.Client
}

// Targets implements evidence.Lister.
func (s scrapes) Targets(ctx context.Context) ([]map[string]string, error) {
	address := s.client.URL("/api/v1/targets", nil)
	address.RawQuery = url.Values{"state": {"active"}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, body, err := s.client.Do(ctx, r) //nolint:bodyclose // The client has read and closed it.
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode/100 == 4, resp.StatusCode == http.StatusNotImplemented:
		return nil, fmt.Errorf("%w: %s", evidence.ErrUntold, resp.Status)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %s", resp.Status)
	}
	var answer struct {
		Data struct {
			Active []struct {
				Labels map[string]string `json:"labels"`
			} `json:"activeTargets"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("reading the list of targets: %w", err)
	}
	out := make([]map[string]string, len(answer.Data.Active))
	for i, t := range answer.Data.Active {
		out[i] = t.Labels
	}
	return out, nil
}
