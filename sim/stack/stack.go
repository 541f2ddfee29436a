// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package stack runs a small cluster of real processes on loopback: ringjob ranks on simulated hosts, one exporter a
// host, the analyzer, Prometheus, Alertmanager and a pager that keeps what it is sent. The demo and the end-to-end
// tests run on it.
package stack

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/culprit-project/culprit/internal/ports"
)

// Config says where things are. All paths are absolute.
type Config struct {
	Root     string // Repository root: rules/ and deploy/ are taken from it.
	BinDir   string // culprit-exporter, culprit-analyzer, ringjob, the shim.
	ToolsDir string // alertmanager, and what Storage needs: prometheus, victoria-metrics and vmalert, thanos, mimir.
	Dir      string // Scratch: configuration, logs, data; removed by nobody but the caller.
	Hosts    int
	// MoreHosts are groups of further hosts, by their sizes, that have jobs of their own: a test may break something there.
	MoreHosts []int
	// GPUs is how many GPUs of each host are played to its exporter; 0: the exporter finds no NVML.
	GPUs int
	// Rules are the rule files, as a glob; empty: those of the repository.
	Rules string
	// Alertmanager is Alertmanager's configuration file, with the addresses of the shipped one, which empty stands for.
	Alertmanager string
	// Analyzer is the analyzer's configuration file; empty: none.
	Analyzer string
	// Patience is the analyzer's analysis.patience.at_least; 0: its default. It needs Analyzer empty.
	Patience time.Duration
	// Discovery are URLs of Prometheus's HTTP service discovery that tell of further exporters, such as simulated ones.
	Discovery []string
	// Scrapes are further scrape configurations, each an element of a YAML list.
	Scrapes []string
	// Storage is what keeps the series, evaluates the rules and answers queries.
	Storage Storage
	// Pairs runs two analyzers and two Alertmanagers side by side, as a site has them whose pages may not fail with one of them.
	Pairs bool
	// PeerTimeout is how long the second of a pair of Alertmanagers waits for the first before it notifies; 0: Alertmanager's default.
	PeerTimeout time.Duration
	// AnalyzerStorage keeps incidents over a restart.
	AnalyzerStorage bool
	// Triggers has the exporters post their own triggers to Alertmanager, beside those of the rules.
	Triggers bool
	// Interval is Prometheus's scrape and evaluation interval.
	Interval time.Duration
	Log      *slog.Logger
}

type host struct {
	name   string
	addr   string // Of its exporter.
	traces string // Its trace files: the launcher's name for it.
	proc   *process
}

// instance is one of several processes of a service.
type instance struct {
	addr string
	mesh string // Where Alertmanagers tell each other what they have sent.
	proc *process
}

// Stack is the running cluster.
type Stack struct {
	cfg       Config
	traceRoot string
	hosts     []host
	pager     *pager

	analyzerFile string // Written for Config.Patience; empty: none.

	prometheusAddr string
	prometheus     *process   // What answers queries, whatever Config.Storage is.
	alertmanagers  []instance // One, or a pair.
	analyzers      []instance
	rulerAddr      string
	ruler          *process     // Of Victoria and Thanos: what evaluates the rules.
	scrapers       []scraper    // Of Thanos and Mimir.
	gateway        *http.Server // Of Mimir.

	mu   sync.Mutex
	jobs []*Job
}

// Start brings everything up and waits until it answers.
func Start(ctx context.Context, cfg Config) (_ *Stack, err error) {
	s := &Stack{cfg: cfg, traceRoot: filepath.Join(cfg.Dir, "trace")}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	each := 1
	if cfg.Pairs {
		each = 2
	}
	all := cfg.Hosts
	for _, n := range cfg.MoreHosts {
		all += n
	}
	addrs, err := ports.Free(2 + 3*each + all)
	if err != nil {
		return nil, err
	}
	take := func() string {
		next := addrs[0]
		addrs = addrs[1:]
		return next
	}
	s.prometheusAddr, s.rulerAddr = take(), take()
	for range each {
		s.alertmanagers = append(s.alertmanagers, instance{addr: take(), mesh: take()})
		s.analyzers = append(s.analyzers, instance{addr: take()})
	}
	if s.pager, err = startPager(); err != nil {
		return nil, err
	}
	for group := range 1 + len(cfg.MoreHosts) {
		first, hosts := s.group(group)
		for i := range hosts {
			h := host{name: fmt.Sprintf("node%d", first+i), traces: filepath.Join(s.groupDir(group), fmt.Sprintf("host%d", i)), addr: take()}
			if err := os.MkdirAll(h.traces, 0o755); err != nil {
				return nil, fmt.Errorf("making the trace directory of %s: %w", h.name, err)
			}
			s.hosts = append(s.hosts, h)
		}
	}
	if err := s.writeConfig(); err != nil {
		return nil, err
	}
	for _, start := range []func() error{s.startExporters, s.startAlertmanagers, s.startStorage, s.startAnalyzers} {
		if err := start(); err != nil {
			return nil, err
		}
	}
	return s, s.waitReady(ctx)
}

func (s *Stack) startExporters() error {
	env, err := s.playGPUs()
	if err != nil {
		return err
	}
	for i := range s.hosts {
		h := &s.hosts[i]
		args := []string{
			"--web.listen-address=" + h.addr,
			"--trace.dir=" + h.traces,
			"--host-name=" + h.name,
			"--no-trace.search", // The processes of all played hosts are this host's.
		}
		if s.cfg.Triggers {
			for _, a := range s.alertmanagers {
				args = append(args, "--trigger.url=http://"+a.addr)
			}
		}
		h.proc, err = startProcess(s.cfg.Dir, "exporter-"+h.name, env[i], nil, filepath.Join(s.cfg.BinDir, "culprit-exporter"), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// numbered is the name of a process of a service: the first has the service's own.
func numbered(service string, i int) string {
	if i == 0 {
		return service
	}
	return fmt.Sprintf("%s-%d", service, i)
}

func (s *Stack) startAlertmanagers() (err error) {
	for i := range s.alertmanagers {
		name := numbered("alertmanager", i)
		args := []string{
			"--config.file=" + filepath.Join(s.cfg.Dir, alertmanagerFile),
			"--storage.path=" + filepath.Join(s.cfg.Dir, name+"-data"),
			"--web.listen-address=" + s.alertmanagers[i].addr,
			"--log.level=warn",
		}
		if s.cfg.Pairs {
			args = append(args, "--cluster.listen-address="+s.alertmanagers[i].mesh, "--cluster.peer="+s.alertmanagers[1-i].mesh,
				"--cluster.advertise-address="+s.alertmanagers[i].mesh)
			if s.cfg.PeerTimeout != 0 {
				args = append(args, "--cluster.peer-timeout="+s.cfg.PeerTimeout.String())
			}
		} else {
			args = append(args, "--cluster.listen-address=")
		}
		if s.alertmanagers[i].proc, err = startProcess(s.cfg.Dir, name, nil, nil, filepath.Join(s.cfg.ToolsDir, "alertmanager"), args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) startAnalyzers() (err error) {
	for i := range s.analyzers {
		name := numbered("analyzer", i)
		args := []string{
			"serve",
			"--web.listen-address=" + s.analyzers[i].addr,
			"--web.external-url=" + s.AnalyzerURL(), // One address for both, as behind a load balancer.
			"--prometheus.url=" + s.PrometheusURL(),
			"--config.file=" + cmp.Or(s.cfg.Analyzer, s.analyzerFile),
		}
		for _, a := range s.alertmanagers {
			args = append(args, "--alertmanager.url=http://"+a.addr)
		}
		if s.cfg.AnalyzerStorage {
			args = append(args, "--storage.path="+filepath.Join(s.cfg.Dir, name+"-data"))
		}
		if s.analyzers[i].proc, err = startProcess(s.cfg.Dir, name, nil, nil, filepath.Join(s.cfg.BinDir, "culprit-analyzer"), args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, h := range s.hosts {
		if err := h.proc.waitHTTP(ctx, "http://"+h.addr+"/-/healthy"); err != nil {
			return err
		}
	}
	for _, a := range s.alertmanagers {
		if err := a.proc.waitHTTP(ctx, "http://"+a.addr+"/-/ready"); err != nil {
			return err
		}
	}
	if err := s.waitStorage(ctx); err != nil {
		return err
	}
	for _, a := range s.analyzers {
		if err := a.proc.waitHTTP(ctx, "http://"+a.addr+"/-/ready"); err != nil {
			return err
		}
	}
	return nil
}

// Close ends every process. It is safe on a stack that came up half.
func (s *Stack) Close() {
	s.mu.Lock()
	jobs := s.jobs
	s.jobs = nil
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, j := range jobs {
		wg.Go(j.Stop)
	}
	wg.Wait()
	for _, p := range s.processes() {
		wg.Go(p.stop)
	}
	wg.Wait()
	if s.gateway != nil {
		_ = s.gateway.Close()
	}
	if s.pager != nil {
		s.pager.stop()
	}
}

// processes gives all that have been started.
func (s *Stack) processes() []*process {
	procs := []*process{s.ruler, s.prometheus}
	for _, i := range slices.Concat(s.analyzers, s.alertmanagers) {
		procs = append(procs, i.proc)
	}
	for _, sc := range s.scrapers {
		procs = append(procs, sc.sidecar, sc.prometheus)
	}
	for _, h := range s.hosts {
		procs = append(procs, h.proc)
	}
	return slices.DeleteFunc(procs, func(p *process) bool { return p == nil })
}

// PrometheusURL, AlertmanagerURL and AnalyzerURL are where one can look.
func (s *Stack) PrometheusURL() string {
	if s.cfg.Storage == Mimir {
		return "http://" + s.prometheusAddr + "/prometheus"
	}
	return "http://" + s.prometheusAddr
}

// RulesURL is where the rules are evaluated.
func (s *Stack) RulesURL() string {
	if s.ruler == nil {
		return s.PrometheusURL()
	}
	return "http://" + s.rulerAddr
}

// AlertmanagerURL is Alertmanager's address, of a pair the first one's.
func (s *Stack) AlertmanagerURL() string { return "http://" + s.alertmanagers[0].addr }

// AnalyzerURL is the analyzer's address, of a pair the first one's.
func (s *Stack) AnalyzerURL() string { return "http://" + s.analyzers[0].addr }

// AnalyzerURLs are the addresses of all analyzers: of a pair each has evidence of its own.
func (s *Stack) AnalyzerURLs() []string {
	var out []string
	for _, a := range s.analyzers {
		out = append(out, "http://"+a.addr)
	}
	return out
}

// ExporterURL is the address of a host's exporter.
func (s *Stack) ExporterURL(host int) string { return "http://" + s.hosts[host].addr }

// Hosts is how many simulated hosts there are.
func (s *Stack) Hosts() int { return len(s.hosts) }

// HostName gives the simulated host's name.
func (s *Stack) HostName(host int) string { return s.hosts[host].name }

// TraceDir is where processes of a host leave their trace files.
func (s *Stack) TraceDir(host int) string { return s.hosts[host].traces }

// HostOfRank gives the simulated host of a rank of a job of so many ranks on the first group of hosts: blocks of equal size, as the
// launcher does.
func (s *Stack) HostOfRank(rank, ranks int) int { return rank / (ranks / s.cfg.Hosts) }

// group gives the first host of a group, and how many it has.
func (s *Stack) group(group int) (first, hosts int) {
	if group == 0 {
		return 0, s.cfg.Hosts
	}
	first = s.cfg.Hosts
	for _, n := range s.cfg.MoreHosts[:group-1] {
		first += n
	}
	return first, s.cfg.MoreHosts[group-1]
}

// groupDir is where the launcher makes or finds a directory for each host of a group, numbered from 0.
func (s *Stack) groupDir(group int) string {
	if group == 0 {
		return s.traceRoot
	}
	return filepath.Join(s.traceRoot, fmt.Sprintf("group%d", group))
}

// Pages gives the firing pages of a job so far.
func (s *Stack) Pages(jobID string) []Page {
	return slices.DeleteFunc(s.pager.forJob(jobID), func(p Page) bool { return p.Status != "firing" })
}

// Notified gives all that was notified of a job so far, resolved alerts too.
func (s *Stack) Notified(jobID string) []Page { return s.pager.forJob(jobID) }

// WaitPage waits until somebody is paged for the job and gives the first page.
func (s *Stack) WaitPage(ctx context.Context, jobID string) (Page, error) {
	return s.WaitPageThat(ctx, jobID, func(*Page) bool { return true })
}

// WaitPageThat waits until a page of the job is as wanted and gives the first one that is.
func (s *Stack) WaitPageThat(ctx context.Context, jobID string, wanted func(*Page) bool) (Page, error) {
	var page Page
	err := poll(ctx, 20*time.Millisecond, func() (bool, error) {
		pages := s.Pages(jobID)
		i := slices.IndexFunc(pages, func(p Page) bool { return wanted(&p) })
		if i < 0 {
			return false, nil
		}
		page = pages[i]
		return true, nil
	})
	if err != nil {
		return Page{}, fmt.Errorf("waiting for a page of job %s: %w", jobID, err)
	}
	return page, nil
}

// Ended gives the name, the end and the last log lines of each process that should run and does not.
func (s *Stack) Ended() []string {
	var ended []string
	for _, p := range s.processes() {
		if end, ok := p.ended(); ok {
			ended = append(ended, end)
		}
	}
	return ended
}

// PIDs gives the numbers of the services' processes by name.
func (s *Stack) PIDs() map[string]int {
	return map[string]int{"prometheus": s.prometheus.pid(), "analyzer": s.analyzers[0].proc.pid()}
}

// StopExporter ends a host's exporter, to see what its silence does.
func (s *Stack) StopExporter(host int) { s.hosts[host].proc.stop() }

// StopPrometheus ends Prometheus.
func (s *Stack) StopPrometheus() { s.prometheus.stop() }

// client asks the services of the stack; none of its requests may outlast a stuck one.
var client = &http.Client{Timeout: 30 * time.Second}
