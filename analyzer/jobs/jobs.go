// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package jobs tells how a running job is doing, from what Prometheus has of all its ranks. No incident is needed.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/layout"
)

// Job is a running job as Prometheus shows it. Numbers are 0 where nobody knows them.
type Job struct {
	ID        identity.Job
	At        time.Time
	Window    time.Duration // That rates are taken over.
	WorldSize int
	Ranks     []incident.RankView
	Hosts     int
	Layout    *layout.Layout
	Comms     []Comm
	// Iteration is the mean length of an iteration now, seconds, and Before that of the last hour, while no trigger fired.
	Iteration, Before float64
	Functions         []Function
	Parallel          []Parallel
	// Others is what an average rank is inside operations that have no communicator's series, barriers among them, seconds an iteration.
	Others float64
	// Transfers are the last operations by size of rank TransfersOf, as its exporter shows them.
	Transfers    []Transfer
	TransfersOf  int
	MicroBatches int
	Late         []Share // Ranks that are inside operations less than others: those wait for them.
	Claimed      []int   // Ranks that living processes on several nodes claim to be: two jobs have one id.
	Lost         float64 // Events that exporters could not keep, within Window.
	Missing      []string
}

// Comm is all communicators of one name and size. Numbers at the end of a name are left out: "tp_0" and "tp_1" are one.
type Comm struct {
	Name                string
	Size, Nodes, Number int
}

// Function is what a rank does by one function in one iteration, on average.
type Function struct {
	Name                string
	Ops, Bytes, Seconds float64
	// Bandwidth is bytes over the time inside, by the rank that waits least, bytes a second. Bus is the bus bandwidth as nccl-tests
	// have it; 0 where the function is used in communicators of several sizes, or has no such.
	Bandwidth, Bus float64
}

// Parallel is the time that a rank is inside operations of communicators of one kind in one iteration, seconds. Operations that overlap count each.
type Parallel struct {
	Kind  layout.Kind // Empty: nobody knows.
	Names []string    // Of the communicators, without numbers at their ends.
	Mean  float64     // Of the job's ranks.
	Least float64     // Of the rank that is inside least, which waits least for others.
}

// Share is how much of its time a rank is inside operations, summed over those that overlap: 1.5 with two at a time for half of it.
type Share struct {
	Rank   int
	Host   string
	Inside float64
	Median float64 // Of the rank's pipeline stage: stages have different work.
}

// Listed is a job in the list of jobs.
type Listed struct {
	ID    identity.Job
	Ranks int
}

// ErrUnknown says that Prometheus knows no such job.
var ErrUnknown = errors.New("prometheus knows no such job")

// fresh is for how long an answer serves again: pages ask for it as often as their readers like.
const fresh = 5 * time.Second

// mostCached bounds the jobs whose answers are kept.
const mostCached = 32

// Source asks Prometheus. It asks for one job at a time, however many pages are open.
type Source struct {
	query     evidence.Querier
	cfg       config.Prometheus
	directory *evidence.Directory
	exporters Exporters

	mu     sync.Mutex
	cached map[identity.Job]*Job
}

// NewSource makes a source; a nil querier knows no jobs, and without exporters nothing is told of single operations.
func NewSource(query evidence.Querier, cfg config.Prometheus, directory *evidence.Directory, exporters Exporters) *Source {
	return &Source{query: query, cfg: cfg, directory: directory, exporters: exporters, cached: map[identity.Job]*Job{}}
}

// List gives the jobs that run, by their ids.
func (s *Source) List(ctx context.Context) ([]Listed, error) {
	up, err := config.Query(s.cfg.Queries.Up, identity.IDLabel+`!=""`)
	if err != nil {
		return nil, err
	}
	v, err := s.vector(ctx, strings.NewReplacer("{up}", up, "{identity}", strings.Join(append([]string{identity.IDLabel}, s.cfg.JobLabels...), ", ")).Replace(queries.jobs))
	if err != nil {
		return nil, err
	}
	out := make([]Listed, 0, len(v))
	for _, x := range v {
		out = append(out, Listed{ID: identity.Of(x.Metric, s.cfg.JobLabels), Ranks: int(x.Value)})
	}
	slices.SortFunc(out, func(a, b Listed) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
	return out, nil
}

// Get gives a job. What Prometheus does not answer is in Missing.
func (s *Source) Get(ctx context.Context, id identity.Job, now time.Time) (*Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.cached[id]; j != nil && now.Sub(j.At) < fresh {
		return j, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Duration(s.cfg.Timeout)) // Of all queries: other readers wait.
	defer cancel()
	j, err := s.ask(ctx, id, now)
	if err != nil {
		return nil, err
	}
	for old, x := range s.cached {
		if now.Sub(x.At) >= fresh || len(s.cached) >= mostCached {
			delete(s.cached, old)
		}
	}
	s.cached[id] = j
	return j, nil
}

func (s *Source) ask(ctx context.Context, id identity.Job, now time.Time) (*Job, error) {
	if s.query == nil {
		return nil, errors.New("no prometheus is configured")
	}
	processes, err := s.directory.Processes(ctx, id)
	if len(processes) == 0 {
		if err != nil {
			return nil, err
		}
		return nil, ErrUnknown
	}
	j := &Job{ID: id, At: now, Window: 2 * s.directory.RateWindow(ctx)}
	a := asker{s: s, ctx: ctx, selector: id.Selector(), window: model.Duration(j.Window).String(), j: j}
	a.note(err)
	a.ranks(processes)
	a.comms()
	j.Iteration, j.Before = a.number(queries.iteration), a.number(queries.iterationBefore)
	a.functions()
	a.parallel()
	a.shares()
	a.transfers(processes)
	j.Lost = a.number(queries.lost)
	return j, nil
}

func (s *Source) vector(ctx context.Context, query string) (model.Vector, error) {
	if s.query == nil {
		return nil, errors.New("no prometheus is configured")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.cfg.Timeout))
	defer cancel()
	value, _, _, err := s.query.Query(ctx, query, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("asking prometheus for %s: %w", query, err)
	}
	v, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("asking prometheus for %s: the answer is a %T, want a vector", query, value)
	}
	return slices.DeleteFunc(v, func(x *model.Sample) bool {
		return x == nil || math.IsNaN(float64(x.Value)) || math.IsInf(float64(x.Value), 0)
	}), nil
}

// asker asks for one job.
type asker struct {
	s        *Source
	ctx      context.Context // An asker lives for one request.
	selector string
	window   string // Of rates: a few iterations of most jobs.
	j        *Job
	hosts    map[int]string
	info     string // The query of the job's communicators.
}

func (a *asker) note(err error) {
	if err != nil {
		a.j.Missing = append(a.j.Missing, err.Error())
	}
}

// get asks one of the queries.
func (a *asker) get(query string) model.Vector {
	ours := "{" + matchers(a.selector, a.s.cfg.ExporterSelector)
	v, err := a.s.vector(a.ctx, strings.NewReplacer(
		"{job}", ours+"}", "{job,", ours+",", "{recorded}", "{"+ofWhole(a.selector, a.s.cfg.RecordedSelector)+"}", "{window}", a.window,
	).Replace(query))
	a.note(err)
	return v
}

// matchers joins matchers of which either may be empty.
func matchers(a, b string) string { return strings.Trim(a+","+b, ",") }

// ofWhole selects what rules record of a job as a whole; of few hosts they record each as well.
func ofWhole(job, recorded string) string { return matchers(matchers(job, recorded), `instance=""`) }

// filled asks a query of the configuration.
func (a *asker) filled(template string) model.Vector {
	text, err := config.Query(template, a.selector)
	if err != nil {
		a.note(err)
		return nil
	}
	return a.get(text)
}

func (a *asker) number(query string) float64 {
	if v := a.get(query); len(v) > 0 {
		return float64(v[0].Value)
	}
	return 0
}

// stuckAfter is the time without progress from which a rank counts as stuck, seconds.
const stuckAfter = 2

func (a *asker) ranks(processes []evidence.Process) {
	byRank := func(v model.Vector) map[int]float64 {
		out := make(map[int]float64, len(v))
		for _, x := range v {
			if rank, err := strconv.Atoi(string(x.Metric["rank"])); err == nil {
				out[rank] = max(out[rank], float64(x.Value))
			}
		}
		return out
	}
	living := a.filled(a.s.cfg.Queries.Up)
	up, stalled := byRank(living), byRank(a.filled(a.s.cfg.Queries.Stalled))
	a.j.Claimed = claimed(living)
	a.hosts = map[int]string{}
	hosts := map[string]bool{}
	for i := range processes {
		p := &processes[i]
		if _, known := a.hosts[p.Rank]; known {
			continue // Several claim to be it.
		}
		a.hosts[p.Rank] = p.Host
		hosts[p.Host] = true
		a.j.WorldSize = max(a.j.WorldSize, p.WorldSize)
		v := incident.RankView{Rank: p.Rank, Host: p.Host, GPU: p.GPU, State: "unseen"}
		switch alive, known := up[p.Rank]; {
		case known && alive == 0:
			v.State = "gone"
		case known && stalled[p.Rank] >= stuckAfter:
			v.State, v.Text = "stuck", fmt.Sprintf("no progress for %.1f s", stalled[p.Rank])
		case known:
			v.State = "moving"
		}
		a.j.Ranks = append(a.j.Ranks, v)
	}
	slices.SortFunc(a.j.Ranks, func(x, y incident.RankView) int { return cmp.Compare(x.Rank, y.Rank) })
	a.j.Hosts = len(hosts)
}

// claimed gives the ranks that living processes claim to be to more than one exporter.
func claimed(up model.Vector) []int {
	where := map[int]map[model.LabelValue]bool{}
	for _, x := range up {
		rank, err := strconv.Atoi(string(x.Metric["rank"]))
		if err != nil || rank < 0 || x.Value != 1 {
			continue
		}
		if where[rank] == nil {
			where[rank] = map[model.LabelValue]bool{}
		}
		where[rank][x.Metric[model.InstanceLabel]] = true
	}
	var out []int
	for rank, instances := range where {
		if len(instances) > 1 {
			out = append(out, rank)
		}
	}
	slices.Sort(out)
	return out
}

// mostComms bounds the communicators that the layout is inferred from.
const mostComms = 32

// comms asks what communicators there are, and for the members of those of one rank: they have one of each kind.
func (a *asker) comms() {
	text, err := config.Query(a.s.cfg.Queries.Comms, a.selector)
	if err != nil {
		a.note(err)
		return
	}
	number := map[Comm]int{}
	a.info = text
	for _, x := range a.get(strings.ReplaceAll(queries.comms, "{comms}", text)) {
		c := Comm{Name: family(string(x.Metric["comm_name"]))}
		c.Size, _ = strconv.Atoi(string(x.Metric["nranks"]))
		c.Nodes, _ = strconv.Atoi(string(x.Metric["nnodes"]))
		number[c] += int(x.Value)
	}
	for c, members := range number {
		c.Number = (members + max(1, c.Size) - 1) / max(1, c.Size)
		a.j.Comms = append(a.j.Comms, c)
	}
	slices.SortFunc(a.j.Comms, func(x, y Comm) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Size, y.Size), cmp.Compare(x.Nodes, y.Nodes))
	})
	if len(a.j.Ranks) == 0 {
		return
	}
	first := strconv.Itoa(a.j.Ranks[0].Rank)
	own, err := config.Query(a.s.cfg.Queries.Comms, a.selector+","+evidence.Selector("rank", first))
	if err != nil {
		a.note(err)
		return
	}
	var ids []string
	for _, x := range a.get(own) {
		if id := string(x.Metric["comm"]); !slices.Contains(ids, id) && len(ids) < mostComms {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	members, err := a.s.directory.Members(a.ctx, a.j.ID, ids)
	a.note(err)
	a.j.Layout = layout.Infer(a.j.WorldSize, groups(members))
}

// groups puts members together; those of a communicator that are not all known are left out.
func groups(members []evidence.Member) []layout.Group {
	type key struct {
		comm string
		size int
	}
	byComm := map[key]*layout.Group{}
	for i := range members {
		m := &members[i]
		if m.CommRank < 0 || m.CommRank >= m.NRanks || m.NRanks > 1<<20 {
			continue
		}
		k := key{m.Comm, m.NRanks}
		g := byComm[k]
		if g == nil {
			g = &layout.Group{Name: m.Name}
			byComm[k] = g
		}
		for len(g.Members) <= m.CommRank {
			g.Members = append(g.Members, -1)
		}
		g.Members[m.CommRank] = m.Rank
	}
	var out []layout.Group
	for k, g := range byComm {
		if len(g.Members) == k.size {
			out = append(out, *g)
		}
	}
	return out
}

// family is a communicator's name without the number at its end.
func family(name string) string {
	trimmed := strings.TrimRight(strings.TrimRight(name, "0123456789"), "_-. ")
	if trimmed == "" {
		return name
	}
	return trimmed
}

func (a *asker) functions() {
	byName := map[string]*Function{}
	set := func(query string, field func(*Function) *float64) {
		for _, x := range a.get(query) {
			name := string(x.Metric["function"])
			if byName[name] == nil {
				byName[name] = &Function{Name: name}
			}
			*field(byName[name]) = float64(x.Value)
		}
	}
	set(queries.ops, func(f *Function) *float64 { return &f.Ops })
	set(queries.bytes, func(f *Function) *float64 { return &f.Bytes })
	set(queries.seconds, func(f *Function) *float64 { return &f.Seconds })
	set(queries.bandwidth, func(f *Function) *float64 { return &f.Bandwidth })
	size := a.onlySize()
	for _, f := range byName {
		if f.Ops == 0 && f.Bandwidth == 0 {
			continue
		}
		f.Bus = f.Bandwidth * busFactor(f.Name, size)
		a.j.Functions = append(a.j.Functions, *f)
	}
	slices.SortFunc(a.j.Functions, func(x, y Function) int { return cmp.Or(cmp.Compare(y.Seconds, x.Seconds), cmp.Compare(x.Name, y.Name)) })
	if a.j.Layout == nil {
		return
	}
	if _, piped := a.j.Layout.Axis(layout.Pipeline); !piped {
		return
	}
	for _, x := range a.get(queries.fewestOps) {
		if string(x.Metric["function"]) == "Send" {
			a.j.MicroBatches = int(math.Round(float64(x.Value)))
		}
	}
}

// parallel asks how long ranks are inside operations of each kind of communicators.
func (a *asker) parallel() {
	if a.info == "" {
		return
	}
	byKind := map[layout.Kind]*Parallel{}
	set := func(query string, field func(*Parallel) *float64) {
		for _, x := range a.get(strings.ReplaceAll(query, "{comms}", a.info)) {
			name := string(x.Metric["comm_name"])
			size, _ := strconv.Atoi(string(x.Metric["nranks"])) // No axis has 0.
			kind := a.j.Layout.KindOf(name, size)
			p := byKind[kind]
			if p == nil {
				p = &Parallel{Kind: kind}
				byKind[kind] = p
			}
			if !slices.Contains(p.Names, name) {
				p.Names = append(p.Names, name)
			}
			*field(p) += float64(x.Value)
		}
	}
	set(queries.byComm, func(p *Parallel) *float64 { return &p.Mean })
	set(queries.leastByComm, func(p *Parallel) *float64 { return &p.Least })
	for _, p := range byKind {
		slices.Sort(p.Names)
		a.j.Parallel = append(a.j.Parallel, *p)
	}
	slices.SortFunc(a.j.Parallel, func(x, y Parallel) int { return cmp.Or(cmp.Compare(y.Mean, x.Mean), cmp.Compare(x.Kind, y.Kind)) })
	a.j.Others = a.number(strings.ReplaceAll(queries.others, "{comms}", a.info))
}

// onlySize gives the size of the job's communicators where all that have more than one rank have the same, else 0.
func (a *asker) onlySize() int {
	size := 0
	for _, c := range a.j.Comms {
		if c.Size < 2 {
			continue
		}
		if size != 0 && c.Size != size {
			return 0
		}
		size = c.Size
	}
	return size
}

// mostLate bounds the late ranks that are listed.
const mostLate = 10

// shares lists the ranks that are inside operations for less time than the others of their pipeline stage, those with least first.
func (a *asker) shares() {
	stage := func(int) int { return 0 }
	if a.j.Layout != nil {
		if axis, piped := a.j.Layout.Axis(layout.Pipeline); piped {
			stage = axis.Place
		}
	}
	byStage := map[int][]Share{}
	for _, x := range a.get(queries.inside) {
		if rank, err := strconv.Atoi(string(x.Metric["rank"])); err == nil && rank >= 0 {
			byStage[stage(rank)] = append(byStage[stage(rank)], Share{Rank: rank, Host: a.hosts[rank], Inside: float64(x.Value)})
		}
	}
	for _, list := range byStage {
		slices.SortFunc(list, func(x, y Share) int { return cmp.Compare(x.Inside, y.Inside) })
		median := list[len(list)/2].Inside
		for _, s := range list[:min(len(list), mostLate)] {
			if s.Inside < median {
				s.Median = median
				a.j.Late = append(a.j.Late, s)
			}
		}
	}
	slices.SortFunc(a.j.Late, func(x, y Share) int {
		return cmp.Or(cmp.Compare(y.Median-y.Inside, x.Median-x.Inside), cmp.Compare(x.Rank, y.Rank))
	})
	a.j.Late = a.j.Late[:min(len(a.j.Late), mostLate)]
}
