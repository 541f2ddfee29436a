// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/app"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/diagnose"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// service is the analyzer, as the program puts it together, on a world's time.
type service struct {
	*world
	cfg       *config.Config
	manager   *incident.Manager
	diagnoser *diagnose.Diagnoser
	nodes     *fetched
	engine    func(rca.Evidence, rca.Options) rca.Verdict
	refreshed time.Time // When the membership of jobs was last read ahead.

	heard    []told               // Notifications of triggers that fire.
	incident *incident.Incident   // The newest, as last published.
	pagedAt  time.Time            // When a verdict first paged.
	saidAt   map[string]time.Time // When each accusation was first said.
	course   []event              // What happened, in order.
	newest   analysis             // Whatever became of it.
	last     analysis             // The newest that the service's verdict rests on.
	ev       *rca.Evidence        // Of the newest analysis of all.
	rests    *kept.Record         // What the verdict of the incident rests on.
	passive  int
}

// told is when the analyzer heard of a trigger.
type told struct {
	at      time.Duration
	trigger string
	kind    incident.Kind
}

// event is something that the service heard or said.
type event struct {
	at   time.Duration
	text string
}

func (s *service) note(format string, args ...any) {
	s.course = append(s.course, event{s.job.Now(), fmt.Sprintf(format, args...)})
}

// analysis is one of the Diagnoser's, and what it cost.
type analysis struct {
	request incident.Request
	outcome incident.Outcome
	ev      *rca.Evidence
	ranks   int // Asked for their state.
}

// configuration is the service's own, but for the limits on real time: it stands still here while an analysis runs.
func configuration() (*config.Config, error) {
	const unhurried = model.Duration(time.Hour)
	cfg := config.Default()
	cfg.Prometheus.Timeout, cfg.Analysis.Deadline = unhurried, unhurried
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("checking the configuration: %w", err)
	}
	return cfg, nil
}

// newService puts an analyzer into a world. engine stands for engine.Analyze.
func newService(w *world, engine func(rca.Evidence, rca.Options) rca.Verdict) (*service, error) {
	cfg, err := configuration()
	if err != nil {
		return nil, err
	}
	s := &service{world: w, cfg: cfg, engine: engine, nodes: &fetched{NodeAPI: w.job, ranks: map[int32]bool{}}, saidAt: map[string]time.Time{}}
	s.diagnoser = s.newDiagnoser(s.nodes, nil)
	s.diagnoser.Engine = func(ev rca.Evidence, opt rca.Options) rca.Verdict {
		s.ev = &ev
		return engine(ev, opt)
	}
	bounds := app.Bounds(cfg)
	bounds.Keep = func(_ string, rests *kept.Record) { s.last, s.rests = s.newest, rests }
	s.manager, err = incident.NewManager(bounds, s.analyze, s.publish, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), w)
	if err != nil {
		return nil, err
	}
	w.deliver = s.receive
	return s, nil
}

// newDiagnoser puts a Diagnoser together that remembers nothing. hidden exporters have never been scraped; nil: none.
func (s *service) newDiagnoser(nodes evidence.NodeAPI, hidden func(instance string) bool) *diagnose.Diagnoser {
	return &diagnose.Diagnoser{
		Config: s.cfg.Analysis, Logger: slog.New(slog.DiscardHandler), Clock: s.world, Engine: s.engine,
		Gatherer: &evidence.Gatherer{
			Directory: evidence.NewDirectory(s.mon.Queries(s.Now, hidden), s.cfg.Prometheus, func(error) {}, s.world),
			Exporters: s.cfg.Exporters, Nodes: nodes,
		},
	}
}

// receive is the webhook.
func (s *service) receive(m *webhook.Message) error {
	found, _ := app.Triggers(m.Alerts, s.cfg.Labels, s.Now())
	for i := range found {
		s.note("%s %s", found[i].Name, map[bool]string{true: "fires", false: "ends"}[found[i].Firing()])
		if found[i].Firing() {
			s.heard = append(s.heard, told{s.job.Now(), found[i].Name, found[i].Kind})
		}
	}
	return s.manager.Receive(found)
}

// simulatedOwner is whom simulated processes run as.
const simulatedOwner = "0"

// ask is what a person does who finds the job slow.
func (s *service) ask(jobID string) error {
	s.passive++
	return s.manager.Receive([]incident.Trigger{{
		Key: fmt.Sprintf("api-%d", s.passive), Name: "API request", JobID: jobID, JobLabels: identity.Job{}.OwnedBy(simulatedOwner).Labels(), Rank: -1, Passive: true, StartedAt: s.Now(),
	}})
}

const notedHypotheses = 3 // Of each look.

func (s *service) analyze(ctx context.Context, req incident.Request) (incident.Outcome, error) {
	s.nodes.begin()
	defer func() {
		if p := recover(); p != nil { // The manager goes on after a crash; a run that had one has failed.
			s.failed = fmt.Errorf("the analysis crashed: %v\n%s", p, debug.Stack())
			panic(p)
		}
	}()
	out, err := s.diagnoser.Diagnose(ctx, req)
	if err == nil {
		s.note("looks: %s, weight %.2f, page %v: %s", accusation(&out.Verdict), out.Verdict.Weight, out.Verdict.Page, out.Verdict.Summary)
		for _, h := range out.Verdict.Hypotheses[:min(notedHypotheses, len(out.Verdict.Hypotheses))] {
			s.note("  %s %v %s: weight %.2f, saves %.3f, %s", h.Row, h.Ranks, h.Group, h.Weight, h.Saves, h.Reason)
		}
	}
	s.newest = analysis{request: req, outcome: out, ev: s.ev, ranks: s.nodes.count()}
	return out, err
}

func (s *service) publish(inc incident.Incident) {
	s.incident = &inc
	if inc.Verdict == nil {
		return
	}
	if key := accusation(inc.Verdict); s.saidAt[key].IsZero() {
		s.saidAt[key] = s.Now()
	}
	if s.pagedAt.IsZero() && inc.State == incident.Open && inc.Verdict.Page {
		s.pagedAt = s.Now()
	}
}

// accusation is class and first-named of a verdict.
func accusation(v *rca.Verdict) string {
	if len(v.Culprits) == 0 {
		return string(v.Class)
	}
	return fmt.Sprintf("%s %d %s", v.Class, v.Culprits[0].Rank, v.Culprits[0].Group)
}

// verdict is what the service says: healthy as long as nobody asked.
func (s *service) verdict() *rca.Verdict {
	if s.incident == nil || s.incident.Verdict == nil {
		return &rca.Verdict{Class: rca.Healthy}
	}
	return s.incident.Verdict
}

// work goes on to a moment, or until done, and does on the way what the program's loops do.
func (s *service) work(ctx context.Context, until time.Duration, done func() bool) error {
	for {
		if s.Now().Sub(s.refreshed) >= time.Duration(s.cfg.Prometheus.RefreshInterval) {
			s.refreshed = s.Now()
			if err := s.diagnoser.Gatherer.Directory.Refresh(ctx); err != nil {
				return fmt.Errorf("reading memberships ahead: %w", err)
			}
		}
		due := s.manager.Work(ctx)
		if s.failed != nil {
			return s.failed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		now := s.job.Now()
		if done() || now >= until {
			return nil
		}
		if err := s.world.until(ctx, min(until, now+due, max(now, s.mon.Next().Sub(s.epoch)))); err != nil {
			return err
		}
	}
}

// fetched counts the ranks that exporters are asked about.
type fetched struct {
	evidence.NodeAPI
	mu    sync.Mutex
	ranks map[int32]bool
}

func (f *fetched) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranks = map[int32]bool{}
}

func (f *fetched) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ranks)
}

// State implements evidence.NodeAPI.
func (f *fetched) State(ctx context.Context, base, jobID string, ranks []int, comms []string, take func(int64) bool) (*nodeapi.State, int64, error) {
	st, size, err := f.NodeAPI.State(ctx, base, jobID, ranks, comms, take)
	if st != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range st.Processes {
			f.ranks[st.Processes[i].Rank] = true
		}
	}
	return st, size, err
}
