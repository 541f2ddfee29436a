// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const keepLimit = 30 * time.Second

// keep saves what is known of a case, before its job is ended: the analyzer's incidents, what each of them rests on, what each exporter has,
// the trace files and what the job's processes said.
func (r *Runner) keep(ctx context.Context, w *watch, c Case) (string, error) {
	if r.Evidence == "" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	dir := filepath.Join(r.Evidence, strings.ReplaceAll(c.Name(), "/", "-"))
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("making room for the evidence: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making a directory for the evidence: %w", err)
	}
	incidents := w.cluster.AnalyzerURL() + "/api/v1/incidents"
	err := errors.Join(save(ctx, filepath.Join(dir, "incidents.json"), incidents), keepIncidents(ctx, dir, incidents))
	for host := range r.Hosts {
		name := w.cluster.HostName(host)
		err = errors.Join(err,
			save(ctx, filepath.Join(dir, name+"-state.json"), w.cluster.ExporterURL(host)+"/api/v1/state"),
			save(ctx, filepath.Join(dir, name+"-metrics.txt"), w.cluster.ExporterURL(host)+"/metrics"),
			os.CopyFS(filepath.Join(dir, name), os.DirFS(w.cluster.TraceDir(host))),
		)
	}
	if w.job != nil {
		err = errors.Join(err, copyFile(filepath.Join(dir, "job.log"), w.job.Log()))
	}
	return dir, err
}

// keepIncidents saves the evidence of each incident that incidents.json in dir tells of, to be analysed again.
func keepIncidents(ctx context.Context, dir, incidents string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "incidents.json"))
	if err != nil {
		return fmt.Errorf("reading the incidents: %w", err)
	}
	var told struct {
		Incidents []struct {
			ID string `json:"id"`
		} `json:"incidents"`
	}
	if err := json.Unmarshal(raw, &told); err != nil {
		return fmt.Errorf("reading the incidents: %w", err)
	}
	for _, i := range told.Incidents {
		err = errors.Join(err, save(ctx, filepath.Join(dir, i.ID+".tar.gz"), incidents+"/"+i.ID+"/evidence.tar.gz"))
	}
	return err
}

func save(ctx context.Context, to, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: %s", address, resp.Status)
	}
	return write(to, resp.Body)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("reading %s: %w", from, err)
	}
	defer in.Close()
	return write(to, in)
}

func write(to string, from io.Reader) error {
	out, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	_, err = io.Copy(out, from)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return nil
}
