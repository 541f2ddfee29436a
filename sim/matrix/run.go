// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/sim/stack"
)

// Runner runs cases on a cluster, one after another.
type Runner struct {
	Cluster *stack.Stack
	BinDir  string
	// Scratch is a directory for what a second plugin writes.
	Scratch string
	// Evidence is where what is known of a wrong case is kept; empty: nowhere.
	Evidence string
	Hosts    int
	Ranks    int
	Layout   string
	runs     int
}

// How long a job trains before its fault, and how long is waited for what comes of it. No case is judged by these: they are
// generous, for a loaded machine, and only say when to give up.
const (
	warmupSteps = 40
	// Slowness shows against a past of this length and of so many steps.
	slowWarmup      = 100 * time.Second
	slowWarmupSteps = 150
	trainLimit      = 5 * time.Minute
	injectLimit     = time.Minute
	hangLimit       = 2 * time.Minute
	slowLimit       = 3 * time.Minute
	// Ranks that wait for a communicator are given 300 s by the shipped rules.
	callLimit = 7 * time.Minute
	// openLimit is for what need not be named.
	openLimit = 45 * time.Second
	// settle is how long after the page more may come.
	settle = 5 * time.Second
)

// pollUS is how many microseconds NCCL's threads sleep between two looks. Else those of one job keep two cores busy, and ranks wait
// for a processor where on a real host they would not.
const pollUS = 500

// Result is what came of a case.
type Result struct {
	Case
	Judgement
	Build    string   `json:"build"`
	Commit   string   `json:"commit"`
	Ended    string   `json:"ended"` // When, in RFC 3339.
	Rank     int      `json:"rank"`
	Seconds  float64  `json:"seconds"` // That the case took.
	Load     float64  `json:"load"`    // The machine's load average over a minute at its end.
	Triggers []string `json:"triggers,omitempty"`
	Pages    []Said   `json:"pages,omitempty"`
	Verdicts []Said   `json:"verdicts,omitempty"`
	Evidence string   `json:"evidence,omitempty"` // Where more is kept.
}

// Run runs one case. The error says that the context ended; whatever else goes wrong is the result.
func (r *Runner) Run(ctx context.Context, c Case, lib nccl.Library) (Result, error) {
	start := time.Now()
	ranks := r.ranks(c)
	rank := rankOf(c, ranks)
	result := Result{Case: c, Rank: rank}
	fault, ok := stack.FindFault(c.Fault)
	if !ok {
		return result, fmt.Errorf("no fault %q", c.Fault)
	}
	r.runs++
	w := &watch{
		cluster: r.Cluster, jobID: fmt.Sprintf("%s-%s-%s-%d", c.Fault, c.Mode, c.Version, r.runs),
		seen: Seen{
			Fault: SightOf(c).shown(fault), Duty: SightOf(c).Duty(fault), Rank: rank, With: r.fellows(c, fault, rank),
			Host: r.Cluster.HostName(r.Cluster.HostOfRank(rank, ranks)), GPU: strconv.Itoa(rank % (ranks / r.Hosts)),
		},
	}
	w.warm(fault)
	err := w.run(ctx, r.job(c, lib, w))
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	result.Triggers, result.Pages, result.Verdicts = w.seen.Triggers, w.seen.Pages, w.seen.Verdicts
	if err != nil {
		result.Judgement = Judgement{Status: Broken, Why: err.Error()}
	} else {
		result.Judgement = Judge(&w.seen)
	}
	if result.Status == Wrong || result.Status == Broken {
		var kept error
		if result.Evidence, kept = r.keep(ctx, w, c.Name(), &result); kept != nil {
			result.Why += "\n(not all evidence was kept: " + kept.Error() + ")"
		}
	}
	w.stop()
	result.Seconds, result.Load, result.Ended = time.Since(start).Seconds(), load(), time.Now().UTC().Format(time.RFC3339)
	return result, nil
}

// rankOf chooses the faulty rank: another one in each case, always the same in one. Rank 0 reports the steps.
func rankOf(c Case, ranks int) int {
	h := fnv.New32a()
	fmt.Fprint(h, c.Name())
	return 1 + int(h.Sum32()%uint32(ranks-1))
}

// ranksPerProcess is how many ranks a process that drives several GPUs has.
const ranksPerProcess = 4

// ranks is how many ranks the job of a case has.
func (r *Runner) ranks(c Case) int {
	if c.Mode.several() {
		return ranksPerProcess * r.Hosts
	}
	return r.Ranks
}

// fellows gives the ranks that a fault befalls beside its own: what happens to a process happens to all its ranks.
func (r *Runner) fellows(c Case, f stack.Fault, rank int) []int {
	if !c.Mode.several() || f.Kind() != "stop" && f.Kind() != "kill" {
		return nil
	}
	var out []int
	for fellow := rank - rank%ranksPerProcess; len(out) < ranksPerProcess-1; fellow++ {
		if fellow != rank {
			out = append(out, fellow)
		}
	}
	return out
}

// job gives the job of a case.
func (r *Runner) job(c Case, lib nccl.Library, w *watch) stack.JobConfig {
	cfg := stack.JobConfig{
		ID: w.jobID, Ranks: r.ranks(c), Layout: r.Layout, Fault: w.seen.Fault.Name, Rank: w.seen.Rank, FaultAtStep: -1,
	}
	if c.Mode.several() {
		cfg.RanksPerProcess, cfg.Layout = ranksPerProcess, fmt.Sprintf("dp%d,tp2", cfg.Ranks/2)
	}
	switch c.Mode {
	case JAX:
		cfg.Layout, cfg.Args = fmt.Sprintf("dp%d,tp%d", r.Hosts, ranksPerProcess), []string{"--cliques=dp,tp", "--ahead=1"}
	case Apart:
		cfg.Layout, cfg.Args = fmt.Sprintf("dp%d,tp%d", r.Hosts, ranksPerProcess), []string{"--cliques=dp"}
	}
	OnLibrary(&cfg, lib, c.Mode, r.BinDir)
	if c.Mode == Chain {
		r.chain(&cfg)
	}
	return cfg
}

// chain puts a second plugin behind the shim.
func (r *Runner) chain(cfg *stack.JobConfig) {
	cfg.Env = append(cfg.Env, "CULPRIT_CHAIN="+filepath.Join(r.BinDir, "libnccl-recorder.so"), "RECORDER_DIR="+r.Scratch)
}

// OnLibrary has a job run on a real library, watched as the mode says. Mode Chain needs to be told of the second plugin.
func OnLibrary(cfg *stack.JobConfig, lib nccl.Library, mode Mode, binDir string) {
	intra := "net"
	if mode == SHM {
		intra = "shm"
	}
	cfg.Args = append(cfg.Args, "--intra="+intra)
	onLibrary(cfg, lib, binDir, mode != Hooks, mode == Hooks || mode == SHM)
}

// onLibrary has a job run on a real library, with the plugin, the preloaded hooks, or both.
func onLibrary(cfg *stack.JobConfig, lib nccl.Library, binDir string, plugin, hooks bool) {
	cfg.Launcher = filepath.Join(binDir, "ncclrun")
	cfg.Env = append(cfg.Env, "NCCL_LIB="+lib.Path, "NCCL_LAYOUT="+lib.Layout)
	cfg.Args = append(cfg.Args, "--poll-us="+strconv.Itoa(pollUS))
	if plugin {
		// Some releases take no path for the plugin, others no short name; all take a file name on the library path.
		cfg.Env = append(cfg.Env, "NCCL_PROFILER_PLUGIN=libnccl-profiler-culprit.so", "LD_LIBRARY_PATH="+binDir)
	}
	if hooks {
		cfg.Env = append(cfg.Env, "LD_PRELOAD="+filepath.Join(binDir, "libculprit-preload.so"))
	}
}

// watch follows one job.
type watch struct {
	cluster *stack.Stack
	jobID   string
	job     *stack.Job
	zero    time.Time // When the fault began.
	seen    Seen
	// The fault begins by itself, or after so many steps and so long.
	atOnce      bool
	warmupSteps int
	warmup      time.Duration
	patience    time.Duration // Of the analyzer with a rank that stays away, beyond that of the short lists.
	named       time.Duration // How long the page that names a rank may come after the first one; 0: as long as that.
	quiet       time.Duration // How long a job in which nobody is at fault is watched at least.
}

// warm says how long a job trains before its fault.
func (w *watch) warm(f stack.Fault) {
	w.atOnce, w.warmupSteps, w.quiet = f.StartsAtOnce(), warmupSteps, settle
	if f.Slow {
		w.warmupSteps, w.warmup = slowWarmupSteps, slowWarmup
	}
}

func (w *watch) stop() {
	if w.job != nil {
		w.job.Stop()
	}
}

// run takes the job through its fault and notes what is said of it.
func (w *watch) run(ctx context.Context, cfg stack.JobConfig) error {
	var err error
	if w.job, err = w.cluster.StartJob(ctx, cfg); err != nil {
		return err
	}
	if err := w.reachFault(ctx); err != nil {
		return errors.Join(err, w.gather(ctx))
	}
	if w.seen.Duty == Nobody {
		err = w.trainOn(ctx)
	} else {
		err = w.untilPaged(ctx)
	}
	return errors.Join(err, w.gather(ctx))
}

// reachFault trains the job and starts its fault.
func (w *watch) reachFault(ctx context.Context) error {
	var err error
	if w.atOnce {
		w.zero, err = within(ctx, trainLimit, w.job.WaitFault)
		return err
	}
	err = w.train(ctx, w.warmupSteps, w.warmup)
	w.zero = time.Now()
	if err == nil && w.seen.Fault.InjectedBySignal() {
		w.zero, err = within(ctx, injectLimit, w.job.Inject)
	}
	return err
}

func within[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f(ctx)
}

// train waits until the job has done so many steps more and has trained for so long.
func (w *watch) train(ctx context.Context, steps int, length time.Duration) error {
	done := time.After(length)
	until := w.job.Step() + steps
	_, err := within(ctx, trainLimit, func(ctx context.Context) (struct{}, error) { return struct{}{}, w.job.WaitStep(ctx, until) })
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-w.job.Done():
		return fmt.Errorf("job %s ended while it trained", w.jobID)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// trainOn watches a job in which nobody is at fault: through its pause, and for some time after it.
func (w *watch) trainOn(ctx context.Context) error {
	steps := 2 * warmupSteps
	if w.seen.Fault.Kind() == "none" {
		steps = 4 * warmupSteps
	}
	return w.train(ctx, steps, w.quiet)
}

// untilPaged waits for the page, or for so long that none will come, and then for what follows it. The first page may tell of a host
// whose ranks run in step, before the node has told which of their GPUs is slow; where a rank is due, its page is waited for.
func (w *watch) untilPaged(ctx context.Context) error {
	limit := hangLimit
	switch {
	case w.seen.Duty != MustName:
		limit = openLimit + w.patience
	case w.seen.Fault.Slow:
		limit = slowLimit
	case w.seen.Fault.Kind() == "init-hang", w.seen.Fault.Kind() == "split-hang":
		limit = callLimit
	}
	await := func(limit time.Duration, wanted func(*stack.Page) bool) error {
		_, err := within(ctx, limit, func(ctx context.Context) (stack.Page, error) { return w.cluster.WaitPageThat(ctx, w.jobID, wanted) })
		return err
	}
	var err error
	if w.named > 0 {
		err = await(limit, func(*stack.Page) bool { return true })
		limit = w.named
	}
	if err == nil {
		err = await(limit, func(p *stack.Page) bool { return w.seen.Duty != MustName || len(ranksOf(p.Labels["rank"])) > 0 })
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	// Whether it came or not is for the judge to say.
	select {
	case <-time.After(settle):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gather notes everything that was said of the job.
func (w *watch) gather(ctx context.Context) error {
	triggers, err := w.cluster.Triggers(ctx, w.jobID)
	if err != nil {
		return err
	}
	for _, t := range triggers {
		if name := t.Labels["alertname"]; !slices.Contains(w.seen.Triggers, name) {
			w.seen.Triggers = append(w.seen.Triggers, name)
		}
	}
	for _, p := range w.cluster.Pages(w.jobID) {
		w.seen.Pages = append(w.seen.Pages, pageSaid(p.Labels, p.Annotations, p.At, w.zero))
	}
	// What Alertmanager still holds back is a page, too: it sends no second one of a job at once.
	alerts, err := w.cluster.Verdicts(ctx, w.jobID)
	if err != nil {
		return err
	}
	for _, a := range alerts {
		said := pageSaid(a.Labels, a.Annotations, a.StartsAt, w.zero)
		paged := slices.ContainsFunc(w.seen.Pages, func(p Said) bool { return slices.Equal(p.Ranks, said.Ranks) })
		if severity := a.Labels["severity"]; !paged && (severity == "critical" || severity == "warning") {
			w.seen.Pages = append(w.seen.Pages, said)
		}
	}
	incidents, err := w.cluster.Incidents(ctx, w.jobID)
	if err != nil {
		return err
	}
	for _, i := range incidents {
		if i.Verdict != nil {
			w.seen.Verdicts = append(w.seen.Verdicts, verdictSaid(i.Verdict, i.State != "open"))
			// An incident has triggers, though they may be over.
			if len(w.seen.Triggers) == 0 {
				w.seen.Triggers = append(w.seen.Triggers, "incident "+i.ID)
			}
		}
	}
	return nil
}

// load gives the machine's load average over a minute.
func load() float64 {
	var l float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &l)
	}
	return l
}
