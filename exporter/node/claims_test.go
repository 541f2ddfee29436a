// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// claimant is a process that claims rank 0 of job llm, as a user and from a container.
func claimant(path string, uid uint32, container string) *Process {
	p := &Process{path: path, JobID: "llm", Rank: 0, uid: uid}
	p.Kernel = nodeapi.Kernel{State: nodeapi.ProcessRunning, Verified: true, ContainerID: container}
	p.watch.cgroup = proc.Cgroup{ContainerID: container}
	return p
}

func (p *Process) with(change func(*Process)) *Process {
	change(p)
	return p
}

func dead(p *Process) { p.end() }

func rank(n int32) func(*Process) { return func(p *Process) { p.Rank = n } }

func inSlurm(job string) func(*Process) {
	return func(p *Process) { p.watch.cgroup.SlurmJob = job }
}

// began says when a process did, in clock ticks.
func began(at uint64) func(*Process) {
	return func(p *Process) { p.Snap.Identity.StartTicks, p.Snap.Identity.CreatedNS = at, at*1e7 }
}

// unkillable is what a process is that waits for a driver or for storage, and has done nothing since so many ticks.
func unkillable(since uint64) func(*Process) {
	return func(p *Process) { p.Kernel.State, p.Snap.Status.HeartbeatNS = nodeapi.ProcessDisk, since*1e7 }
}

func unseen(p *Process) { p.Kernel = nodeapi.Kernel{State: nodeapi.ProcessUnknown} }

// TestConflictingClaims has processes come round by round, and says whose claim stands after the last.
func TestConflictingClaims(t *testing.T) {
	type round func(list []*Process) []*Process
	come := func(more ...*Process) round {
		return func(list []*Process) []*Process { return append(list, more...) }
	}
	die := func(path string) round {
		return func(list []*Process) []*Process {
			for _, p := range list {
				if p.path == path {
					p.end()
				}
			}
			return list
		}
	}
	forget := func(path string) round {
		return func(list []*Process) []*Process {
			return slices.DeleteFunc(list, func(p *Process) bool { return p.path == path })
		}
	}
	for _, tt := range []struct {
		name   string
		rounds []round
		stand  string // Paths.
	}{
		{"another user comes later", []round{come(claimant("a", 1002, "")), come(claimant("evil", 1001, ""))}, "a evil"},
		{"another user was there first", []round{come(claimant("evil", 1001, "")), come(claimant("a", 1002, ""))}, "a evil"},
		{"another user comes with a rank of its own", []round{come(claimant("a", 1002, "")), come(claimant("evil", 1001, "").with(rank(7)))}, "a evil"},
		{"another user leaves a dead file", []round{come(claimant("a", 1002, "")), come(claimant("evil", 1001, "").with(dead))}, "a evil"},
		{"another user runs the name when it is free", []round{come(claimant("a", 1002, "")), die("a"), forget("a"), come(claimant("b", 1001, ""))}, "b"},
		{"both users at once", []round{come(claimant("a", 1002, ""), claimant("evil", 1001, ""))}, "a evil"},
		{
			"a Slurm job's number was taken before",
			[]round{
				come(claimant("evil", 1002, "").with(func(p *Process) { p.JobID = "17" })),
				come(claimant("a", 1002, "").with(func(p *Process) { p.JobID = "17" }).with(inSlurm("17"))),
			},
			"a",
		},
		{
			"a step of a Slurm job was taken before",
			[]round{
				come(claimant("evil", 1002, "").with(func(p *Process) { p.JobID = "17.2" })),
				come(claimant("a", 1002, "").with(func(p *Process) { p.JobID = "17.2" }).with(inSlurm("17"))),
			},
			"a",
		},
		{"the user's own program again", []round{come(claimant("a", 1002, "")), die("a"), come(claimant("b", 1002, ""))}, "a b"},
		{"the user's own program again, at once", []round{come(claimant("a", 1002, "")), come(claimant("b", 1002, ""))}, "a b"},
		{"two jobs with one id", []round{come(claimant("a", 1002, "").with(began(1))), come(claimant("b", 1002, "").with(began(2)))}, "a"},
		{"two jobs with one id, found at once", []round{come(claimant("b", 1002, "").with(began(2)), claimant("a", 1002, "").with(began(1)))}, "a"},
		{"two jobs with one id, until the older ends", []round{come(claimant("a", 1002, "").with(began(1))), come(claimant("b", 1002, "").with(began(2))), die("a")}, "a b"},
		{"three jobs with one id", []round{come(claimant("c", 0, "").with(began(3)), claimant("b", 0, "").with(began(2)), claimant("a", 0, "").with(began(1)))}, "a"},
		{"two jobs with one id and other ranks", []round{come(claimant("a", 1002, "").with(began(1)), claimant("b", 1002, "").with(began(2)).with(rank(1)))}, "a b"},
		{"the rank cannot be killed, and its successor comes", []round{come(claimant("a", 1002, "").with(began(1)).with(unkillable(1)), claimant("b", 1002, "").with(began(2)))}, "a b"},
		{"the rank waits for storage now and then", []round{come(claimant("a", 1002, "").with(began(1)).with(unkillable(3)), claimant("b", 1002, "").with(began(2)))}, "a"},
		{"in another Slurm job after the end", []round{come(claimant("a", 1002, "").with(inSlurm("17"))), die("a"), come(claimant("b", 1002, "").with(inSlurm("18")))}, "a b"},
		{"in another Slurm job meanwhile", []round{come(claimant("a", 1002, "").with(inSlurm("17"))), come(claimant("evil", 1002, "").with(inSlurm("18")))}, "a"},
		{"another container", []round{come(claimant("a", 0, "one")), come(claimant("evil", 0, "two"))}, "a"},
		{"another container, of another rank", []round{come(claimant("a", 0, "one")), come(claimant("b", 0, "two").with(rank(1)))}, "a b"},
		{"another container after the end", []round{come(claimant("a", 0, "one")), die("a"), come(claimant("b", 0, "two"))}, "a b"},
		{"another container that was there before the end", []round{come(claimant("a", 0, "one")), come(claimant("evil", 0, "two")), die("a")}, "a"},
		{"two containers at once", []round{come(claimant("a", 0, "one"), claimant("b", 0, "two"))}, ""},
		{"one that the kernel does not show", []round{come(claimant("a", 0, "one")), come(claimant("evil", 0, "").with(unseen))}, "a"},
		{"ranks unknown", []round{come(claimant("a", 0, "one").with(rank(-1))), come(claimant("b", 0, "two").with(rank(-1)))}, "a b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []*Process
			for _, change := range tt.rounds {
				list = change(list)
				for range 2 { // What was decided stays.
					arbitrate(list)
				}
			}
			var stand []string
			for _, p := range list {
				if p.Disputed == "" {
					stand = append(stand, p.path)
				} else if p.stands {
					t.Errorf("%s stands and is disputed: %s", p.path, p.Disputed)
				}
			}
			slices.Sort(stand)
			if got := strings.Join(stand, " "); got != tt.stand {
				t.Errorf("%q stand, want %q", got, tt.stand)
			}
		})
	}
}

// TestNoClaim has processes that do not say what they belong to.
func TestNoClaim(t *testing.T) {
	list := []*Process{claimant("a", 1001, ""), claimant("b", 1002, "")}
	for _, p := range list {
		p.JobID, p.Rank = unknownJob, -1
	}
	arbitrate(list)
	if list[0].Disputed != "" || list[1].Disputed != "" {
		t.Errorf("disputed: %q, %q", list[0].Disputed, list[1].Disputed)
	}
}
