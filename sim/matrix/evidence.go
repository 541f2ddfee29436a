// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"bytes"
	"compress/gzip"
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

	"github.com/klauspost/compress/zstd"
)

const keepLimit = 30 * time.Second

// A case keeps no more than evidenceBytes; of the job's log, the end.
const (
	evidenceBytes = 1 << 20
	logBytes      = 64 << 10
)

// keep saves what is known of a case, before its job is ended, in the order of how much it says: the case, the analyzer's incidents and what
// each of them rests on, what the job's processes said, and what each exporter has. What no longer fits is left out, and the error says so.
func (r *Runner) keep(ctx context.Context, w *watch, name string, result any) (string, error) {
	if r.Evidence == "" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	k := keeper{dir: filepath.Join(r.Evidence, strings.ReplaceAll(name, "/", "-")), left: evidenceBytes}
	if err := os.RemoveAll(k.dir); err != nil {
		return "", fmt.Errorf("making room for the evidence: %w", err)
	}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return "", fmt.Errorf("making a directory for the evidence: %w", err)
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing down the case: %w", err)
	}
	err = errors.Join(k.write("case.json", text), k.incidents(ctx, w.cluster.AnalyzerURL()+"/api/v1/incidents", w.jobID))
	if w.job != nil {
		err = errors.Join(err, k.log(w.job.Log()))
	}
	for host := range w.cluster.Hosts() {
		err = errors.Join(err, k.state(ctx, w.cluster.HostName(host), w.cluster.ExporterURL(host)))
	}
	return k.dir, err
}

// errNoRoom is why a file was left out.
var errNoRoom = errors.New("left out")

// keeper writes files to a directory, and leaves out those that no longer fit.
type keeper struct {
	dir  string
	left int
}

func (k *keeper) write(name string, data []byte) error {
	if len(data) > k.left {
		return fmt.Errorf("%s: %d bytes of %d are left for its %d: %w", name, k.left, evidenceBytes, len(data), errNoRoom)
	}
	k.left -= len(data)
	if err := os.WriteFile(filepath.Join(k.dir, name), data, 0o644); err != nil {
		return fmt.Errorf("keeping evidence: %w", err)
	}
	return nil
}

// incidents saves the incidents of a job, and the evidence of each, to be analysed again.
func (k *keeper) incidents(ctx context.Context, address, job string) error {
	raw, err := get(ctx, address)
	if err != nil {
		return err
	}
	var list struct {
		Incidents []json.RawMessage `json:"incidents"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("reading the incidents: %w", err)
	}
	var errs error
	for _, incident := range list.Incidents {
		var i struct {
			ID  string `json:"id"`
			Job string `json:"job_id"`
		}
		if err := json.Unmarshal(incident, &i); err != nil {
			return fmt.Errorf("reading an incident: %w", err)
		}
		if i.Job != job {
			continue
		}
		evidence, err := get(ctx, address+"/"+i.ID+"/evidence.tar.gz")
		if err == nil {
			evidence, err = repack(evidence)
		}
		if err == nil {
			err = k.write(i.ID+".tar.zst", evidence)
		}
		errs = errors.Join(errs, k.write(i.ID+".json", incident), err)
	}
	return errs
}

// repack makes a gzip file one of zstd, which is two thirds as large.
func repack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking the evidence: %w", err)
	}
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return nil, fmt.Errorf("packing the evidence: %w", err)
	}
	_, err = io.Copy(w, r)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("packing the evidence again: %w", err)
	}
	return out.Bytes(), nil
}

func (k *keeper) log(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the job's log: %w", err)
	}
	return k.write("job.log", text[max(0, len(text)-logBytes):])
}

func (k *keeper) state(ctx context.Context, host, exporter string) error {
	raw, err := get(ctx, exporter+"/api/v1/state")
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(raw)
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("packing the state of %s: %w", host, err)
	}
	return k.write(host+".state.json.gz", packed.Bytes())
}

func get(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking %s: %s", address, resp.Status)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	return raw, nil
}
