// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Trigger is an alert of the rules, as Alertmanager holds it.
type Trigger struct {
	Labels   map[string]string `json:"labels"`
	StartsAt time.Time         `json:"startsAt"`
}

// Triggers gives the trigger alerts of a job that Alertmanager holds now.
func (s *Stack) Triggers(ctx context.Context, jobID string) ([]Trigger, error) {
	query := url.Values{"filter": {`culprit="trigger"`, `job_id="` + jobID + `"`}}
	var out []Trigger
	err := getJSON(ctx, s.AlertmanagerURL()+"/api/v2/alerts?"+query.Encode(), &out)
	return out, err
}

// Incident is what the analyzer knows of an incident, as far as the demo and the tests look.
type Incident struct {
	ID      string       `json:"id"`
	JobID   string       `json:"job_id"`
	State   string       `json:"state"`
	Verdict *rca.Verdict `json:"verdict"`
}

// Incidents gives the analyzer's incidents of a job.
func (s *Stack) Incidents(ctx context.Context, jobID string) ([]Incident, error) {
	var answer struct {
		Incidents []Incident `json:"incidents"`
	}
	if err := getJSON(ctx, s.AnalyzerURL()+"/api/v1/incidents", &answer); err != nil {
		return nil, err
	}
	var out []Incident
	for _, i := range answer.Incidents {
		if i.JobID == jobID {
			out = append(out, i)
		}
	}
	return out, nil
}

// WaitIncident waits for an incident of the job whose verdict satisfies ok.
func (s *Stack) WaitIncident(ctx context.Context, jobID string, ok func(*rca.Verdict) bool) (Incident, error) {
	var found Incident
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		incidents, err := s.Incidents(ctx, jobID)
		if err != nil {
			return false, nil //nolint:nilerr // Asked again until ctx is done.
		}
		for _, i := range incidents {
			if i.Verdict != nil && ok(i.Verdict) {
				found = i
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return Incident{}, fmt.Errorf("waiting for a verdict on job %s: %w", jobID, err)
	}
	return found, nil
}

// QueryPrometheus evaluates an instant query and gives the value of each series by one of its labels.
func (s *Stack) QueryPrometheus(ctx context.Context, query, label string) (map[string]string, error) {
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
				Value  [2]any            `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := getJSON(ctx, s.PrometheusURL()+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), &answer); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range answer.Data.Result {
		out[r.Metric[label]], _ = r.Value[1].(string)
	}
	return out, nil
}

func getJSON(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: status %s", address, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	return nil
}
