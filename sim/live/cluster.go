// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/expfmt"

	"github.com/culprit-project/culprit/exporter/collector"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Cluster is a simulated job whose nodes can be asked while it runs. Its methods may be called at the same time.
type Cluster struct {
	log *slog.Logger

	mu     sync.Mutex
	x      *cluster.Simulation
	rec    *cluster.Recording
	ledger *ledger
	nodes  []*Node
}

// Node is one simulated host's exporter.
type Node struct {
	c     *Cluster
	index int
	name  string
	ranks []int
}

// detailAfter is how long a communicator stands still before its flows are exported: the exporter's default.
const detailAfter = 5 * time.Second

// New prepares a job. Nothing happens before Advance.
func New(log *slog.Logger, cfg cluster.Config) (*Cluster, error) {
	x, err := cluster.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("preparing the simulation: %w", err)
	}
	c := &Cluster{log: log, x: x, rec: x.Recording()}
	c.ledger = newLedger(c.rec.World())
	for h := range c.rec.Hosts() {
		c.nodes = append(c.nodes, &Node{c: c, index: h, name: c.rec.HostName(h), ranks: c.rec.RanksOf(h)})
	}
	return c, nil
}

// Nodes lists the hosts' exporters.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// step is how far the accounts may lag: less than what the histories hold.
const step = 5 * time.Second

// Advance lets the job go on until the given time after its start.
func (c *Cluster) Advance(ctx context.Context, until time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.x.Now(); at < until && ctx.Err() == nil; at = c.x.Now() {
		if err := c.x.Advance(ctx, min(at+step, until)); err != nil {
			return fmt.Errorf("simulating from %v: %w", at, err)
		}
		if c.x.Now() == at {
			return nil // The end of the run.
		}
		c.ledger.follow(c.rec, c.x.Now())
	}
	return ctx.Err()
}

// Now is how far the job has come.
func (c *Cluster) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.x.Now()
}

// Answer is the sealed truth as of now. It is for judges, and served to nobody.
func (c *Cluster) Answer() *cluster.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.x.Answer()
}

// Iterations is how many iterations a rank has ended.
func (c *Cluster) Iterations(rank int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.rec.Iterations(rank))
}

// Name is the host's name.
func (n *Node) Name() string { return n.name }

// Ranks lists the ranks on the host.
func (n *Node) Ranks() []int { return slices.Clone(n.ranks) }

// Answers tells whether the host can be reached now.
func (n *Node) Answers() bool {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.c.rec.Answers(n.index)
}

// State is the answer to GET /api/v1/state now.
func (n *Node) State() (*nodeapi.State, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.c.rec.State(n.index)
}

// Trace hands yield the lines of the answer to GET /api/v1/trace now. The simulation waits meanwhile.
func (n *Node) Trace(span time.Duration, yield func(*nodeapi.TraceLine) error) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.c.rec.Trace(n.index, span, yield)
}

// scrape is what the exporter's collector reads, frozen for one scrape.
type scrape struct {
	nowNS     uint64
	processes []*node.Process
}

// All implements collector.Processes.
func (s *scrape) All(f func(sampledNS uint64, list []*node.Process)) { f(s.nowNS, s.processes) }

func (n *Node) scrape() (*scrape, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	s := &scrape{nowNS: n.c.rec.Clock(n.index)}
	for _, r := range n.ranks {
		p, err := n.c.rec.Process(r)
		if err != nil {
			return nil, err
		}
		s.processes = append(s.processes, n.c.ledger.accounts[r].process(&p))
	}
	return s, nil
}

func (s *scrape) collector() *collector.NCCL {
	return collector.NewNCCL(s, collector.NCCLOptions{Detail: collector.DetailAuto, DetailAfter: detailAfter, MaxSeries: 100_000})
}

// metrics answers GET /metrics as it is now.
func (n *Node) metrics() (http.Handler, error) {
	s, err := n.scrape()
	if err != nil {
		return nil, err
	}
	set := collector.NewSet(n.c.log)
	set.Add("nccl", s.collector())
	always := prometheus.NewRegistry()
	always.MustRegister(buildInfo())
	return collector.Handler(n.c.log, always, set), nil
}

// buildInfo is the one series about itself that an exporter is known by: the analyzer asks nobody who is not scraped with it.
func buildInfo() prometheus.Collector { return version.NewCollector("culprit_exporter") }

// WriteMetrics writes the series of the collector nccl and the build's in Prometheus's text format: what /metrics has but for
// the exporter's other series about itself, which tell of this process and not of the simulated one.
func (n *Node) WriteMetrics(w io.Writer) error {
	s, err := n.scrape()
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(buildInfo())
	if err := registry.Register(unchecked{s.collector()}); err != nil {
		return fmt.Errorf("registering the collector of %s: %w", n.name, err)
	}
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("gathering the metrics of %s: %w", n.name, err)
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return fmt.Errorf("writing %s: %w", f.GetName(), err)
		}
	}
	return nil
}

// unchecked makes a prometheus.Collector of the exporter's collector.
type unchecked struct{ c *collector.NCCL }

func (u unchecked) Describe(chan<- *prometheus.Desc) {}

func (u unchecked) Collect(out chan<- prometheus.Metric) {
	if err := u.c.Collect(context.Background(), func(m prometheus.Metric) { out <- m }); err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc("nccl", "", nil, nil), err)
	}
}
