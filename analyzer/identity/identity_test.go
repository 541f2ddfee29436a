// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"maps"
	"testing"

	"github.com/prometheus/common/model"
)

func TestJob(t *testing.T) {
	tests := []struct {
		labels         map[string]string
		selector, text string
	}{
		{nil, `job_id="7"`, "7"},
		{map[string]string{"tenant": "a&b=c", "cluster": `no"rth`}, `job_id="7",cluster="no\"rth",tenant="a&b=c"`, `7 (cluster no"rth, tenant a&b=c)`},
		{map[string]string{"cluster": ""}, `job_id="7",cluster=""`, "7"},
	}
	for _, tt := range tests {
		j := New("7", tt.labels)
		if j != New("7", maps.Clone(tt.labels)) {
			t.Errorf("%v: the same job is not equal to itself", tt.labels)
		}
		if got := j.Selector(); got != tt.selector {
			t.Errorf("selector is %s, want %s", got, tt.selector)
		}
		if got := j.String(); got != tt.text {
			t.Errorf("text is %s, want %s", got, tt.text)
		}
		if got := j.Labels(); !maps.Equal(got, tt.labels) {
			t.Errorf("labels are %v, want %v", got, tt.labels)
		}
	}
	if New("7", map[string]string{"cluster": "a"}) == New("7", map[string]string{"cluster": "b"}) {
		t.Error("jobs of two clusters are one")
	}
}

func TestPick(t *testing.T) {
	metric := model.Metric{"cluster": "north", "rank": "3"}
	if got := Pick([]string{"cluster", "tenant"}, metric); !maps.Equal(got, map[string]string{"cluster": "north", "tenant": ""}) {
		t.Errorf("picked %v", got)
	}
	if got := Pick(nil, metric); got != nil {
		t.Errorf("picked %v without names", got)
	}
}
