// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
)

// Querier is the part of Prometheus's API that the analyzer uses.
type Querier interface {
	Query(ctx context.Context, query string, ts time.Time, opts ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error)
}

// Process is one process of a job, as Prometheus knows it.
type Process struct {
	Rank      int
	Host      string
	GPU       string
	Pod       string
	PID       int
	Owner     string // User that it runs as, from the kernel; empty unknown.
	SlurmJob  string // Slurm job that it runs in, from the kernel; empty unknown.
	WorldSize int    // 0 unknown.
	Instance  string
	Labels    map[string]string
	Live      bool // Scraped now, not only within the lookback.
}

// Member is one rank's place in one communicator.
type Member struct {
	Comm     string // Identifier in culprit_nccl_comm_info.
	Name     string
	NRanks   int
	CommRank int
	Rank     int
	Instance string
}

// Directory knows which processes belong to a job. It asks Prometheus, and remembers the answers for times when Prometheus does
// not answer.
type Directory struct {
	query   Querier // Nil: no Prometheus.
	cfg     config.Prometheus
	observe func(err error)
	clock   clock.Clock

	mu    sync.Mutex
	known map[identity.Job]remembered // By job.
	// interval is the scrape interval of the exporters as measured at intervalAt; 0 unknown.
	interval   time.Duration
	intervalAt time.Time

	listing sync.Mutex // Held while Prometheus is asked for its targets.
	targets targets
	pushed  map[string]bool // Instances that are not among them, and have series of exporters.
}

type remembered struct {
	processes []Process // One for each claim.
	at        time.Time
}

// rememberFor is how long a job's membership is kept after it was last seen.
const rememberFor = time.Hour

// ErrIncomplete says that a store is missing from an answer. A Querier returns the partial answer with it.
var ErrIncomplete = errors.New("the answer is incomplete")

// errNoPrometheus says that no Prometheus is configured.
var errNoPrometheus = errors.New("no prometheus is configured")

// NewDirectory makes a directory. It calls observe with the outcome of each query.
func NewDirectory(query Querier, cfg config.Prometheus, observe func(error), clk clock.Clock) *Directory {
	return &Directory{query: query, cfg: cfg, observe: observe, clock: clk, known: map[identity.Job]remembered{}}
}

// Inherit copies what another directory remembers.
func (d *Directory) Inherit(from *Directory) {
	from.mu.Lock()
	defer from.mu.Unlock()
	maps.Copy(d.known, from.known)
	d.interval, d.intervalAt, d.targets = from.interval, from.intervalAt, from.targets
}

// Processes gives a job's processes in the order of their ranks, one for each claim. For a job that was looked up a short while
// ago it asks only for changes: reading the labels of ten thousand processes takes longer than all else. When Prometheus does not
// answer, or answers in part, it returns the remembered processes with the error; where none are remembered, those of the partial
// answer.
func (d *Directory) Processes(ctx context.Context, job identity.Job) ([]Process, error) {
	before := d.recall(job)
	if age := d.clock.Now().Sub(before.at); len(before.processes) > 0 && age < 2*time.Duration(d.cfg.RefreshInterval) {
		found, sure, err := d.changed(ctx, job, before.processes, age)
		if err != nil {
			return before.processes, err
		}
		if sure {
			return found, nil
		}
	}
	processes, err := d.ask(ctx, job)
	found := perClaim(processes[job])
	if err != nil {
		if len(before.processes) > 0 {
			return before.processes, err
		}
		return found, err
	}
	if len(found) > 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.known[job] = remembered{found, d.clock.Now()}
	}
	return found, nil
}

// recall gives what is remembered of a job. Of a job without an owner that is what is remembered of all of its name.
func (d *Directory) recall(job identity.Job) remembered {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, known := d.known[job]; known || job.Owner() != "" {
		return r
	}
	var r remembered
	for other, of := range d.known {
		if other.ID == job.ID && other.OwnedBy("") == job {
			r.processes = append(slices.Clip(r.processes), of.processes...)
			if r.at.IsZero() || of.at.Before(r.at) {
				r.at = of.at
			}
		}
	}
	r.processes = perClaim(r.processes)
	return r
}

// Owners gives whom the remembered jobs of a name belong to; without those whose exporters do not tell.
func (d *Directory) Owners(job identity.Job) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for other := range d.known {
		if owner := other.Owner(); owner != "" && other.ID == job.ID && other.OwnedBy("") == job.OwnedBy("") {
			out = append(out, owner)
		}
	}
	slices.Sort(out)
	return out
}

// Knows reports whether any remembered answer of Prometheus had processes of a job.
func (d *Directory) Knows(job identity.Job) bool { return len(d.recall(job).processes) > 0 }

// Scraped reports whether Prometheus scrapes an exporter with this instance label, or did lately. When Prometheus does not
// answer, it looks at the remembered processes.
func (d *Directory) Scraped(ctx context.Context, instance string) (bool, error) {
	text, err := config.Query(d.cfg.Queries.Exporters, Selector("instance", instance))
	if err != nil {
		return false, err
	}
	vector, err := d.vector(ctx, fmt.Sprintf("last_over_time(%s[%s])", text, d.cfg.Lookback))
	if err == nil {
		return len(d.ours(ctx, vector)) > 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.known {
		if slices.ContainsFunc(r.processes, func(p Process) bool { return p.Instance == instance }) {
			return true, err
		}
	}
	return false, err
}

// Refresh looks up the processes of all jobs in advance.
func (d *Directory) Refresh(ctx context.Context) error {
	processes, err := d.askAll(ctx)
	if err != nil {
		return err
	}
	now := d.clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for job, list := range processes {
		d.known[job] = remembered{perClaim(list), now}
	}
	for job, r := range d.known {
		if now.Sub(r.at) > rememberFor {
			delete(d.known, job)
		}
	}
	return nil
}

// changed updates processes that were looked up a while ago. sure is false where the result has not as many processes as
// Prometheus counts: a claim that existed only at the moment of the look-up has come and gone unseen.
func (d *Directory) changed(ctx context.Context, job identity.Job, before []Process, age time.Duration) (list []Process, sure bool, err error) {
	now, err := config.Query(d.cfg.Queries.Processes, job.Selector())
	if err != nil {
		return nil, false, err
	}
	then := fmt.Sprintf("%s offset %s", now, model.Duration(age.Round(time.Second)+time.Second))
	alive := 0
	for i := range before {
		if before[i].Live {
			alive++
		}
	}
	if same, err := d.vector(ctx, fmt.Sprintf("count(%s and %s) == count(%s)", now, then, now)); err != nil {
		return nil, false, err
	} else if len(same) == 1 && int(same[0].Value) == alive {
		return before, true, nil // Nothing has come or gone. The count rules out a rank that is there twice.
	}
	var came, went, count model.Vector
	var cameErr, wentErr, countErr error
	var wg sync.WaitGroup
	wg.Go(func() { count, countErr = d.vector(ctx, "count("+now+")") })
	wg.Go(func() { came, cameErr = d.vector(ctx, now+" unless "+then) })
	wg.Go(func() { went, wentErr = d.vector(ctx, then+" unless "+now) })
	wg.Wait()
	if err := errors.Join(cameErr, wentErr, countErr); err != nil {
		return nil, false, err
	}
	type key struct {
		rank, pid int
		instance  string
	}
	keyOf := func(p *Process) key { return key{p.Rank, p.PID, p.Instance} }
	live := map[key]bool{}
	out := slices.Clone(before)
	for i, vector := range [2]model.Vector{went, came} {
		for _, s := range d.ours(ctx, vector) {
			if p, ok := d.process(s.Metric); ok && (job.Owner() == "" || p.Owner == job.Owner()) {
				live[keyOf(&p)] = i == 1
				p.Live = i == 1
				out = append(out, p)
			}
		}
	}
	all := map[key]bool{}
	for i := range out {
		if is, told := live[keyOf(&out[i])]; told {
			out[i].Live = is
		}
		if out[i].Live {
			all[keyOf(&out[i])] = true
		}
	}
	total := 0
	if len(count) == 1 {
		total = int(count[0].Value)
	}
	return perClaim(out), len(all) == total, nil
}

// ask gives the processes of a job, with an owner or without, under the job.
func (d *Directory) ask(ctx context.Context, job identity.Job) (map[identity.Job][]Process, error) {
	return d.read(ctx, job.Selector(), func(m model.Metric, p *Process) identity.Job {
		if job.Owner() == "" || p.Owner == job.Owner() {
			return job
		}
		return d.jobOf(m, p)
	})
}

// askAll gives the processes of all jobs.
func (d *Directory) askAll(ctx context.Context) (map[identity.Job][]Process, error) {
	return d.read(ctx, everyJob, d.jobOf)
}

// jobOf gives the job that a process belongs to.
func (d *Directory) jobOf(m model.Metric, p *Process) identity.Job {
	job := identity.Of(m, d.cfg.JobLabels)
	if slices.Contains(d.cfg.JobLabels, identity.OwnerLabel) {
		return job.OwnedBy(p.Owner)
	}
	return job
}

// read gives processes by job: those scraped now and those within the lookback, because a host that died takes its series with it
// at the next scrape. It returns a partial answer together with the error.
func (d *Directory) read(ctx context.Context, selector string, jobOf func(model.Metric, *Process) identity.Job) (map[identity.Job][]Process, error) {
	text, err := config.Query(d.cfg.Queries.Processes, selector)
	if err != nil {
		return nil, err
	}
	var live, gone model.Vector
	var liveErr, goneErr error
	var wg sync.WaitGroup
	wg.Go(func() { live, liveErr = d.vector(ctx, text) })
	wg.Go(func() {
		gone, goneErr = d.vector(ctx, fmt.Sprintf("last_over_time(%s[%s]) unless %s", text, d.cfg.Lookback, text))
	})
	wg.Wait()
	out := map[identity.Job][]Process{}
	add := func(vector model.Vector, isLive bool) {
		for _, s := range d.ours(ctx, vector) {
			if p, ok := d.process(s.Metric); ok {
				p.Live = isLive
				job := jobOf(s.Metric, &p)
				out[job] = append(out[job], p)
			}
		}
	}
	add(live, true)
	add(gone, false)
	return out, errors.Join(liveErr, goneErr)
}

// ownerIn gives the owner that a series tells. Exporters of earlier releases tell the user of a process in uid alone.
func ownerIn(m model.Metric) string {
	return string(cmp.Or(m[identity.OwnerLabel], m["uid"]))
}

func (d *Directory) process(m model.Metric) (Process, bool) {
	rank, err := strconv.Atoi(string(m["rank"]))
	if err != nil || rank < 0 {
		return Process{}, false
	}
	p := Process{
		Rank:     rank,
		Host:     string(m["host"]),
		GPU:      string(m["gpu"]),
		Pod:      string(cmp.Or(m["exported_pod"], m["pod"])), // The first where the exporter runs in a pod itself.
		Instance: string(m["instance"]),
		Owner:    ownerIn(m),
		Labels:   make(map[string]string, len(m)),
	}
	if m[identity.OwnerLabel] != "" { // Exporters of earlier releases show what the process says.
		p.SlurmJob = string(m["slurm_job_id"])
	}
	if d.cfg.HostLabel != "" {
		p.Host = boundHost(string(m[model.LabelName(d.cfg.HostLabel)]), p.Instance)
	}
	p.PID, _ = strconv.Atoi(string(m["pid"]))
	p.WorldSize, _ = strconv.Atoi(string(m["world_size"]))
	for k, v := range m {
		p.Labels[string(k)] = string(v)
	}
	return p, true
}

// Members gives the members of some of a job's communicators, or of all where none are given.
func (d *Directory) Members(ctx context.Context, job identity.Job, comms []string) ([]Member, error) {
	selector := job.Selector()
	if len(comms) > 0 {
		selector += "," + selectorOneOf("comm", comms)
	}
	return d.members(ctx, selector)
}

func (d *Directory) members(ctx context.Context, selector string) ([]Member, error) {
	text, err := config.Query(d.cfg.Queries.Comms, selector)
	if err != nil {
		return nil, err
	}
	vector, err := d.vector(ctx, fmt.Sprintf("last_over_time(%s[%s])", text, d.cfg.Lookback))
	if err != nil {
		return nil, err
	}
	vector = d.ours(ctx, vector)
	out := make([]Member, 0, len(vector))
	for _, s := range vector {
		rank, err := strconv.Atoi(string(s.Metric["rank"]))
		if err != nil {
			continue
		}
		m := Member{Comm: string(s.Metric["comm"]), Name: string(s.Metric["comm_name"]), Rank: rank, CommRank: -1, Instance: string(s.Metric["instance"])}
		if n, err := strconv.Atoi(string(s.Metric["comm_rank"])); err == nil {
			m.CommRank = n
		}
		m.NRanks, _ = strconv.Atoi(string(s.Metric["nranks"]))
		out = append(out, m)
	}
	return out, nil
}

// Stalled gives the ranks that have made no progress for longest.
func (d *Directory) Stalled(ctx context.Context, job identity.Job, most int) ([]int, error) {
	text, err := config.Query(d.cfg.Queries.Stalled, job.Selector())
	if err != nil {
		return nil, err
	}
	vector, err := d.vector(ctx, fmt.Sprintf("topk(%d, %s)", most, text))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, s := range vector {
		if rank, err := strconv.Atoi(string(s.Metric["rank"])); err == nil && s.Value > 0 {
			out = append(out, rank)
		}
	}
	slices.Sort(out)
	return out, nil
}

// standingAfter is the time without progress from which a rank counts as standing still, in seconds: the engine's default.
const standingAfter = 2

// Standing gives how many of the job's ranks stand still; 0 none or unknown.
func (d *Directory) Standing(ctx context.Context, job identity.Job) (int, error) {
	text, err := config.Query(d.cfg.Queries.Stalled, job.Selector())
	if err != nil {
		return 0, err
	}
	vector, err := d.vector(ctx, fmt.Sprintf("count(max by (rank) (%s) >= %d)", text, standingAfter))
	if err != nil || len(vector) == 0 || !(vector[0].Value > 0) {
		return 0, err
	}
	return int(vector[0].Value), nil
}

// Pace gives how many operations a rank of the job completes per second, on average; 0 unknown.
func (d *Directory) Pace(ctx context.Context, job identity.Job) (float64, error) {
	text, err := config.QueryBefore(d.cfg.Queries.Pace, job.Selector(), d.RateWindow(ctx), 0)
	if err != nil {
		return 0, err
	}
	vector, err := d.vector(ctx, text)
	if err != nil || len(vector) == 0 || !(vector[0].Value > 0) {
		return 0, err
	}
	return float64(vector[0].Value), nil
}

// longest gives the longest time that a query finds within the window; 0 none or unknown.
func (d *Directory) longest(ctx context.Context, query string, job identity.Job, window time.Duration) (time.Duration, error) {
	text, err := config.QueryOver(query, job.Selector(), window)
	if err != nil {
		return 0, err
	}
	vector, err := d.vector(ctx, text)
	if err != nil || len(vector) == 0 || !(vector[0].Value > 0) {
		return 0, err
	}
	return time.Duration(float64(vector[0].Value) * float64(time.Second)), nil
}

// Count is how many operations a rank has started and completed on a communicator; -1 unknown.
type Count struct {
	Comm               string
	Rank               int
	Started, Completed int64
	Instance           string
}

// Counts gives the operation counts of all members of some communicators, as of the last scrape.
func (d *Directory) Counts(ctx context.Context, job identity.Job, comms []string) ([]Count, error) {
	selector := job.Selector() + "," + selectorOneOf("comm", comms)
	var started, completed model.Vector
	var startedErr, completedErr error
	var wg sync.WaitGroup
	wg.Go(func() { started, startedErr = d.filled(ctx, d.cfg.Queries.Started, selector) })
	wg.Go(func() { completed, completedErr = d.filled(ctx, d.cfg.Queries.Completed, selector) })
	wg.Wait()
	if err := errors.Join(startedErr, completedErr); err != nil {
		return nil, err
	}
	type key struct{ comm, rank, instance model.LabelValue }
	keyOf := func(m model.Metric) key { return key{m["comm"], m["rank"], m["instance"]} }
	started = d.ours(ctx, started)
	done := make(map[key]int64, len(completed))
	for _, s := range completed {
		done[keyOf(s.Metric)] = int64(s.Value)
	}
	out := make([]Count, 0, len(started))
	for _, s := range started {
		rank, err := strconv.Atoi(string(s.Metric["rank"]))
		if err != nil {
			continue
		}
		c := Count{Comm: string(s.Metric["comm"]), Rank: rank, Started: int64(s.Value), Completed: -1, Instance: string(s.Metric["instance"])}
		if n, known := done[keyOf(s.Metric)]; known {
			c.Completed = n
		}
		out = append(out, c)
	}
	return out, nil
}

func (d *Directory) filled(ctx context.Context, template, selector string) (model.Vector, error) {
	text, err := config.Query(template, selector)
	if err != nil {
		return nil, err
	}
	return d.vector(ctx, text)
}

func (d *Directory) vector(ctx context.Context, query string) (model.Vector, error) {
	if d.query == nil {
		return nil, errNoPrometheus
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.cfg.Timeout))
	defer cancel()
	v, err := d.answer(ctx, query)
	d.observe(err)
	if err != nil {
		return v, fmt.Errorf("asking prometheus for %s: %w", query, err)
	}
	return v, nil
}

// answer runs one query, and returns a partial answer together with the error. It recovers from panics, because most queries run
// in goroutines of their own.
func (d *Directory) answer(ctx context.Context, query string) (v model.Vector, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("reading the answer panicked: %v", r)
		}
	}()
	value, _, _, err := d.query.Query(ctx, query, time.Time{})
	if err != nil && !errors.Is(err, ErrIncomplete) {
		return nil, err
	}
	v, isVector := value.(model.Vector)
	if !isVector {
		return nil, errors.Join(err, fmt.Errorf("the answer is a %T, want a vector", value))
	}
	return slices.DeleteFunc(v, func(s *model.Sample) bool { return s == nil }), err // A sample can be "null" in JSON.
}

// Selector gives an equality matcher of PromQL.
func Selector(label, value string) string { return label + "=" + strconv.Quote(value) }

func selectorOneOf(label string, values []string) string {
	var pattern []byte
	for i, v := range values {
		if i > 0 {
			pattern = append(pattern, '|')
		}
		pattern = append(pattern, regexp.QuoteMeta(v)...)
	}
	return label + "=~" + strconv.Quote(string(pattern))
}
