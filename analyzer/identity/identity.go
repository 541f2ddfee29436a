// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity tells one training job from another. Processes choose the id of their job, so it is the owner, whom the kernel
// shows, that tells jobs of one id apart. Where several clusters share a Prometheus, further labels belong to a job's identity.
package identity

import (
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
)

// IDLabel is the label of all series that has the job's id.
const IDLabel = "job_id"

// OwnerLabel is the label of the series of jobs that has the user that the kernel shows. Exporters of earlier releases do not have it.
const OwnerLabel = "owner"

// Job identifies a training job. Two are equal where the id and all further labels are.
type Job struct {
	ID    string // As exporters have it.
	scope string // Further labels, encoded as in a URL, in the order of their names.
}

// New gives the identity of a job by its id and further labels; an empty value says that the job does not have the label, and of the
// owner that it is not known.
func New(id string, labels map[string]string) Job {
	values := url.Values{}
	for name, value := range labels {
		if name != OwnerLabel || value != "" {
			values.Set(name, value)
		}
	}
	return Job{ID: id, scope: values.Encode()}
}

// Owner gives whom the job belongs to; empty: not known.
func (j Job) Owner() string { return j.Labels()[OwnerLabel] }

// OwnedBy gives the job of the same name that belongs to an owner; with an empty one that of nobody in particular.
func (j Job) OwnedBy(owner string) Job {
	labels := j.Labels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[OwnerLabel] = owner
	return New(j.ID, labels)
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

// Selector gives the matchers of PromQL that take the job's series alone, those of exporters that tell no owner among them. Without an
// owner it takes those of all owners.
func (j Job) Selector() string {
	selector := IDLabel + "=" + strconv.Quote(j.ID)
	if scope := j.Scope(); scope != "" {
		selector += "," + scope
	}
	if owner := j.Owner(); owner != "" {
		selector += "," + OwnerLabel + "=~" + strconv.Quote(regexp.QuoteMeta(owner)+"|")
	}
	return selector
}

// Scope gives the matchers of PromQL for what else has the labels of the job, but for its id and owner; empty: everything.
func (j Job) Scope() string {
	labels := j.Labels()
	var matchers []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != OwnerLabel {
			matchers = append(matchers, name+"="+strconv.Quote(labels[name]))
		}
	}
	return strings.Join(matchers, ",")
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
