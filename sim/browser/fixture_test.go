// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/jobs"
	"github.com/culprit-project/culprit/analyzer/layout"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// evil is what somebody may call a job, a host or a communicator.
const evil = `"><script>window.hacked=1</script><img src=x onerror="window.hacked=1">`

// shelf holds incidents as the service's manager does.
type shelf struct {
	mu      sync.Mutex
	list    []incident.Incident
	changed chan struct{}
}

func newShelf() *shelf {
	s := &shelf{changed: make(chan struct{})}
	for _, world := range []int{8, 512, 10240, 102400} {
		s.list = append(s.list, hung(world))
	}
	s.list = append(s.list, slow(), hostile())
	return s
}

// change changes an incident and tells those that watch.
func (s *shelf) change(id string, f func(*incident.Incident)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(inc incident.Incident) bool { return inc.ID == id })
	f(&s.list[i])
	s.list[i].UpdatedAt = s.list[i].UpdatedAt.Add(time.Second)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *shelf) Get(id string) (incident.Incident, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(inc incident.Incident) bool { return inc.ID == id })
	if i < 0 {
		return incident.Incident{}, false
	}
	return s.list[i], true
}

func (s *shelf) List() []incident.Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

func (s *shelf) Changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *shelf) Receive([]incident.Trigger) error { return nil }
func (s *shelf) NextPassive() int                 { return 1 }
func (s *shelf) OpenFor(identity.Job) (incident.Incident, bool) {
	return incident.Incident{}, false
}

func (s *shelf) Judge(id string, f incident.Feedback) error {
	s.change(id, func(inc *incident.Incident) { inc.Feedback = append(slices.Clone(inc.Feedback), f) })
	return nil
}

func (s *shelf) Wait(context.Context, string, int) (incident.Incident, error) {
	return incident.Incident{}, errors.New("nobody waits here")
}

var opened = time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)

// hung is an incident of a job that stands still. Of a large job only the nodes beside the culprit were asked.
func hung(world int) incident.Incident {
	const culprit = 5
	inc := incident.Incident{
		Version: 1, ID: fmt.Sprintf("hung%08d", world), JobID: fmt.Sprintf("llm-pretrain-%d", world), State: incident.Open, OpenedAt: opened, UpdatedAt: opened.Add(time.Minute),
		VerdictAt: new(opened.Add(9 * time.Second)), Since: new(opened.Add(-2 * time.Second)), Labels: map[string]string{"team": "research"},
		Workload: &incident.Workload{Scheduler: incident.Slurm, SlurmJob: "48213", User: "1003"},
		Triggers: []incident.Trigger{{Key: "a", Name: "CulpritJobStalled", Summary: "The job makes no progress.", Rank: -1, StartedAt: opened}},
		Analyses: []incident.Analysis{
			{At: opened.Add(8 * time.Second), Seconds: 0.31, Error: "no answer in time", Nodes: world / 8},
			{At: opened.Add(9 * time.Second), Seconds: 0.42, Class: rca.Fault, Cause: rca.CauseNetworkSend, Confidence: 0.95, Nodes: world / 8, Asked: 3, Answered: 2, Bytes: 1_234_567},
		},
		Verdict: &rca.Verdict{
			Version: 1, Class: rca.Fault, Code: "H3", Cause: rca.CauseNetworkSend, Confidence: 0.95, Page: true, Waited: 9,
			Summary: fmt.Sprintf("Rank 5 (node-0000, GPU 5) does not deliver its data to rank 13 (node-0001, GPU 5) in AllReduce #1204 on dp_5, although the receiver is ready, so its NIC or link is the likely cause. %s have been waiting for it for 9 s.", words.Plural(world-1, "rank")),
			Action:  "Check NIC, cable and switch port of the sending rank (link state, error counters); drain the host if the counters grow.", Comm: "dp_5", Op: "AllReduce #1204",
			Stalled: world - 1, WorldSize: world,
			Culprits: []rca.Culprit{{Rank: culprit, Host: "node-0000", GPU: "5", NIC: "mlx5_5", PID: 17176, Channel: 1, Why: "does not deliver its data to rank 13 (node-0001, GPU 5) in AllReduce #1204 on dp_5 on channel 1"}},
			Chain:    []rca.Link{{From: 13, To: culprit, Reason: "has not sent (channel 1)", Comm: "dp_5", Op: "AllReduce #1204", Sure: true}},
			Waits: []rca.WaitGroup{
				{Ranks: []int{culprit}, Count: 1, Root: true, On: -1, Reason: "does not deliver its data to rank 13 (node-0001, GPU 5) in AllReduce #1204 on dp_5 on channel 1", Op: "AllReduce #1204", Comm: "dp_5", Comms: 1},
				{Ranks: []int{13, 21, 29}, Count: max(1, world/8-1), On: 0, Reason: "has not sent", Op: "AllReduce #1204", Comm: "dp_5", Comms: 1, Sure: true},
				{Ranks: []int{0, 1, 2, 3, 4, 6, 7}, Count: 7, On: 0, Reason: "has not called the operation", Op: "AllGather #9", Comm: "tp_0", Comms: 1, Sure: true},
				{Ranks: []int{8, 9, 10}, Count: max(1, world-world/8-7), On: 1, Reason: "has not called the operation", Op: "AllGather", Comms: max(2, world/8-1)},
			},
			Evidence:       []string{fmt.Sprintf(words.ExplainsAll, words.Count(world-1)), "node-0000: port mlx5_5 counts symbol errors."},
			Contradictions: []string{"The link of mlx5_5 is up."}, Missing: []string{"exporter node-0001: no answer in time"},
			Hypotheses: []rca.Hypothesis{
				{Ranks: []int{culprit}, Class: rca.Fault, Cause: rca.CauseNetworkSend, Weight: 0.93, Explains: world - 1, Chosen: true, Reason: "Does not deliver its data to rank 13 (node-0001, GPU 5) in AllReduce #1204 on dp_5"},
				{Ranks: []int{16, 17, 18}, Class: rca.NotEntered, Cause: rca.CauseNotCalled, Weight: 0.5, Explains: 3, Reason: words.Opener(words.ExplainsNobodyElse)},
			},
		},
		Layout: layoutOf(world),
		Flow: &incident.FlowView{
			Comm: "dp_5", CommID: "c0ffee", Op: "AllReduce #1204", Channel: 1, Total: 64, Stuck: 9,
			From: incident.FlowEnd{Rank: culprit, Host: "node-0000", GPU: "5", NIC: "mlx5_5", Steps: [4]int64{24, 24, 24, 16}},
			To:   incident.FlowEnd{Rank: 13, Host: "node-0001", GPU: "5", NIC: "mlx5_5", Steps: [4]int64{24, 16, 16, 16}},
			QPs:  []incident.QueuePair{{Device: "mlx5_5", Num: 4711, DestNum: 4712, Remote: "fe80::1", Outstanding: 8, Errors: 0}},
		},
		Stacks: []incident.StackGroup{{Ranks: []int{0, 1, 2}, Frames: []string{"main (train.py:411)", "all_reduce (distributed_c10d.py:2501)"}}},
	}
	for r := range world {
		v := incident.RankView{Rank: r, Host: fmt.Sprintf("node-%04d", r/8), GPU: fmt.Sprint(r % 8), State: "unseen"}
		switch {
		case r == culprit:
			v.State, v.Text = "culprit", "AllReduce #1204 on dp_5, no progress for 9.1 s"
		case r < 16 || world <= 512 && r%8 != 3:
			v.State, v.Text = "stuck", fmt.Sprintf("AllGather #9 on tp_0, no progress for 8.%d s", r%10)
		case r < 24:
			v.State = "outside"
		}
		inc.Ranks = append(inc.Ranks, v)
	}
	return inc
}

func layoutOf(world int) *layout.Layout {
	l := &layout.Layout{World: world, Axes: []layout.Axis{{Kind: layout.Tensor, Size: 4, Stride: 1, Named: true}, {Kind: layout.Data, Size: world / 8, Stride: 4, Named: true}, {Kind: layout.Pipeline, Size: 2, Stride: world / 2, Named: true}}}
	return l
}

// running is a job of so many ranks that runs, but for one of them.
func running(world int) *jobs.Job {
	j := &jobs.Job{
		ID: identity.Job{ID: fmt.Sprintf("llm-pretrain-%d", world)}, At: opened, WorldSize: world, Hosts: world / 8, Layout: layoutOf(world), Iteration: 1.82, Before: 1.51, MicroBatches: 16, Lost: 3,
		Comms:     []jobs.Comm{{Name: "dp", Size: world / 8, Nodes: world / 8, Number: 8}, {Name: "pp", Size: 2, Nodes: 2, Number: world / 2}, {Name: "tp", Size: 4, Nodes: 1, Number: world / 4}},
		Functions: []jobs.Function{{Name: "AllReduce", Ops: 4.2, Bytes: 4.2e9, Seconds: 0.25, Bandwidth: 92e9}, {Name: "Send", Ops: 32, Bytes: 1e9, Seconds: 0.1, Bandwidth: 22e9}},
		Transfers: []jobs.Transfer{{Comm: "dp", Function: "AllReduce", Ranks: world / 8, Bytes: 512e6, Ops: 8, Seconds: 0.02, Bus: 44.8e9}, {Comm: "tp", Function: "AllGather", Ranks: 4, Bytes: 8e6, Ops: 8, Seconds: 0.0001, Bus: 240e9}}, TransfersOf: 5,
		Parallel: []jobs.Parallel{{Kind: layout.Data, Names: []string{"dp"}, Mean: 0.31, Least: 0.12}, {Kind: layout.Tensor, Names: []string{"tp"}, Mean: 0.22, Least: 0.2}, {Kind: layout.Pipeline, Names: []string{"pp"}, Mean: 0.1, Least: 0.0004}}, Others: 0.002,
		Late:    []jobs.Share{{Rank: 5, Host: "node-0000", Inside: 0.11, Median: 0.41}, {Rank: 6, Host: "node-0000", Inside: 0.4, Median: 0.41}},
		Missing: []string{"asking prometheus for up: context deadline exceeded"},
	}
	for _, v := range hung(world).Ranks {
		v.State, v.Text = "moving", ""
		if v.Rank == 5 {
			v.State, v.Text = "stuck", "no progress for 9.1 s"
		}
		j.Ranks = append(j.Ranks, v)
	}
	return j
}

// cluster is what Prometheus knows of jobs.
type cluster map[identity.Job]*jobs.Job

func newCluster() cluster {
	c := cluster{}
	for _, world := range []int{8, 512, 10240} {
		j := running(world)
		c[j.ID] = j
	}
	h := running(8)
	h.Claimed = []int{0}
	h.ID, h.Comms[0].Name, h.Functions[0].Name, h.Late[0].Host, h.Parallel[0].Names[0], h.Missing = identity.Job{ID: evil}, evil, evil, evil, evil, []string{evil}
	for i := range h.Ranks {
		h.Ranks[i].Host = evil
	}
	c[h.ID] = h
	return c
}

func (c cluster) List(context.Context) ([]jobs.Listed, error) {
	var out []jobs.Listed
	for id, j := range c {
		out = append(out, jobs.Listed{ID: id, Ranks: len(j.Ranks)})
	}
	return out, nil
}

func (c cluster) Get(_ context.Context, id identity.Job, _ time.Time) (*jobs.Job, error) {
	if j := c[id]; j != nil {
		return j, nil
	}
	return nil, jobs.ErrUnknown
}

// Trend falls to none when the job stands still, and rises when it gets slow.
func (c cluster) Trend(_ context.Context, _ identity.Job, unit jobs.Unit, from, to time.Time) (*jobs.Trend, error) {
	t := &jobs.Trend{Unit: unit}
	for at := from; at.Before(to); at = at.Add(5 * time.Second) {
		v := 42 + 3*math.Sin(float64(at.Unix()))
		late := at.After(opened)
		if unit == jobs.Iteration {
			if v /= 35; late {
				v *= 1.58
			}
		} else if late {
			v = 0
		}
		t.Points = append(t.Points, jobs.Point{At: at, Value: v})
	}
	return t, nil
}

// slow is an incident of a job that got slow and is over.
func slow() incident.Incident {
	end := opened.Add(20 * time.Minute)
	var rounds []incident.Round
	for n := range 8 {
		r := incident.Round{Comm: "dp_0", Op: fmt.Sprintf("AllReduce #%d", 1200+n)}
		for rank := range 8 {
			s := incident.Spell{Rank: rank, Before: 1.1, Inside: 0.8, Network: 0.1}
			if rank == 6 {
				s.Before, s.Inside = 1.78, 0.12
			}
			r.Members = append(r.Members, s)
		}
		rounds = append(rounds, r)
	}
	return incident.Incident{
		Rounds:  rounds,
		Version: 1, ID: "slowslowslow", JobID: "llm-finetune", State: incident.Resolved, OpenedAt: opened, UpdatedAt: end, ResolvedAt: &end,
		Triggers: []incident.Trigger{{Key: "b", Name: "CulpritIterationSlow", Rank: 6, Comm: "dp_0", StartedAt: opened, EndedAt: &end}},
		Verdict: &rca.Verdict{
			Version: 1, Class: rca.SlowCompute, Code: "S1", Cause: rca.CauseGPU, Confidence: 0.98, Page: true, Slowdown: 1.58,
			Summary:  "Rank 6 (node-0000, GPU 6) computes 1.6 times longer than its peers.",
			Action:   "Check the GPU (Xid, ECC, clocks, NVLink errors); drain the host and restart the job without it.",
			Culprits: []rca.Culprit{{Rank: 6, Host: "node-0000", GPU: "6", Channel: -1, Why: "clocks at 465 MHz of 1,410"}},
			Comm:     "dp_0",
			WhatIf:   []rca.WhatIf{{Kind: "all", Name: "everything", StepSeconds: 1.882, Saved: 0.37}, {Kind: "rank", Name: "rank 6", Ranks: []int{6}, StepSeconds: 1.9, Saved: 0.36}},
		},
	}
}

// hostile is an incident in which everybody is called something that ends a string.
func hostile() incident.Incident {
	inc := hung(8)
	inc.ID, inc.JobID = "hostilehosti", evil
	v := *inc.Verdict
	v.Summary, v.Action, v.Op, v.Comm = evil, evil, evil, evil
	v.Culprits = []rca.Culprit{{Rank: 5, Host: evil, GPU: evil, NIC: evil, Pod: evil, Why: evil}}
	v.Waits = []rca.WaitGroup{{Ranks: []int{5}, Count: 1, Root: true, On: -1, Reason: evil, Op: evil, Comm: evil}}
	v.Hypotheses = []rca.Hypothesis{{Group: evil, Class: evil, Cause: evil, Reason: evil}}
	v.Evidence, v.Missing, v.Contradictions = []string{evil}, []string{evil}, []string{evil}
	inc.Verdict = &v
	inc.Flow = &incident.FlowView{Comm: evil, Op: evil, From: incident.FlowEnd{Host: evil, NIC: evil}, To: incident.FlowEnd{Host: evil, GPU: evil}, QPs: []incident.QueuePair{{Device: evil, Remote: evil}}}
	inc.Feedback = []incident.Feedback{{By: evil, Note: evil, Who: evil}}
	for i := range inc.Ranks {
		inc.Ranks[i].Host, inc.Ranks[i].Text = evil, evil
	}
	inc.Triggers = []incident.Trigger{{Key: "c", Name: evil, Summary: evil, Comm: evil, Rank: -1, StartedAt: opened}}
	inc.Stacks = []incident.StackGroup{{Ranks: []int{1}, Frames: []string{evil}}}
	return inc
}
