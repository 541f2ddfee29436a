// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// MaxBody is the largest body read, bytes: several thousand alerts.
const MaxBody = 16 << 20

// ErrOverloaded is what a Sink returns to have the notification sent again later.
var ErrOverloaded = errors.New("too many incidents are open")

// Sink takes a checked notification. It must return at once and work in the background, and take the same alert any
// number of times: Alertmanager repeats itself, and each peer of a cluster may send.
type Sink func(context.Context, *Message) error

// Handler answers POST requests of Alertmanager. Alertmanager repeats a notification after a 5xx answer and never after
// a 4xx, so 400 is for bodies that will not get better and 503 for overload.
type Handler struct {
	sink     Sink
	logger   *slog.Logger
	decoding sync.Mutex // A notification takes many times its size in memory: one at a time is made of its body.
	requests *prometheus.CounterVec
	alerts   *prometheus.CounterVec
}

// NewHandler makes a handler whose metrics are registered with reg.
func NewHandler(sink Sink, logger *slog.Logger, reg prometheus.Registerer) *Handler {
	h := &Handler{
		sink:   sink,
		logger: logger,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "culprit_analyzer_webhook_requests_total",
			Help: "Notifications received from Alertmanager, by the status code of the answer.",
		}, []string{"code"}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "culprit_analyzer_webhook_alerts_total",
			Help: "Alerts in the accepted notifications, by status.",
		}, []string{"status"}),
	}
	for _, code := range []int{http.StatusOK, http.StatusBadRequest, http.StatusServiceUnavailable} {
		h.requests.WithLabelValues(strconv.Itoa(code))
	}
	h.alerts.WithLabelValues(Firing)
	h.alerts.WithLabelValues(Resolved)
	reg.MustRegister(h.requests, h.alerts)
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, err := h.serve(w, r)
	h.requests.WithLabelValues(strconv.Itoa(code)).Inc()
	if err != nil {
		h.logger.Warn("notification refused", "code", code, "from", r.RemoteAddr, "user_agent", r.UserAgent(), "err", err)
		http.Error(w, err.Error(), code)
		return
	}
	w.WriteHeader(code)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			return http.StatusRequestEntityTooLarge, fmt.Errorf("the body is over %d bytes: set max_alerts on the receiver", tooLarge.Limit)
		}
		return http.StatusBadRequest, fmt.Errorf("reading the body: %w", err)
	}
	h.decoding.Lock()
	defer h.decoding.Unlock()
	m, err := Decode(bytes.NewReader(body))
	if err != nil {
		return http.StatusBadRequest, err
	}
	if err := h.sink(r.Context(), m); err != nil {
		return http.StatusServiceUnavailable, err
	}
	for i := range m.Alerts {
		h.alerts.WithLabelValues(m.Alerts[i].Status).Inc()
	}
	return http.StatusOK, nil
}
