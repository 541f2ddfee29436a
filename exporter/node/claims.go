// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// unknownJob is the name of the job of processes that name none.
const unknownJob = "unknown"

// claimed is what a process says it is.
type claimed struct {
	job  string
	rank int32
}

// arbitrate decides whose claims stand, and says which do not.
func (s *Sampler) arbitrate() {
	before := make([]string, len(s.processes))
	for i, p := range s.processes {
		before[i] = p.Disputed
	}
	arbitrate(s.processes)
	for i, p := range s.processes {
		if p.Disputed != "" && p.Disputed != before[i] {
			s.log.Warn("Disputed claim", "file", p.path, "job_id", p.JobID, "rank", p.Rank, "uid", p.uid, "pid", p.Kernel.HostPID, "why", p.Disputed)
		}
	}
}

// job is what tells one job from another: its name, which its processes choose, and its owner, whom they cannot choose.
type job struct {
	id    string
	owner uint32
}

// arbitrate decides whose claims stand. A process says itself which job and rank it is. Its user, its container and its
// Slurm job it cannot choose: the kernel shows them. Jobs of one name and two users are two jobs. When two containers of a user claim
// one rank, the claim that stood before stands, and the other is disputed: it is shown, but never taken for the job. Where neither stood
// before, nobody can tell, and both are disputed. Of two living processes in one place the older is believed. Where Slurm runs the
// job, only its processes are believed.
func arbitrate(processes []*Process) {
	jobs := map[job][]*Process{}
	for _, p := range processes {
		if now := (claimed{p.JobID, p.Rank}); now != p.claimed {
			p.claimed, p.stands, p.Disputed = now, false, ""
		}
		if p.JobID != unknownJob {
			j := job{p.JobID, p.uid}
			jobs[j] = append(jobs[j], p)
		}
	}
	for j, list := range jobs {
		inSlurm := func(p *Process) bool {
			return p.watch.cgroup.SlurmJob != "" && p.watch.cgroup.SlurmJob == slurmJob(j.id)
		}
		ofSlurm := slices.ContainsFunc(list, inSlurm)
		ranks := map[int32][]*Process{}
		for _, p := range list {
			if ofSlurm && !inSlurm(p) {
				p.dispute("job %q is one of Slurm's, and Slurm does not run this process in it", j.id)
				continue
			}
			ranks[p.Rank] = append(ranks[p.Rank], p)
		}
		for rank, list := range ranks {
			arbitrateRank(rank, list)
		}
	}
}

// slurmJob gives the Slurm job of an id that may name a step of it.
func slurmJob(id string) string {
	number, _, _ := strings.Cut(id, ".")
	return number
}

// ofSlurm reports whether a job id reads as one of Slurm's: a number, and perhaps a step.
func ofSlurm(id string) bool { return slurmID.MatchString(id) }

var slurmID = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

func (p *Process) dispute(format string, args ...any) {
	p.stands, p.Disputed = false, fmt.Sprintf(format, args...)
}

func (p *Process) accept() { p.stands, p.Disputed = true, "" }

// arbitrateRank decides between processes of one user that claim one rank.
func arbitrateRank(rank int32, list []*Process) {
	holder := holderOf(list)
	for _, p := range list {
		elder := elderOf(p, list)
		switch {
		case rank >= 0 && elder != nil:
			p.dispute("rank %d is process %d, which began before and lives: two jobs have one id", rank, elder.Kernel.HostPID)
		case rank < 0 || p.stands:
			p.accept()
		case holder == nil:
			p.dispute("another process claims rank %d, and neither was seen first", rank)
		case samePlace(p, holder), holder.Dead() && !p.Dead() && p.Disputed == "": // The rank began again elsewhere.
			p.accept()
		default:
			p.dispute("rank %d is another process, in another container or Slurm job", rank)
		}
	}
}

// elderOf gives a living process in the same place that began before p, so that p is no restart of it; nil where there is none. One that
// cannot be killed, in the driver or in storage, and has done nothing since, does not keep its successor away.
func elderOf(p *Process, list []*Process) *Process {
	lives := func(q *Process) bool { return q.Verified() && !q.Dead() }
	if !lives(p) {
		return nil
	}
	var elder *Process
	for _, q := range list {
		began := cmp.Or(cmp.Compare(q.Snap.Identity.StartTicks, p.Snap.Identity.StartTicks), cmp.Compare(q.Snap.Identity.CreatedNS, p.Snap.Identity.CreatedNS))
		stuck := q.Kernel.State == nodeapi.ProcessDisk && q.Snap.Status.HeartbeatNS <= p.Snap.Identity.CreatedNS
		if began < 0 && lives(q) && !stuck && samePlace(p, q) && (elder == nil || q.Snap.Identity.StartTicks < elder.Snap.Identity.StartTicks) {
			elder = q
		}
	}
	return elder
}

// holderOf gives a process that stands for the rank: a living one where there is one. It is nil when none stood before and
// those that come differ.
func holderOf(list []*Process) *Process {
	for _, trusted := range []func(*Process) bool{
		func(p *Process) bool { return p.stands && !p.Dead() },
		func(p *Process) bool { return p.stands },
		func(p *Process) bool { return !p.Dead() && p.Verified() },
		func(p *Process) bool { return !p.Dead() },
		func(*Process) bool { return true },
	} {
		i := slices.IndexFunc(list, trusted)
		if i < 0 {
			continue
		}
		holder := list[i]
		differ := func(p *Process) bool { return !p.stands && trusted(p) && !samePlace(p, holder) }
		if !holder.stands && slices.ContainsFunc(list, differ) {
			return nil
		}
		return holder
	}
	return nil
}

// samePlace tells whether the kernel shows two processes in the same container, pod and Slurm job.
func samePlace(p, q *Process) bool {
	a, b := &p.watch.cgroup, &q.watch.cgroup
	return p.Verified() == q.Verified() && a.ContainerID == b.ContainerID && a.PodUID == b.PodUID && a.SlurmJob == b.SlurmJob
}
