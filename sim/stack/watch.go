// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Alert is an alert as Alertmanager holds it.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
}

// Triggers gives the trigger alerts of a job that Alertmanager holds now.
func (s *Stack) Triggers(ctx context.Context, jobID string) ([]Alert, error) {
	return s.alerts(ctx, "trigger", jobID)
}

// Warnings gives the alerts of verdicts on a job that do not page yet.
func (s *Stack) Warnings(ctx context.Context, jobID string) ([]Alert, error) {
	return s.alerts(ctx, "suspect", jobID)
}

// Verdicts gives the alerts of verdicts on a job that page, also those that Alertmanager still holds back.
func (s *Stack) Verdicts(ctx context.Context, jobID string) ([]Alert, error) {
	return s.alerts(ctx, "verdict", jobID)
}

func (s *Stack) alerts(ctx context.Context, kind, jobID string) ([]Alert, error) {
	query := url.Values{"filter": {`culprit="` + kind + `"`, `job_id="` + jobID + `"`}}
	var out []Alert
	err := getJSON(ctx, s.AlertmanagerURL()+"/api/v2/alerts?"+query.Encode(), &out)
	return out, err
}

// Incident is what the analyzer knows of an incident, as far as the demo and the tests look.
type Incident struct {
	ID      string       `json:"id"`
	JobID   string       `json:"job_id"`
	State   string       `json:"state"`
	Verdict *rca.Verdict `json:"verdict"`

	Triggers []struct {
		Name string `json:"name"`
	} `json:"triggers"`
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
			return false, nil // Asked again until ctx is done.
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

// WaitSeries waits until Prometheus answers a query with the given number of series.
func (s *Stack) WaitSeries(ctx context.Context, query string, series int) error {
	var last error
	err := poll(ctx, 100*time.Millisecond, func() (bool, error) {
		var got []sample
		got, last = s.query(ctx, query)
		return last == nil && len(got) == series, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %d series of %s: %w", series, query, errors.Join(err, last))
	}
	return nil
}

// WaitScrapes waits until Prometheus has scraped the first host so many times more.
func (s *Stack) WaitScrapes(ctx context.Context, more int) error {
	count := fmt.Sprintf("count_over_time(up{node=%q}[1d])", s.HostName(0))
	until := -1.0
	err := poll(ctx, time.Second, func() (bool, error) {
		got, err := s.query(ctx, count)
		if err != nil || len(got) != 1 {
			return false, nil // Asked again until ctx is done.
		}
		if until < 0 {
			until = got[0].value() + float64(more)
		}
		return got[0].value() >= until, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %d scrapes: %w", more, err)
	}
	return nil
}

// sample is a series of Prometheus's answer.
type sample struct {
	Value [2]any `json:"value"` // Time, and the value as text.
}

// value is NaN where it is no number.
func (s *sample) value() float64 {
	text, _ := s.Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func (s *Stack) query(ctx context.Context, query string) ([]sample, error) {
	var answer struct {
		Data struct {
			Result []sample `json:"result"`
		} `json:"data"`
	}
	err := getJSON(ctx, s.PrometheusURL()+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), &answer)
	return answer.Data.Result, err
}

// Analyze asks the analyzer for an analysis (M13) and waits for the incident, with its verdict if that comes soon.
func (s *Stack) Analyze(ctx context.Context, jobID string) (Incident, error) {
	body, err := json.Marshal(map[string]string{"job_id": jobID})
	if err != nil {
		return Incident{}, fmt.Errorf("asking for an analysis: %w", err)
	}
	address := s.AnalyzerURL() + "/api/v1/analyze?wait=4s"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return Incident{}, fmt.Errorf("asking for an analysis: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	var incident Incident
	return incident, doJSON(req, &incident)
}

// SaveEvidence writes what an incident's verdict rests on into a file of a directory, as `culprit-analyzer analyze` reads it.
func (s *Stack) SaveEvidence(ctx context.Context, incidentID, dir string) (file string, err error) {
	file = filepath.Join(dir, "evidence-"+incidentID+".tar.gz")
	return file, save(ctx, s.AnalyzerURL()+"/api/v1/incidents/"+url.PathEscape(incidentID)+"/evidence.tar.gz", file)
}

// SaveMetrics writes what a host's exporter shows into a file of a directory.
func (s *Stack) SaveMetrics(ctx context.Context, host int, dir string) error {
	return save(ctx, s.ExporterURL(host)+"/metrics", filepath.Join(dir, "metrics-"+s.HostName(host)+".txt"))
}

func save(ctx context.Context, address, file string) error {
	resp, err := get(ctx, address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	return os.WriteFile(file, content, 0o600)
}

func getJSON(ctx context.Context, address string, into any) error {
	resp, err := get(ctx, address)
	if err != nil {
		return err
	}
	return decode(resp, into)
}

func get(ctx context.Context, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	return do(req)
}

func doJSON(req *http.Request, into any) error {
	resp, err := do(req)
	if err != nil {
		return err
	}
	return decode(resp, into)
}

func do(req *http.Request) (*http.Response, error) {
	req.Header.Set(tenantHeader, tenant) // Only Mimir looks at it.
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", req.URL, err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("asking %s: status %s", req.URL, resp.Status)
	}
	return resp, nil
}

func decode(resp *http.Response, into any) error {
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", resp.Request.URL, err)
	}
	return nil
}
