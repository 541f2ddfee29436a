// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/webhook"
)

// A probe is remembered and is nobody's trigger. The latest are known.
func TestProbes(t *testing.T) {
	var p probes
	probe := func(id string) webhook.Alert {
		return webhook.Alert{Labels: map[string]string{triggerLabel: triggerValue, kindLabel: probeKind, "job_id": id}}
	}
	trigger := webhook.Alert{Labels: map[string]string{triggerLabel: triggerValue, kindLabel: "hang", "job_id": "1"}}
	if rest := p.take([]webhook.Alert{probe("0"), trigger}); len(rest) != 1 || rest[0].Labels[kindLabel] != "hang" {
		t.Errorf("triggers are %+v", rest)
	}
	for i := range maxProbes {
		p.take([]webhook.Alert{probe(fmt.Sprint(i + 1)), probe(strings.Repeat("x", maxProbe+1))})
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{id}", &p)
	for id, want := range map[string]int{"0": http.StatusNotFound, "1": http.StatusOK, fmt.Sprint(maxProbes): http.StatusOK} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+id, nil))
		if w.Code != want {
			t.Errorf("probe %s: %d, want %d", id, w.Code, want)
		}
	}
}
