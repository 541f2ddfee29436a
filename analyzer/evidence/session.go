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

// Gatherer gathers evidence. It is safe for use by several analyses at once.
type Gatherer struct {
	Directory *Directory
	Nodes     NodeAPI
	Exporters config.Exporters
	Allowance *Allowance // Of what all analyses keep of states.
}

// Session is the gathering for one analysis: what is known so far, and from whom.
type Session struct {
	g         *Gatherer
	job       identity.Job
	processes map[int]Process // By rank.
	nodes     []*Node         // By address.
	byRank    map[int]*Node
	members   map[rca.CommID]map[int]int // Communicator rank by global rank, as Prometheus has it.
	names     map[rca.CommID]string
	counted   map[int][]rca.Membership // By rank, from Prometheus alone.
	prom      error
	tenancy   tenancy
	objects   atomic.Int64 // Held of the allowance.
	world     int
	standing  int // Ranks that stand still, by Prometheus; 0 not known.
	bytes     int64
	histories []history
	untold    []rca.Missing   // Exporters that did not tell of finished work.
	facts     []rca.Fact      // From other exporters.
	factsOf   map[string]bool // Hosts that those were asked about.
	delays    map[int]float64 // Usual run delay by rank, from Prometheus.
	slowdown  float64         // Against the job's own past, from Prometheus; 0 unknown.
}

// Node is one exporter of the job.
type Node struct {
	Base  string
	Ranks []int

	asked bool         // For its state,
	only  map[int]bool // of these ranks alone; nil: of all.
	told  bool         // For finished work.
	state *nodeapi.State
	size  int64 // Objects that the state holds of the allowance.
	err   error
	heard time.Duration // Since Prometheus had an answer, where nobody else had one; 0 unknown.
}

// Hint is what a trigger's labels say of where the job runs.
type Hint struct {
	Rank     int // -1 unknown.
	Instance string
}

// Open looks up who belongs to the job. Prometheus being down is no error as long as somebody can be asked.
func (g *Gatherer) Open(ctx context.Context, job identity.Job, hints []Hint) (*Session, error) {
	s := &Session{
		g: g, job: job, processes: map[int]Process{}, byRank: map[int]*Node{},
		members: map[rca.CommID]map[int]int{}, names: map[rca.CommID]string{},
		counted: map[int][]rca.Membership{}, factsOf: map[string]bool{},
	}
	processes, err := g.Directory.Processes(ctx, job)
	s.prom = err
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
			n = &Node{Base: base}
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
	slices.SortFunc(s.nodes, byBase)
	if len(s.nodes) == 0 {
		return nil, errors.Join(fmt.Errorf("nobody is known to run job %q", job), err, failed)
	}
	return s, nil
}

// scraped tells whether an instance that a trigger names is an exporter. Whoever can post a trigger could otherwise have the
// analyzer ask any address, with the exporters' password.
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

// mostClaimed gives the number that most of a list claim; of several the largest, and 0 where nobody claims one.
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

// Bounds of the time in which a job's waits count: what an earlier run of the same name waited for says nothing of this one.
const (
	shortestPast = time.Minute
	longestPast  = 6 * time.Hour
)

// Age gives how long this run of the job has had its youngest process, by the clocks of the hosts that have answered; 0 unknown.
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

// LongestWait gives the longest wait of this run of the job that ended by itself; 0 none or unknown.
func (s *Session) LongestWait(ctx context.Context) time.Duration {
	return s.longest(ctx, s.g.Directory.cfg.Queries.LongestWait)
}

// LongestPause gives the longest time of this run of the job in which no rank called anything; 0 none or unknown.
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

// Unasked leaves only exporters that have not been asked for all their ranks.
func (s *Session) Unasked(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if !n.asked || n.only != nil {
			out = append(out, n)
		}
	}
	return out
}

// Answered leaves only exporters that have answered.
func (s *Session) Answered(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if n.asked && n.err == nil {
			out = append(out, n)
		}
	}
	return out
}

// Ask asks exporters for the state of all their ranks, again where they have been asked before. An exporter that does not
// answer now keeps what it said before.
func (s *Session) Ask(ctx context.Context, nodes []*Node) {
	for _, n := range nodes {
		n.only = nil
	}
	s.ask(ctx, nodes)
}

// AskRanks asks for the state of some ranks, each exporter once, along with those it has been asked for before.
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

// AskAgain asks the exporters of some ranks once more for what they were asked before, as far as they answered.
func (s *Session) AskAgain(ctx context.Context, ranks []int) {
	s.ask(ctx, s.Answered(s.NodesOf(ranks)))
}

// Has says that a rank's state was asked for, or that nobody knows whom to ask.
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

// each runs f on all nodes, at most limit at once, and sums up what it returns.
func each(nodes []*Node, limit int, f func(*Node) int64, sum *int64) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, limit)
	for _, n := range nodes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			// An answer must not end the process, whatever is in it.
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

// Counts are how many exporters there are, were asked and have answered, and how much they said.
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

// Process gives what Prometheus knows of a rank.
func (s *Session) Process(rank int) (Process, bool) {
	p, ok := s.processes[rank]
	return p, ok
}

// Ranks gives the job's ranks as Prometheus knows them, in order.
func (s *Session) Ranks() []int {
	out := make([]int, 0, len(s.processes))
	for r := range s.processes {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

// Evidence puts together what has been gathered. Nodes that nobody asked are not missing: nothing was needed of them.
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

// nodeName gives the host of an exporter as its ranks have it, else its address.
func (s *Session) nodeName(n *Node) string {
	for _, r := range n.Ranks {
		if host := s.processes[r].Host; host != "" {
			return host
		}
	}
	return n.Base
}

// assembly is evidence in the making.
type assembly struct {
	ev    rca.Evidence
	seen  map[int]seen
	apart map[int]bool // Ranks of processes that are several, and not told apart.
	comms map[rca.CommID]*membership
	// refused are the ranks that a process claimed which was not believed, with its exporter's reason.
	refused map[int]string
}

// seen is the process that stands for a rank, where an exporter still shows an older one of it.
type seen struct {
	rank    rca.Rank
	process *nodeapi.Process
	alive   bool
	stands  bool // Prometheus has it as the one that was there first.
	created uint64
	nowNS   uint64
}

func (a *assembly) node(n *Node, s *Session) {
	host := n.state.Node
	for i := range n.state.Processes {
		p := &n.state.Processes[i]
		if p.JobID != s.job.ID {
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
		host = p.Host
		if Untold(p) {
			a.untold(p)
			continue
		}
		r := seen{
			rank: Rank(p, n.state.NowNS), process: p, created: p.Identity.CreatedRealNS, nowNS: n.state.NowNS,
			alive: p.Kernel == nil || alive(p.Kernel.State), stands: s.byRank[int(p.Rank)] == n,
		}
		if r.rank.ID == int(p.Rank) && a.better(r) {
			a.seen[r.rank.ID] = r
		}
	}
	a.ev.Facts = append(a.ev.Facts, Facts(n.state.Facts, host)...)
	a.ev.Sources = append(a.ev.Sources, n.Base)
	for _, u := range n.state.Unread {
		a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "file", Name: u.File, Why: u.Error + " (" + n.Base + ")"})
	}
	if n.err != nil {
		a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "exporter", Name: n.Base, Why: "it no longer answers: " + reason(n.err)})
	}
}

// untold leaves out a process that is several ranks: nobody can say which of them shows what.
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
	case r.stands != old.stands:
		return r.stands
	default:
		return r.created > old.created
	}
}

// lost reports ranks whose exporter answers and does not show them.
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

// counted adds ranks that nobody asked and of which Prometheus has counts. Those of a silent node stay missing: their
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

// membership is a communicator whose members are not put in order yet.
type membership struct {
	rca.Comm
	at     map[int]int // Global rank by rank in the communicator.
	places int         // That the members take in order.
}

func (m *membership) fullness() float64 { return float64(len(m.at)) / float64(max(1, m.places)) }

// maxPlaces bounds the places of all communicators together, known or not: ten communicators over 102,400 ranks.
const maxPlaces = 1 << 20

// finish fills in ranks in order, and what they say of communicators.
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
			continue // Counted only.
		}
		for j := range p.Comms {
			c := &p.Comms[j]
			id := CommID(c.Key())
			a.member(id, c.Name, int(c.Rank), int(p.Rank))
		}
	}
}

// finishComms puts members in order. Those of the communicators that are known best come first: one member that claims to be the
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
