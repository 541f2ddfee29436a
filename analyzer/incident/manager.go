// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/kept"
)

// ErrOverloaded says that no further incident can be opened now.
var ErrOverloaded = errors.New("too many incidents are open, or wait to be analysed")

// keptAnalyses is how many analyses an incident's record keeps.
const keptAnalyses = 20

const (
	// maxTriggers bounds one incident's triggers: at thousands of ranks a single alert a rank adds nothing.
	maxTriggers = 1000
	// maxLabels bounds the labels of one trigger, bytes, and maxIncidentLabels those of an incident's triggers together. What is
	// above comes without labels.
	maxLabels         = 8 << 10
	maxIncidentLabels = 256 << 10
	// maxText bounds what is kept of other texts of a trigger, bytes, and maxName those that name it or its job.
	maxText = 1 << 10
	maxName = 256
)

// Options are a manager's bounds; all must be set.
type Options struct {
	MaxOpen    int
	History    int
	Workers    int
	Grace      time.Duration
	RetryMin   time.Duration
	RetryMax   time.Duration
	Recheck    time.Duration
	LookBack   time.Duration
	PassiveTTL time.Duration
	Silent     time.Duration
	// Known tells whether a job is one that is watched, and not a name that somebody made up; nil: all are.
	Known func(identity.Job) bool
	// JobLabels are the labels that belong to a job's identity beside its id; the series of verdicts have them.
	JobLabels []string
	// Keep is given what the standing verdict of an incident rests on, and Forget told when an incident is no more; nil: nothing is
	// kept. Neither may block.
	Keep   func(id string, r *kept.Record)
	Forget func(id string)
}

// Analyze runs one analysis. It must honour the context's end.
type Analyze func(context.Context, Request) (Outcome, error)

// Publish is told of every change of an incident, in order. It must not block.
type Publish func(Incident)

// Manager holds all incidents. Receive and End may be called from anywhere; Run does the work.
type Manager struct {
	analyze Analyze
	publish Publish
	store   *Store // Nil: nothing outlives the process.
	logger  *slog.Logger
	metrics *metrics
	clock   clock.Clock
	wake    chan struct{}

	mu      sync.Mutex
	opt     Options
	entries map[string]*entry
	openJob map[identity.Job]*entry // Open ones.
	changed chan struct{}           // Closed when any incident next changes.
	passive int                     // Number of the last request through the API.
	running int
}

// entry is an incident with what the manager remembers beside it.
type entry struct {
	Incident
	due       time.Time // When to analyse next; zero: not.
	running   bool
	again     bool // A trigger arrived while an analysis ran.
	attempt   int
	pastDue   time.Time     // Until then the present alone is looked at: the past was fetched lately.
	looks     int           // How often it was since a trigger came.
	candidate string        // Accusation of the analysis before.
	lookedAt  time.Time     // When that one began.
	crashes   int           // Analyses that crashed, or ended the process, since one ended well.
	calmUntil time.Time     // When an analysis last found a benign reason.
	changed   chan struct{} // Closed at the next change.
}

// mostCrashes is how often an incident's analysis may crash in a row. After that it is left alone, so that the other jobs are
// watched; its triggers still show.
const mostCrashes = 2

func (e *entry) quarantined() bool { return e.crashes >= mostCrashes }

// NewManager makes a manager. Incidents that the store holds are taken over.
func NewManager(opt Options, analyze Analyze, publish Publish, store *Store, logger *slog.Logger, reg prometheus.Registerer, clk clock.Clock) (*Manager, error) {
	m := &Manager{
		analyze: analyze,
		publish: publish,
		store:   store,
		logger:  logger,
		clock:   clk,
		wake:    make(chan struct{}, 1),
		opt:     opt,
		entries: map[string]*entry{},
		openJob: map[identity.Job]*entry{},
		changed: make(chan struct{}),
	}
	m.metrics = newMetrics(reg, m)
	if store == nil {
		return m, nil
	}
	stored, err := store.Load()
	if err != nil {
		return nil, err
	}
	now := m.clock.Now()
	for _, inc := range stored {
		e := &entry{Incident: inc, changed: make(chan struct{}), crashes: store.Unended(inc.ID)}
		if e.quarantined() {
			logger.Error("incident in quarantine: its analysis crashed the analyzer", "incident", inc.ID, "job_id", inc.Job(), "crashes", e.crashes)
		}
		m.entries[inc.ID] = e
		if inc.State == Open && m.openJob[inc.Job()] == nil {
			m.openJob[inc.Job()] = e
			e.due = now
			publish(e.clone())
		}
	}
	m.prune()
	return m, nil
}

// Apply changes the bounds.
func (m *Manager) Apply(opt Options) {
	m.mu.Lock()
	m.opt = opt
	m.mu.Unlock()
	m.poke()
}

// Receive takes triggers, firing or ended, any number of times. It opens incidents for jobs that have none and
// schedules an analysis where a trigger is new. All are taken or, with ErrOverloaded, none.
func (m *Manager) Receive(triggers []Trigger) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	triggers = slices.DeleteFunc(slices.Clone(triggers), func(t Trigger) bool {
		if len(t.JobID) <= maxName && len(t.Key) <= maxName && labelBytes(t.JobLabels) <= maxLabels {
			return false
		}
		m.metrics.refused.WithLabelValues("names").Inc()
		return true
	})
	fresh := map[identity.Job]bool{}
	for i := range triggers {
		if t := &triggers[i]; t.Firing() && m.openJob[t.Job()] == nil {
			fresh[t.Job()] = true
		}
	}
	if !m.makeRoom(fresh) {
		m.metrics.refused.WithLabelValues("incidents").Add(float64(len(triggers)))
		return ErrOverloaded
	}
	// The earliest trigger opens, so that the id does not hang on the order of arrival.
	ordered := slices.Clone(triggers)
	slices.SortStableFunc(ordered, func(a, b Trigger) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.Key, b.Key))
	})
	now := m.clock.Now()
	var changed []*entry
	for i := range ordered {
		if e := m.receive(&ordered[i], now); e != nil && !slices.Contains(changed, e) {
			changed = append(changed, e)
		}
	}
	for _, e := range changed { // Once for all that was said of it: an incident may have a thousand triggers.
		m.touch(e, now)
	}
	m.poke()
	return nil
}

func (m *Manager) known(job identity.Job) bool { return m.opt.Known == nil || m.opt.Known(job) }

// makeRoom tells whether incidents can be opened for some jobs. Jobs that are not watched have half of the places, and give even
// those up to jobs that are: anybody can make up a job.
func (m *Manager) makeRoom(fresh map[identity.Job]bool) bool {
	watched, others := 0, 0
	for job := range fresh {
		if m.known(job) {
			watched++
		} else {
			others++
		}
	}
	var made []*entry // Open ones of jobs that are not watched, the least informative first.
	for job, e := range m.openJob {
		if !m.known(job) {
			made = append(made, e)
		}
	}
	if others > 0 && (len(made)+others > max(1, m.opt.MaxOpen/2) || len(m.openJob)+len(fresh) > m.opt.MaxOpen) {
		return false
	}
	tooMany := len(m.openJob) + watched - m.opt.MaxOpen
	if watched == 0 || tooMany <= 0 {
		return true
	}
	if tooMany > len(made) {
		return false
	}
	slices.SortFunc(made, func(a, b *entry) int { return b.OpenedAt.Compare(a.OpenedAt) })
	now := m.clock.Now()
	for _, e := range made[:tooMany] {
		m.logger.Warn("dropping an incident of an unknown job to make room", "incident", e.ID, "job_id", e.Job())
		m.metrics.refused.WithLabelValues("incidents").Add(float64(len(e.Triggers)))
		for i := range e.Triggers {
			if e.Triggers[i].Firing() {
				e.Triggers[i].EndedAt = &now
			}
		}
		m.resolve(e, now)
	}
	return true
}

// fit cuts a trigger to what an incident keeps.
func (m *Manager) fit(t *Trigger, e *entry) {
	held := 0
	for i := range e.Triggers {
		held += labelBytes(e.Triggers[i].Labels)
	}
	if n := labelBytes(t.Labels); n > maxLabels || held+n > maxIncidentLabels {
		m.metrics.refused.WithLabelValues("labels").Inc()
		t.Labels = nil
	}
	for _, text := range []*string{&t.Name, &t.Comm, &t.Instance, &t.Severity} {
		*text = cut(*text, maxName)
	}
	t.Summary = cut(t.Summary, maxText)
}

func labelBytes(labels map[string]string) int {
	n := 0
	for k, v := range labels {
		n += len(k) + len(v)
	}
	return n
}

// cut gives a text's beginning, in memory of its own: the rest is not kept alive.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:most]), "")
}

// receive takes one trigger and gives the incident that it changed, if any.
func (m *Manager) receive(t *Trigger, now time.Time) *entry {
	e := m.openJob[t.Job()]
	if e == nil {
		if !t.Firing() {
			return nil // The end of something that nobody knows here.
		}
		if m.past(t, now) {
			m.metrics.refused.WithLabelValues("past").Inc()
			return nil
		}
		e = m.open(t, now)
	}
	known := e.trigger(t.Key)
	switch {
	case known == nil && !t.Firing():
		return nil
	case known == nil:
		if len(e.Triggers) >= maxTriggers {
			m.metrics.refused.WithLabelValues("triggers").Inc()
			return nil
		}
		m.fit(t, e)
		t.ReceivedAt, t.LastHeardAt = now, now
		e.Triggers = append(e.Triggers, *t)
		m.schedule(e, now)
	case !t.Firing():
		if !known.Firing() || t.StartedAt.Before(known.StartedAt) { // The late end of an earlier time.
			return nil
		}
		known.EndedAt = &now
		known.LastHeardAt = now
	default:
		known.LastHeardAt = now
		if known.Firing() {
			return nil // Said again.
		}
		// It fires again, or a late repetition says so: Alertmanager's list will tell.
		received := known.ReceivedAt
		known.Labels = nil // They leave their room to the new ones.
		m.fit(t, e)
		*known = *t
		known.ReceivedAt, known.LastHeardAt = received, now
		m.schedule(e, now)
	}
	return e
}

// Past reports whether a trigger tells of the time before the end of its job's last incident. Nothing new is known then.
func (m *Manager) Past(t *Trigger) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.past(t, m.clock.Now())
}

// past compares when the trigger was true with the ends of its job's incidents, and with its own in one that is still open. It was true
// before one where Prometheus could not note that the alert ended, since it was killed or its disk was full: queries then give the last
// sample for five minutes. And where the machine's clock has been set back: rules and queries see the past again. A person who asks always
// means now.
func (m *Manager) past(t *Trigger, now time.Time) bool {
	if t.Passive {
		return false
	}
	at := cmp.Or(t.TrueAt, now).Round(0) // Without the monotonic clock, which is never set back.
	for _, e := range m.entries {
		if e.Job() != t.Job() {
			continue
		}
		if e.ResolvedAt != nil && at.Before(e.ResolvedAt.Round(0)) {
			return true
		}
		endedSince := func(o Trigger) bool { return o.Key == t.Key && o.EndedAt != nil && t.TrueAt.Before(o.EndedAt.Round(0)) }
		if !t.TrueAt.IsZero() && slices.ContainsFunc(e.Triggers, endedSince) {
			return true // It would keep an incident that is about to end open.
		}
	}
	return false
}

func (m *Manager) open(t *Trigger, now time.Time) *entry {
	id := ID(t.Job(), t.StartedAt)
	e := m.entries[id]
	if e == nil {
		e = &entry{changed: make(chan struct{}), Incident: Incident{
			Version: Version, ID: id, JobID: t.JobID, JobLabels: t.JobLabels, OpenedAt: now,
		}}
		m.entries[id] = e
		m.logger.Info("incident opened", "incident", id, "job_id", t.Job(), "trigger", t.Name)
	} else {
		m.logger.Info("incident opened again", "incident", id, "job_id", t.Job(), "trigger", t.Name)
	}
	if e.toldOfStandstill() {
		e.ToldUntil = e.ResolvedAt
	}
	e.State, e.ResolvedAt, e.attempt, e.candidate = Open, nil, 0, ""
	m.noteEnd(e)
	e.calmUntil = time.Time{}
	e.Flow, e.Rounds = nil, nil
	e.Verdict, e.VerdictAt, e.Since, e.Latest, e.Benign = nil, nil, nil, nil, false // What was true then pages nobody now.
	m.openJob[t.Job()] = e
	return e
}

// schedule asks for an analysis at once, and begins its backoff anew.
func (m *Manager) schedule(e *entry, now time.Time) {
	e.attempt, e.looks, e.pastDue = 0, 0, time.Time{}
	if e.running {
		e.again = true
		return
	}
	e.due = now
}

// touch records a change: it is stored, published and seen by those who wait.
func (m *Manager) touch(e *entry, now time.Time) {
	e.UpdatedAt = now
	close(e.changed)
	e.changed = make(chan struct{})
	close(m.changed)
	m.changed = make(chan struct{})
	c := e.clone()
	if m.store != nil {
		m.store.Save(c)
	}
	m.publish(c)
}

// NextPassive gives the key of a new request through the API.
func (m *Manager) NextPassive() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passive++
	return m.passive
}

// OpenFor gives the open incident of a job.
func (m *Manager) OpenFor(job identity.Job) (Incident, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.openJob[job]; e != nil {
		return e.clone(), true
	}
	return Incident{}, false
}

// Get gives one incident.
func (m *Manager) Get(id string) (Incident, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[id]
	if e == nil {
		return Incident{}, false
	}
	return e.clone(), true
}

// Changes gives a channel that is closed when any incident next changes.
func (m *Manager) Changes() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// List gives all incidents: open ones first, then the newest first.
func (m *Manager) List() []Incident {
	m.mu.Lock()
	out := make([]Incident, 0, len(m.entries))
	for _, e := range m.entries {
		out = append(out, e.clone())
	}
	m.mu.Unlock()
	slices.SortFunc(out, func(a, b Incident) int {
		return cmp.Or(cmp.Compare(a.State, b.State), b.OpenedAt.Compare(a.OpenedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Wait returns when an analysis later than the given number has ended, or the context.
func (m *Manager) Wait(ctx context.Context, id string, after int) (Incident, error) {
	for {
		m.mu.Lock()
		e := m.entries[id]
		if e == nil {
			m.mu.Unlock()
			return Incident{}, errors.New("no such incident")
		}
		inc, changed := e.clone(), e.changed
		m.mu.Unlock()
		if inc.Count > after {
			return inc, nil
		}
		select {
		case <-ctx.Done():
			return inc, ctx.Err()
		case <-changed:
		}
	}
}

func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// prune drops the oldest resolved incidents over the bound.
func (m *Manager) prune() {
	var resolved []*entry
	for _, e := range m.entries {
		if e.State == Resolved && !e.running {
			resolved = append(resolved, e)
		}
	}
	if len(resolved) <= m.opt.History {
		return
	}
	slices.SortFunc(resolved, func(a, b *entry) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	for _, e := range resolved[:len(resolved)-m.opt.History] {
		m.drop(e)
	}
}

// drop forgets an incident and all that is kept of it.
func (m *Manager) drop(e *entry) {
	delete(m.entries, e.ID)
	if m.opt.Forget != nil {
		m.opt.Forget(e.ID)
	}
	if m.store != nil {
		m.store.Delete(e.ID)
	}
}
