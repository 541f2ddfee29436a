// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package inject is an admission webhook of Kubernetes that has the pods of training jobs load the shim. Whatever it cannot do, it lets
// the pod pass.
package inject

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Path is where reviews are posted.
const Path = "/inject"

// maxReview bounds what is read; the API server's own limit of an object is half of it.
const maxReview = 3 << 20

// Options say what pods get.
type Options struct {
	TraceDir string // Folder of trace files, on nodes and in containers.
	ShimDir  string // Folder of the shim, likewise.
}

type (
	review struct {
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		Request    *request  `json:"request,omitempty"`
		Response   *response `json:"response,omitempty"`
	}
	request struct {
		UID       string          `json:"uid"`
		Namespace string          `json:"namespace"`
		Operation string          `json:"operation"`
		Object    json.RawMessage `json:"object"`
	}
	response struct {
		UID       string   `json:"uid"`
		Allowed   bool     `json:"allowed"`
		Warnings  []string `json:"warnings,omitempty"`
		PatchType string   `json:"patchType,omitempty"`
		Patch     []byte   `json:"patch,omitempty"` // In base64.
	}
)

// Handler answers reviews.
type Handler struct {
	options Options
	log     *slog.Logger
	reviews *prometheus.CounterVec
}

// NewHandler makes a handler that counts in reg.
func NewHandler(o Options, log *slog.Logger, reg prometheus.Registerer) *Handler {
	return &Handler{options: o, log: log, reviews: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "culprit_inject_reviews_total", Help: "Reviewed pods, by outcome: injected, unchanged or failed.",
	}, []string{"outcome"})}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	var in review
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err == nil && in.Request == nil {
		err = fmt.Errorf("no request in it")
	}
	if err != nil {
		// Without the request's number no answer is understood; failurePolicy Ignore lets the pod pass.
		h.reviews.WithLabelValues("failed").Inc()
		http.Error(w, "reading the AdmissionReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	out := review{APIVersion: in.APIVersion, Kind: in.Kind, Response: h.review(in.Request)}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(out); err != nil {
		h.log.Debug("answering the API server", "err", err)
	}
}

func (h *Handler) review(r *request) *response {
	answer := &response{UID: r.UID, Allowed: true}
	var p pod
	err := json.Unmarshal(r.Object, &p)
	var operations []operation
	if err == nil {
		operations, answer.Warnings = h.options.patch(&p)
	}
	if err == nil && len(operations) > 0 {
		answer.Patch, err = json.Marshal(operations)
		answer.PatchType = "JSONPatch"
	}
	name := p.Metadata.Name
	if name == "" {
		name = p.Metadata.GenerateName
	}
	switch {
	case err != nil:
		h.reviews.WithLabelValues("failed").Inc()
		h.log.Warn("letting a pod pass that is not understood", "namespace", r.Namespace, "err", err)
		return &response{UID: r.UID, Allowed: true, Warnings: []string{"culprit: the pod is not traced: " + err.Error()}}
	case len(operations) > 0:
		h.reviews.WithLabelValues("injected").Inc()
		h.log.Info("injected", "namespace", r.Namespace, "pod", name)
	default:
		h.reviews.WithLabelValues("unchanged").Inc()
	}
	return answer
}
