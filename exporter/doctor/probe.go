// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"
)

const (
	// probePatience is how long a notification may take: shipped routes wait half a second, and a cluster of Alertmanagers 15 s more a member.
	probePatience = 30 * time.Second
	// probeLife is how long Alertmanager keeps the alert.
	probeLife = time.Minute
	// probePause lies between two questions whether it has come.
	probePause = 200 * time.Millisecond
)

// probe posts a trigger that is about no job to Alertmanager, and waits until the analyzer has it.
func probe(ctx context.Context, o *Options) []Finding {
	if !o.Probe {
		return []Finding{{"probe", NotAsked, "No synthetic trigger was sent, so that triggers reach the analyzer is not certain.", "add --probe"}}
	}
	if o.AlertmanagerURL == "" || o.AnalyzerURL == "" {
		return []Finding{{"probe", Failed, "A synthetic trigger goes from Alertmanager to the analyzer, and an address is not given.", "add --alertmanager.url and --analyzer.url"}}
	}
	id := "culprit-doctor-" + rand.Text()[:12]
	if err := postProbe(ctx, o, id); err != nil {
		return []Finding{{"probe", Failed, fmt.Sprintf("Alertmanager does not take a synthetic trigger: %v.", err), "--alertmanager.url=http://HOST:9093"}}
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.probePatience)
	defer cancel()
	for {
		_, err := get(ctx, o, o.AnalyzerURL+"/api/v1/probes/"+id)
		if err == nil {
			return []Finding{ok("probe", "A synthetic trigger came from Alertmanager to the analyzer within %s.", time.Since(begin).Round(100*time.Millisecond))}
		}
		select {
		case <-ctx.Done():
			return []Finding{{
				"probe", Failed, fmt.Sprintf("A synthetic trigger that Alertmanager took did not reach the analyzer within %s.", o.probePatience),
				"route culprit=\"trigger\" to a webhook with the url " + o.AnalyzerURL + "/api/v1/alerts, and look for errors of it in Alertmanager's log",
			}}
		case <-time.After(probePause):
		}
	}
}

func postProbe(ctx context.Context, o *Options, id string) error {
	labels := map[string]string{"alertname": "CulpritProbe", "job_id": id}
	maps.Copy(labels, o.labels)
	labels["culprit"], labels["kind"], labels["severity"] = "trigger", "probe", "none"
	body, err := json.Marshal([]map[string]any{{
		"labels": labels, "startsAt": time.Now(), "endsAt": time.Now().Add(probeLife),
		"annotations": map[string]string{"summary": "culprit-exporter doctor --probe tests whether triggers reach the analyzer. No job is in trouble."},
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.AlertmanagerURL+"/api/v2/alerts", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := o.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	return nil
}
