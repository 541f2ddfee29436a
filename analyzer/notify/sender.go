// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/analyzer/webhook"
)

// Times of the sender.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 30 * time.Second
	// lookTimeout bounds how long an alert waits for what Alertmanager has of it: a page is more urgent than who else tells of it.
	lookTimeout = time.Second
	// maxBatch bounds the alerts of one request.
	maxBatch = 256
)

// Sender keeps every Alertmanager peer told of the alerts that hold. Set declares them by incident; what is not
// declared any more is resolved. Alerts carry an end a few resends ahead, so that they end by themselves should the
// analyzer die.
//
// Of two analyzers one may see the end of an incident before the other. If it resolved the alert, the other would soon say that it fires,
// and somebody would be called again. An alert that another analyzer tells of, too, is therefore left alone until that one tells of it no more.
//
// Of two Alertmanagers the one that was told the end notifies of it, and then the other, for which it fires, calls somebody again. An end
// is therefore told when nothing is known to speak against it at any peer, and then to all. A peer that does not say what it has is
// waited for, for two resends. Alertmanagers of a cluster notify in turn, each of what it had --cluster.peer-timeout before: whoever speaks
// last is told first, so that all begin to speak of the end at the same moment.
type Sender struct {
	logger *slog.Logger
	sent   *prometheus.CounterVec
	source *prometheus.CounterVec

	mu      sync.Mutex
	resend  time.Duration
	wait    time.Duration // Between two turns in a cluster of Alertmanagers.
	serial  uint64
	held    map[string]*held // By fingerprint.
	peers   []*peer
	running bool
	ctx     context.Context // Run's, for peers that a reload adds.
	wg      sync.WaitGroup
}

// held is an alert that holds, or has ended and is not yet known to have to all peers.
type held struct {
	fingerprint string
	incident    string
	alert       Alert
	serial      uint64 // Of its last change.
	endedAt     time.Time
	over        bool      // Its incident is over: no other alert has taken its place.
	ending      time.Time // When all peers began to be told that it is over.
	shared      time.Time // When another analyzer was last seen to tell of it, at any peer: all peers are told the end together.
}

// peer is one Alertmanager and what it was told.
type peer struct {
	client *Client
	wake   chan struct{}
	cancel context.CancelFunc
	told   map[string]telling // By fingerprint.
	state  State
}

type telling struct {
	serial uint64
	at     time.Time // When the peer had taken it.
	endsAt time.Time // The end that was told.
	since  time.Time // When the peer, as it was then, had been started.
	looked time.Time // When the peer was last asked for it.
	others time.Time // The end that another analyzer was last seen to have told.
	quiet  time.Time // When nobody else was last seen to tell of it, since it is over.
}

// NewSender makes a sender without peers. source counts requests by outcome under source="alertmanager".
func NewSender(logger *slog.Logger, source *prometheus.CounterVec, reg prometheus.Registerer) *Sender {
	s := &Sender{
		logger: logger,
		source: source,
		held:   map[string]*held{},
		resend: time.Minute,
		wait:   15 * time.Second,
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "culprit_analyzer_notifications_total",
			Help: "Alerts of verdicts posted to Alertmanager, per peer, including resends.",
		}, []string{"outcome"}),
	}
	s.sent.WithLabelValues("ok")
	s.sent.WithLabelValues("error")
	reg.MustRegister(s.sent)
	return s
}

// Apply replaces the peers, the time between two tellings, and Alertmanager's --cluster.peer-timeout.
func (s *Sender) Apply(clients []*Client, resend, peerTimeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		if p.cancel != nil {
			p.cancel()
		}
	}
	s.resend, s.wait = resend, peerTimeout
	s.peers = nil
	for _, c := range clients {
		p := &peer{client: c, wake: make(chan struct{}, 1), told: map[string]telling{}}
		s.peers = append(s.peers, p)
		if s.running {
			s.start(p)
		}
	}
}

// Clients gives the peers' clients.
func (s *Sender) Clients() []*Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Client, len(s.peers))
	for i, p := range s.peers {
		out[i] = p.client
	}
	return out
}

// Set declares the alerts that hold for an incident. It never blocks.
func (s *Sender) Set(incidentID string, alerts []Alert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	holds := map[string]bool{}
	changed := false
	for _, a := range alerts {
		fp := webhook.Fingerprint(a.Labels)
		holds[fp] = true
		h := s.held[fp]
		if h != nil && h.endedAt.IsZero() && sameText(h.alert.Annotations, a.Annotations) {
			continue
		}
		s.serial++
		fresh := &held{fingerprint: fp, incident: incidentID, alert: a, serial: s.serial}
		if h != nil {
			fresh.shared = h.shared
		}
		s.held[fp] = fresh
		changed = true
	}
	now := time.Now()
	for fp, h := range s.held {
		if h.incident == incidentID && !holds[fp] && h.endedAt.IsZero() {
			s.serial++
			h.endedAt, h.serial, h.over = now, s.serial, len(alerts) == 0
			changed = true
		}
	}
	if changed {
		for _, p := range s.peers {
			p.poke()
		}
	}
}

func sameText(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// Run posts until the context ends. Alerts that hold are left to another peer of the analyzer, or to the next run, to
// be said again; they are not resolved.
func (s *Sender) Run(ctx context.Context) {
	s.mu.Lock()
	s.running, s.ctx = true, ctx
	for _, p := range s.peers {
		s.start(p)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.running = false
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Sender) start(p *peer) {
	ctx, cancel := context.WithCancel(s.ctx)
	p.cancel = cancel
	s.wg.Go(func() { s.serve(ctx, p) })
}

// serve keeps one peer told. A peer that is down delays no page to another.
func (s *Sender) serve(ctx context.Context, p *peer) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	backoff := firstRetry
	for {
		batch, ends, wait := s.batch(p)
		if len(batch) > 0 {
			if err := s.post(ctx, p, batch, ends); err != nil {
				if ctx.Err() != nil {
					return
				}
				s.logger.Warn("verdict not posted", "alertmanager", p.client.URL, "alerts", len(batch), "err", err)
				wait, backoff = backoff, min(2*backoff, lastRetry)
			} else {
				backoff, wait = firstRetry, 0
			}
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// batch gives what the peer must be told now, and when there may be more. If it is ends that others are being told of, what the peer has
// does not matter any more.
func (s *Sender) batch(p *peer) (_ []*held, ends bool, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, next := time.Now(), s.resend
	var out, due []*held
	for fp, h := range s.held {
		t, told := p.told[fp]
		if !h.endedAt.IsZero() {
			if told && t.serial == h.serial || now.Sub(h.endedAt) > keepResolved {
				s.forget(h, now)
				continue
			}
			switch wait := s.untilEnd(p, h, now); {
			case wait > 0:
				next = min(next, wait)
			case !h.ending.IsZero():
				due = append(due, h)
			default:
				out = append(out, h)
			}
			continue
		}
		if age := now.Sub(t.at); told && t.serial == h.serial && age < s.resend {
			next = min(next, s.resend-age)
			continue
		}
		out = append(out, h)
	}
	if len(due) > 0 { // The rest is next.
		out = due
	}
	slices.SortFunc(out, func(a, b *held) int { return cmp.Compare(a.serial, b.serial) })
	return out[:min(len(out), maxBatch)], len(due) > 0, next
}

// forget drops an ended alert that every peer has been told the end of, or that is too old.
func (s *Sender) forget(h *held, now time.Time) {
	for _, p := range s.peers {
		if t, told := p.told[h.fingerprint]; (!told || t.serial != h.serial) && now.Sub(h.endedAt) <= keepResolved {
			return
		}
	}
	for _, p := range s.peers {
		delete(p.told, h.fingerprint)
	}
	delete(s.held, h.fingerprint)
}

func (s *Sender) post(ctx context.Context, p *peer, batch []*held, ends bool) error {
	var there listing
	var unseen error
	if !ends {
		there, unseen = p.look(ctx)
	}
	s.mu.Lock()
	now := time.Now()
	if !ends {
		if !there.state.Since.IsZero() {
			p.state = there.state
		}
		batch = slices.DeleteFunc(batch, func(h *held) bool { return !s.mayTell(p, h, &there, unseen == nil, now) })
	}
	alerts := make([]Alert, len(batch))
	serials := make([]uint64, len(batch))
	for i, h := range batch {
		alerts[i], serials[i] = h.alert, h.serial
		// Alertmanager keeps milliseconds: the same end comes back.
		alerts[i].EndsAt = now.Add(4 * s.resend).Truncate(time.Millisecond)
		if !h.endedAt.IsZero() {
			alerts[i].EndsAt = h.endedAt.Add(-endsBefore)
		}
		if alerts[i].StartsAt.After(alerts[i].EndsAt) { // Alertmanager refuses such, and says so of the whole batch.
			alerts[i].StartsAt = alerts[i].EndsAt
		}
	}
	s.mu.Unlock()
	if len(batch) == 0 {
		return unseen
	}
	err := p.client.Post(ctx, alerts)
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	s.sent.WithLabelValues(outcome).Add(float64(len(alerts)))
	s.source.WithLabelValues("alertmanager", outcome).Inc()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range batch {
		t := p.told[h.fingerprint]
		t.serial, t.at, t.endsAt, t.since = serials[i], time.Now(), alerts[i].EndsAt, p.state.Since
		p.told[h.fingerprint] = t
		if !h.ending.IsZero() {
			s.pokeOthers(p)
		}
	}
	return nil
}

func (s *Sender) pokeOthers(p *peer) {
	for _, other := range s.peers {
		if other != p {
			other.poke()
		}
	}
}

func (p *peer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
