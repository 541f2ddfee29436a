// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package inject is an admission webhook of Kubernetes that has the pods of training jobs load the shim. Whatever it cannot do, it lets
// the pod pass.
package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/culprit-project/culprit/access"
)

const (
	// Path is where reviews are posted of pods that may mount the node's folders.
	Path = "/inject"
	// PodPath is where those are posted that get volumes of their own. The API server chooses by the labels of the namespace.
	PodPath = "/inject/pod"
)

const (
	// maxReview bounds what is read; the API server's own limit of an object is half of it.
	maxReview = 3 << 20
	// maxValues bounds how many values a review has. A pod has some hundred.
	maxValues = 1 << 15
	// maxHead is how many members are looked at to find the number of a request.
	maxHead = 8
	// maxUsual is the size up to which a review is read at once. Larger ones wait for a place: reading bounds how many of them are read at a
	// time, and readingPerClient those of one client. One at a time is decoded.
	maxUsual                  = 64 << 10
	reading, readingPerClient = 8, 4
	// maxSending is how long the API server waits for an answer in the shipped configuration.
	maxSending = 3 * time.Second
)

// Options say what pods get.
type Options struct {
	TraceDir string // Folder of trace files, on nodes and in containers.
	ShimDir  string // Folder of the shim, likewise.
	Image    string // Of the exporter, which has the shim; empty: no pod gets volumes of its own.
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
		Part      string          `json:"subResource"`
		Object    json.RawMessage `json:"object"`
	}
	response struct {
		UID       string   `json:"uid"`
		Allowed   bool     `json:"allowed"`
		Status    *status  `json:"status,omitempty"` // Why it is refused.
		Warnings  []string `json:"warnings,omitempty"`
		PatchType string   `json:"patchType,omitempty"`
		Patch     []byte   `json:"patch,omitempty"` // In base64.
	}
	status struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
)

// Handler answers reviews.
type Handler struct {
	options  Options
	log      *slog.Logger
	reviews  *prometheus.CounterVec
	queue    *access.Pool
	decoding sync.Mutex
}

// NewHandler makes a handler that counts in reg.
func NewHandler(o Options, log *slog.Logger, reg prometheus.Registerer) *Handler {
	return &Handler{options: o, log: log, queue: access.NewPool(reading, readingPerClient, 0, nil), reviews: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "culprit_inject_reviews_total", Help: "Reviewed pods, by outcome: injected, unchanged, too_large or failed; and debug containers that were refused.",
	}, []string{"outcome"})}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bound := func() { // A client that sends slowly must not keep a place. Writers that cannot be bounded are a test's.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(maxSending))
	}
	bound()
	var start bytes.Buffer
	n, err := io.CopyN(&start, r.Body, maxUsual)
	if err != nil && !errors.Is(err, io.EOF) {
		h.fail(w, err)
		return
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(&start, r.Body), r.Body}
	if n == maxUsual {
		h.queue.Wait(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { bound(); h.serve(w, r) })).ServeHTTP(w, r)
		return
	}
	h.serve(w, r)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	body, err := readReview(r)
	if errors.Is(err, errTooLarge) {
		h.pass(w, body)
		return
	}
	var in review
	if err == nil {
		h.decoding.Lock()
		defer h.decoding.Unlock()
		err = json.Unmarshal(body, &in)
	}
	if err == nil && in.Request == nil {
		err = errors.New("no request in it")
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, review{APIVersion: in.APIVersion, Kind: in.Kind, Response: h.review(in.Request, r.URL.Path == PodPath)})
}

// fail answers what is no review. Without the request's number no answer is understood; failurePolicy Ignore lets the pod pass.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	h.reviews.WithLabelValues("failed").Inc()
	http.Error(w, "reading the AdmissionReview: "+err.Error(), http.StatusBadRequest)
}

func (h *Handler) answer(w http.ResponseWriter, out review) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(out); err != nil {
		h.log.Debug("answering the API server", "err", err)
	}
}

// pass lets through what is too large to be looked into.
func (h *Handler) pass(w http.ResponseWriter, body []byte) {
	h.reviews.WithLabelValues("too_large").Inc()
	head := readHead(body)
	if head.Request == nil {
		http.Error(w, "reading the AdmissionReview: "+errTooLarge.Error(), http.StatusBadRequest)
		return
	}
	h.log.Warn("letting a pod pass that is too large", "uid", head.Request.UID)
	h.answer(w, review{APIVersion: head.APIVersion, Kind: head.Kind, Response: tooLarge(head.Request.UID)})
}

func tooLarge(uid string) *response {
	return &response{UID: uid, Allowed: true, Warnings: []string{"culprit: the pod is not traced: " + errTooLarge.Error()}}
}

// readReview reads a body. What it gives with errTooLarge is its beginning, or what holds too many values to decode.
func readReview(r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(min(r.ContentLength, maxReview)) + bytes.MinRead) // Growing by and by would hold it twice.
	}
	n, err := body.ReadFrom(io.LimitReader(r.Body, maxReview+1))
	switch {
	case err != nil:
		return nil, err
	case n > maxReview || values(body.Bytes()) > maxValues:
		return body.Bytes(), errTooLarge
	}
	return body.Bytes(), nil
}

// values counts what a JSON text holds at most: decoded, each takes a hundred bytes and more, of two in the text.
func values(text []byte) int {
	n, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// readHead reads what the API server writes first: kind, version, and the number of the request. The rest may be cut off.
func readHead(body []byte) (head review) {
	tokens := json.NewDecoder(bytes.NewReader(body))
	if t, err := tokens.Token(); err != nil || t != json.Delim('{') {
		return head
	}
	inRequest := false
	for range maxHead {
		key, err := tokens.Token()
		if err != nil {
			return head
		}
		value, err := tokens.Token()
		if err != nil {
			return head
		}
		text, _ := value.(string)
		switch {
		case key == "kind":
			head.Kind = text
		case key == "apiVersion":
			head.APIVersion = text
		case key == "request" && value == json.Delim('{') && !inRequest:
			inRequest = true
		case key == "uid" && text != "" && inRequest:
			head.Request = &request{UID: text}
			return head
		default:
			return head // The number comes first, or is not looked for.
		}
	}
	return head
}

func (h *Handler) review(r *request, own bool) *response {
	answer := &response{UID: r.UID, Allowed: true}
	var p pod
	err := json.Unmarshal(r.Object, &p)
	var operations []operation
	switch {
	case err != nil:
	case r.Part == debugging:
		if why := p.debugs(); why != "" {
			h.reviews.WithLabelValues("refused").Inc()
			h.log.Warn("refusing a debug container", "namespace", r.Namespace, "pod", p.Metadata.Name)
			return &response{UID: r.UID, Status: &status{Message: "culprit: " + why, Code: http.StatusForbidden}}
		}
	default:
		operations, answer.Warnings, err = h.options.patch(&p, own)
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
	case errors.Is(err, errTooLarge):
		h.reviews.WithLabelValues("too_large").Inc()
		h.log.Warn("letting a pod pass that is too large", "namespace", r.Namespace, "uid", r.UID)
		return tooLarge(r.UID)
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
