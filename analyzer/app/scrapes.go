// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	promapi "github.com/prometheus/client_golang/api"

	"github.com/culprit-project/culprit/analyzer/evidence"
)

// scrapes is a Prometheus of which is known what is scraped: it tells, or those do that write to it.
type scrapes struct {
	evidence.Querier
	scrapers []promapi.Client
}

// Targets implements evidence.Lister.
func (s scrapes) Targets(ctx context.Context) ([]map[string]string, error) {
	var out []map[string]string
	var errs []error
	for _, scraper := range s.scrapers {
		list, err := targets(ctx, scraper)
		out = append(out, list...)
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// targets asks one scraper. The library's own call asks for targets that were dropped, too, which are many.
func targets(ctx context.Context, client promapi.Client) ([]map[string]string, error) {
	address := client.URL("/api/v1/targets", nil)
	address.RawQuery = url.Values{"state": {"active"}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, body, err := client.Do(ctx, r) //nolint:bodyclose // The client has read and closed it.
	switch {
	case err != nil:
		return nil, err
	// Mimir has no such path, vmselect refuses it, and a gateway may let nobody ask for it. Who is asked too often answers another time.
	case resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout, resp.StatusCode == http.StatusNotImplemented:
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
