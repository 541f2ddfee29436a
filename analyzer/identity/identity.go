// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity tells one training job from another. Job ids are unique within a cluster; where several clusters share a
// Prometheus, further labels belong to a job's identity.
package identity

import (
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
)

// IDLabel is the label of all series that has the job's id.
const IDLabel = "job_id"

// Job identifies a training job. Two are equal where the id and all further labels are.
type Job struct {
	ID    string // As exporters have it.
	scope string // Further labels, encoded as in a URL, in the order of their names.
}

// New gives the identity of a job by its id and further labels; an empty value says that the job does not have the label.
func New(id string, labels map[string]string) Job {
	values := url.Values{}
	for name, value := range labels {
		values.Set(name, value)
	}
	return Job{ID: id, scope: values.Encode()}
}

// Labels gives the labels beside the id, nil where there are none.
func (j Job) Labels() map[string]string {
	if j.scope == "" {
		return nil
	}
	values, _ := url.ParseQuery(j.scope) // New encoded it.
	out := make(map[string]string, len(values))
	for name := range values {
		out[name] = values.Get(name)
	}
	return out
}

// Selector gives the matchers of PromQL that take the job's series alone.
func (j Job) Selector() string {
	var b strings.Builder
	b.WriteString(IDLabel + "=" + strconv.Quote(j.ID))
	labels := j.Labels()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString("," + name + "=" + strconv.Quote(labels[name]))
	}
	return b.String()
}

// String names the job for people and logs: "7", or "7 (cluster north)".
func (j Job) String() string {
	labels := j.Labels()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if labels[name] != "" {
			parts = append(parts, name+" "+labels[name])
		}
	}
	if len(parts) == 0 {
		return j.ID
	}
	return j.ID + " (" + strings.Join(parts, ", ") + ")"
}

// LogValue implements slog.LogValuer.
func (j Job) LogValue() slog.Value { return slog.StringValue(j.String()) }

// Pick takes the labels of these names, those that are missing with an empty value; nil where no names are given.
func Pick[K, V ~string](names []string, from map[K]V) map[string]string {
	if len(names) == 0 {
		return nil
	}
	out := make(map[string]string, len(names))
	for _, name := range names {
		out[name] = string(from[K(name)])
	}
	return out
}

// Of gives the job of a series; names are the labels that belong to its identity beside the id.
func Of(m model.Metric, names []string) Job {
	return New(string(m[IDLabel]), Pick(names, m))
}
