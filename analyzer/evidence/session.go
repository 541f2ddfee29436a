// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Gatherer gathers evidence. Several analyses may use it at once.
type Gatherer struct {
	Directory *Directory
	Nodes     NodeAPI
	Exporters config.Exporters
	Allowance *Allowance // Shared limit on the states that analyses keep.
}

// Session gathers evidence for one analysis: what is known so far, and from which exporters.
type Session struct {
	g         *Gatherer
	job       identity.Job
	processes map[int]Process // By rank.
	nodes     []*Node         // By address.
	byRank    map[int]*Node
	members   map[rca.CommID]map[int]int // Communicator rank by global rank, from Prometheus.
	names     map[rca.CommID]string
	counted   map[int][]rca.Membership // By rank, from Prometheus alone.
	prom      error
	tenancy   tenancy
	hosts     map[string]string // Names of hosts that several exporters claim, with the reason.
	pushed    string            // Whose series are left out, as they did not come by a scrape; empty: nobody's.
	objects   atomic.Int64      // Taken from the allowance.
	world     int
	standing  int // Ranks that stand still, from Prometheus; 0 unknown.
	bytes     int64
	histories []history
	untold    []rca.Missing   // Exporters that did not give their finished work.
	facts     []rca.Fact      // From other exporters.
	factsOf   map[string]bool // Hosts for which facts were queried.
	delays    map[int]float64 // Usual run delay by rank, from Prometheus.
	slowdown  float64         // How many times longer iterations take than in the job's past, from Prometheus; 0 unknown.
}

// Node is one exporter of the job.
type Node struct {
	Base  string
	Ranks []int

	instance string // As Prometheus has it.

	asked bool         // Its state was requested,
	only  map[int]bool // for these ranks only; nil: for all.
	told  bool         // Its finished work was requested.
	state *nodeapi.State
	size  int64 // Objects of the state, taken from the allowance.
	err   error
	heard time.Duration // Time since Prometheus last had an answer, for an exporter that does not answer the analyzer; 0 unknown.
}

// Hint is what a trigger's labels tell about where the job runs.
type Hint struct {
	Rank     int    // -1 unknown.
	Comm     string // As the exporters' series have it; empty unknown.
	Instance string
}

// Open looks up which processes belong to the job. It succeeds without Prometheus as long as some exporter can be asked.
func (g *Gatherer) Open(ctx context.Context, job identity.Job, hints []Hint) (*Session, error) {
	s := &Session{
		g: g, job: job, processes: map[int]Process{}, byRank: map[int]*Node{},
		members: map[rca.CommID]map[int]int{}, names: map[rca.CommID]string{},
		counted: map[int][]rca.Membership{}, factsOf: map[string]bool{},
	}
	var processes, namesakes []Process
	var claims []HostClaim
	var err, namesakesErr, hostsErr error
	var wg sync.WaitGroup
	wg.Go(func() { processes, err = g.Directory.Processes(ctx, job) })
	wg.Go(func() { namesakes, namesakesErr = g.Directory.Namesakes(ctx, job) })
	wg.Go(func() { claims, hostsErr = g.Directory.ClaimedHosts(ctx, job) })
	wg.Wait()
	s.prom = cmp.Or(err, namesakesErr, hostsErr)
	s.pushed = g.Directory.pushing()
	if len(processes) == 0 {
		for _, h := range hints {
			if h.Instance == "" {
				continue
			}
			known, notKnown := g.scraped(ctx, h.Instance)
			if err = errors.Join(err, notKnown); known {
				processes = append(processes, Process{Rank: h.Rank, Instance: h.Instance, Labels: map[string]string{"instance": h.Instance}})
			}
		}
	}
	standing, tenancy, unsettled := g.Directory.settle(ctx, job, processes)
	s.tenancy = tenancy
	s.note(unsettled)
	standing = slices.Clone(standing) // The directory remembers what it gave.
	s.callHosts(standing, claims)
	nodes := map[string]*Node{}
	var failed error
	for _, p := range standing {
		base, err := g.Exporters.BaseURL(p.Labels)
		if err != nil {
			failed = err
			continue
		}
		n := nodes[base]
		if n == nil {
			n = &Node{Base: base, instance: p.Instance}
			nodes[base] = n
			s.nodes = append(s.nodes, n)
		}
		if p.Rank < 0 {
			continue
		}
		if _, double := s.processes[p.Rank]; !double {
			n.Ranks = append(n.Ranks, p.Rank)
			s.processes[p.Rank] = p
			s.byRank[p.Rank] = n
		}
	}
	s.world = mostClaimed(standing, func(p *Process) int { return p.WorldSize })
	s.meet(namesakes)
	slices.SortFunc(s.nodes, byBase)
	if len(s.nodes) == 0 {
		if s.pushed != "" {
			failed = errors.Join(failed, errors.New(s.pushed))
		}
		return nil, errors.Join(fmt.Errorf("nobody is known to run job %q", job), err, failed)
	}
	return s, nil
}

// scraped reports whether an instance that a trigger names is an exporter. Without this check, anybody who can post a trigger
// could make the analyzer query any address, with the exporters' password.
func (g *Gatherer) scraped(ctx context.Context, instance string) (bool, error) {
	if slices.Contains(g.Exporters.Instances, instance) {
		return true, nil
	}
	known, err := g.Directory.Scraped(ctx, instance)
	if !known && err == nil {
		err = fmt.Errorf("a trigger names instance %q, which Prometheus does not scrape as an exporter", instance)
	}
	return known, err
}

// mostClaimed gives the number that most processes claim; on a tie the largest, and 0 where no process claims one.
func mostClaimed[T any](list []T, number func(*T) int) int {
	votes, most := map[int]int{}, 0
	for i := range list {
		n := number(&list[i])
		if n <= 0 {
			continue
		}
		votes[n]++
		if votes[n] > votes[most] || votes[n] == votes[most] && n > most {
			most = n
		}
	}
	return most
}

func byBase(a, b *Node) int { return cmp.Compare(a.Base, b.Base) }

// Bounds of the period in which a job's waits count. The waits of an earlier run of the same name say nothing about this one.
const (
	shortestPast = time.Minute
	longestPast  = 6 * time.Hour
)

// Age gives the age of the youngest process of this run, by the clocks of the hosts that have answered; 0 unknown.
func (s *Session) Age() time.Duration {
	var age time.Duration
	for _, n := range s.nodes {
		if n.state == nil {
			continue
		}
		for i := range n.state.Processes {
			p := &n.state.Processes[i]
			if p.JobID != s.job.ID || p.Identity.CreatedNS == 0 || !s.believes(p) {
				continue
			}
			if a := trace.Since(n.state.NowNS, p.Identity.CreatedNS); age == 0 || a < age {
				age = a
			}
		}
	}
	return age
}

// LongestWait gives the longest wait of this run that ended by itself; 0 none or unknown.
func (s *Session) LongestWait(ctx context.Context) time.Duration {
	return s.longest(ctx, s.g.Directory.cfg.Queries.LongestWait)
}

// LongestPause gives the longest time of this run in which no rank called anything; 0 none or unknown.
func (s *Session) LongestPause(ctx context.Context) time.Duration {
	return s.longest(ctx, s.g.Directory.cfg.Queries.LongestPause)
}

func (s *Session) longest(ctx context.Context, query string) time.Duration {
	past := longestPast
	if age := s.Age(); age > 0 {
		past = min(max(age, shortestPast), longestPast)
	}
	length, err := s.g.Directory.longest(ctx, query, s.job, past)
	s.note(err)
	return length
}

// AllNodes gives all exporters of the job.
func (s *Session) AllNodes() []*Node { return s.nodes }

// NodesOf gives the exporters of some ranks.
func (s *Session) NodesOf(ranks []int) []*Node {
	var out []*Node
	for _, r := range ranks {
		if n := s.byRank[r]; n != nil && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Unasked gives those exporters that have not been asked for all their ranks.
func (s *Session) Unasked(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if !n.asked || n.only != nil {
			out = append(out, n)
		}
	}
	return out
}

// Answered gives those exporters that have answered.
func (s *Session) Answered(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if n.asked && n.err == nil {
			out = append(out, n)
		}
	}
	return out
}

// Ask asks exporters for the state of all their ranks, including exporters that were asked before. An exporter that does not
// answer now keeps its earlier answer.
func (s *Session) Ask(ctx context.Context, nodes []*Node) {
	for _, n := range nodes {
		n.only = nil
	}
	s.ask(ctx, nodes)
}

// AskRanks asks for the state of some ranks. It asks each exporter once, and includes the ranks for which that exporter was asked
// before.
func (s *Session) AskRanks(ctx context.Context, ranks []int) {
	for _, r := range ranks {
		if n := s.byRank[r]; n != nil && (!n.asked || n.only != nil) {
			if n.only == nil {
				n.only = map[int]bool{}
			}
			n.only[r], n.asked = true, true
		}
	}
	s.ask(ctx, s.NodesOf(ranks))
}

// AskAgain asks the exporters of some ranks once more for what they were asked before. Exporters that did not answer are left
// out.
func (s *Session) AskAgain(ctx context.Context, ranks []int) {
	s.ask(ctx, s.Answered(s.NodesOf(ranks)))
}

// Has reports whether a rank's state was requested, or whether there is no exporter to ask.
func (s *Session) Has(rank int) bool {
	n := s.byRank[rank]
	return n == nil || n.has(rank)
}

func (n *Node) has(rank int) bool { return n.asked && (n.only == nil || n.only[rank]) }

func (s *Session) ask(ctx context.Context, nodes []*Node) {
	each(nodes, s.g.Exporters.Concurrency, func(n *Node) int64 {
		p := purse{s: s}
		state, bytes, err := s.g.Nodes.State(ctx, n.Base, s.job.ID, slices.Sorted(maps.Keys(n.only)), nil, p.take)
		n.asked, n.err = true, err
		if state != nil {
			p.held, n.size = n.size, p.held
			noteMoves(n.state, state)
			n.state = state
		}
		s.give(p.held)
		return bytes
	}, &s.bytes)
	s.hear(ctx, nodes)
}

// each runs f on all nodes, at most limit at a time, and adds up the results.
func each(nodes []*Node, limit int, f func(*Node) int64, sum *int64) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, limit)
	for _, n := range nodes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			// Nothing in an answer may end the process.
			defer func() {
				if r := recover(); r != nil {
					n.asked, n.err = true, fmt.Errorf("reading its answer panicked: %v\n%s", r, debug.Stack())
				}
			}()
			bytes := f(n)
			mu.Lock()
			*sum += bytes
			mu.Unlock()
		})
	}
	wg.Wait()
}

// Counts are how many exporters the job has, how many were asked and have answered, and the size of their answers.
type Counts struct {
	Nodes, Asked, Answered int
	Bytes                  int64
}

// Counts gives the session's figures.
func (s *Session) Counts() Counts {
	c := Counts{Nodes: len(s.nodes), Bytes: s.bytes}
	for _, n := range s.nodes {
		if n.asked {
			c.Asked++
		}
		if n.asked && n.err == nil {
			c.Answered++
		}
	}
	return c
}

// Process gives a rank's process as Prometheus has it.
func (s *Session) Process(rank int) (Process, bool) {
	p, ok := s.processes[rank]
	return p, ok
}

// Ranks gives the ranks that Prometheus knows, in order.
func (s *Session) Ranks() []int {
	out := make([]int, 0, len(s.processes))
	for r := range s.processes {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

// Evidence puts together what was gathered. An exporter that was not asked is not missing, because the analysis did not need it.
func (s *Session) Evidence() rca.Evidence {
	a := assembly{
		ev:   rca.Evidence{JobID: s.job.ID, WorldSize: s.world, Standing: s.standing, Partial: len(s.Unasked(s.nodes)) > 0, PastAsked: len(s.histories) > 0, Slowdown: s.slowdown},
		seen: map[int]seen{}, refused: map[int]string{},
		apart: map[int]bool{},
		comms: map[rca.CommID]*membership{},
	}
	if s.prom != nil {
		a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "prometheus", Why: s.prom.Error()})
	} else {
		a.ev.Sources = append(a.ev.Sources, "prometheus")
	}
	s.move()
	for _, n := range s.nodes {
		switch {
		case n.state != nil:
			a.node(n, s)
		case n.asked:
			a.ev.Missing = append(a.ev.Missing, rca.Missing{
				What: "exporter", Name: s.nodeName(n), Ranks: slices.Clone(n.Ranks), Why: reason(n.err), Heard: n.heard,
				Alive: errors.Is(n.err, syscall.ECONNREFUSED), Reached: errors.As(n.err, new(errReached)),
			})
		}
	}
	a.ev.Facts = append(a.ev.Facts, s.facts...)
	a.disputes(&s.tenancy)
	a.claimedHosts(s)
	a.leftOut(s)
	a.lost(s)
	a.counted(s)
	a.silent(s)
	a.finish(s.delays)
	for id, members := range s.members {
		for rank, commRank := range members {
			a.member(id, s.names[id], commRank, rank)
		}
	}
	a.finishComms()
	a.lagging()
	a.ev.Missing = append(a.ev.Missing, s.untold...)
	told, done := s.told(), 0
	for i := range told {
		done += told[i].done.len()
	}
	a.ev.Timeline = slices.Grow(a.ev.Timeline, done)
	for i := range told {
		a.ev.Timeline = told[i].appendSegments(a.ev.Timeline, &a)
	}
	return a.ev
}

// nodeName gives the host of an exporter, else the exporter's address.
func (s *Session) nodeName(n *Node) string { return s.hostOf(n, n.Base) }

// assembly is evidence that is being put together.
type assembly struct {
	ev    rca.Evidence
	seen  map[int]seen
	apart map[int]bool // Ranks of processes that drive several ranks which cannot be told apart.
	comms map[rca.CommID]*membership
	// refused has the ranks for which a process was not believed, with the exporter's reason.
	refused map[int]string
}

// seen is the process that speaks for a rank. An exporter may still show an older process of the rank.
type seen struct {
	rank    rca.Rank
	process *nodeapi.Process
	node    *Node
	alive   bool
	created uint64
	nowNS   uint64
}

func (a *assembly) node(n *Node, s *Session) {
	host := s.hostOf(n, n.state.Node)
	for i := range n.state.Processes {
		p := &n.state.Processes[i]
		if p.JobID != s.job.ID {
			continue
		}
		if !s.speaks(n, int(p.Rank)) {
			continue
		}
		if !s.believes(p) {
			a.refused[int(p.Rank)] = p.Disputed
			continue
		}
		if p.Rank < 0 {
			a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "rank", Name: p.File, Why: "its trace file on " + n.Base + " does not tell its rank"})
			continue
		}
		host = s.hostOf(n, p.Host)
		if Untold(p) {
			a.untold(p)
			continue
		}
		r := seen{
			rank: Rank(p, n.state.NowNS), process: p, node: n, created: p.Identity.CreatedRealNS, nowNS: n.state.NowNS, alive: lives(p),
		}
		r.rank.Host = host
		if r.rank.ID == int(p.Rank) && a.better(r) {
			a.seen[r.rank.ID] = r
		}
	}
	a.ev.Facts = append(a.ev.Facts, s.ownFacts(n, host)...)
	a.ev.Sources = append(a.ev.Sources, n.Base)
	for _, u := range n.state.Unread {
		a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "file", Name: u.File, Why: u.Error + " (" + n.Base + ")"})
	}
	if n.err != nil {
		a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "exporter", Name: n.Base, Why: "it no longer answers: " + reason(n.err)})
	}
}

// untold leaves out a process that drives several ranks, because it is not known which rank shows what.
func (a *assembly) untold(p *nodeapi.Process) {
	a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "rank", Name: strconv.Itoa(int(p.Rank)), Why: WhyUntold})
	a.apart[int(p.Rank)] = true
}

func (a *assembly) better(r seen) bool {
	old, double := a.seen[r.rank.ID]
	switch {
	case !double:
		return true
	case r.alive != old.alive:
		return r.alive
	default:
		return r.created > old.created
	}
}

// lost reports ranks that their exporter does not show although it answers.
func (a *assembly) lost(s *Session) {
	for _, n := range s.nodes {
		if n.state == nil {
			continue
		}
		for _, r := range n.Ranks {
			_, shown := a.seen[r]
			if why := a.refused[r]; !shown && why != "" && s.Disputed(r) == "" {
				s.tenancy.dispute(r, why)
				a.dispute(r, why)
			}
			if !shown && !a.apart[r] && n.has(r) && s.Disputed(r) == "" {
				a.ev.Missing = append(a.ev.Missing, rca.Missing{
					What: "rank", Name: strconv.Itoa(r), Ranks: []int{r}, Why: "its exporter " + n.Base + " does not show it any more",
				})
			}
		}
	}
}

// counted adds ranks that were not asked but whose counts Prometheus has. Ranks of a silent exporter stay missing, because their
// counts are old.
func (a *assembly) counted(s *Session) {
	for rank, memberships := range s.counted {
		n := s.byRank[rank]
		if _, shown := a.seen[rank]; shown || n == nil || n.has(rank) || s.Disputed(rank) != "" {
			continue
		}
		p := s.processes[rank]
		a.ev.Ranks = append(a.ev.Ranks, rca.Rank{
			ID: rank, Host: p.Host, GPU: p.GPU, Pod: p.Pod, PID: p.PID, Caps: rca.SeesCalls, Memberships: memberships,
			ReadBytesPerSec: -1, WriteBytesPerSec: -1, CPUCores: -1, ProxyRunDelay: -1,
		})
	}
}

func (a *assembly) member(id rca.CommID, name string, commRank, rank int) {
	c := a.comms[id]
	if c == nil {
		c = &membership{Comm: rca.Comm{ID: id}, at: map[int]int{}}
		_, c.Size = splitID(id)
		a.comms[id] = c
	}
	if c.Name == "" {
		c.Name = name
	}
	if _, known := c.at[commRank]; !known && commRank >= 0 && commRank < c.Size {
		c.at[commRank] = rank
		c.places = max(c.places, commRank+1)
	}
}

// membership is a communicator whose members are not in order yet.
type membership struct {
	rca.Comm
	at     map[int]int // Global rank by rank in the communicator.
	places int         // Needed for the members in order.
}

func (m *membership) fullness() float64 { return float64(len(m.at)) / float64(max(1, m.places)) }

// maxPlaces bounds the places of all communicators together, whether their members are known or not: room for ten communicators over
// 102,400 ranks.
const maxPlaces = 1 << 20

// finish adds the ranks in order, and the communicators that they report.
func (a *assembly) finish(delays map[int]float64) {
	for _, r := range a.seen {
		r.rank.UsualRunDelay = delays[r.rank.ID]
		a.ev.Ranks = append(a.ev.Ranks, r.rank)
	}
	slices.SortFunc(a.ev.Ranks, func(x, y rca.Rank) int { return cmp.Compare(x.ID, y.ID) })
	if world := mostClaimed(a.ev.Ranks, func(r *rca.Rank) int { return r.World }); a.ev.WorldSize == 0 || !a.ev.Partial && world > 0 {
		a.ev.WorldSize = world
	}
	for i := range a.ev.Ranks {
		p := a.seen[a.ev.Ranks[i].ID].process
		if p == nil {
			continue // Only its counts are known.
		}
		for j := range p.Comms {
			c := &p.Comms[j]
			id := CommID(c.Key())
			a.member(id, c.Name, int(c.Rank), int(p.Rank))
		}
	}
}

// finishComms puts members in order, starting with the communicators of which most is known. So a member that claims to be the
// millionth takes no room from others.
func (a *assembly) finishComms() {
	list := slices.SortedFunc(maps.Values(a.comms), func(x, y *membership) int {
		return cmp.Or(cmp.Compare(y.fullness(), x.fullness()), cmp.Compare(x.ID, y.ID))
	})
	left := maxPlaces
	for _, m := range list {
		if m.places <= left {
			left -= m.places
			m.Members = slices.Repeat([]int{-1}, m.places)
			for at, rank := range m.at {
				m.Members[at] = rank
			}
		}
		a.ev.Comms = append(a.ev.Comms, m.Comm)
	}
	slices.SortFunc(a.ev.Comms, func(x, y rca.Comm) int { return cmp.Compare(x.ID, y.ID) })
}

// reason says in a few words why an exporter did not answer.
func reason(err error) string {
	switch {
	case err == nil:
		return "empty response"
	case errors.As(err, new(errReached)):
		return "no answer in time, although it takes connections"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	default:
		return err.Error()
	}
}
