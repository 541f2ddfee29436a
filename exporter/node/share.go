// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace"
)

// Files, and the operations and flows that they show, are bounded for the whole node. Within the bounds no tenant can take
// what another needs: whoever has most gives way first.

// Tenant is whom the bounds are shared between: a user, and on Kubernetes, where most are root, a pod.
type Tenant struct {
	UID uint32
	Pod string
}

// Tenant tells to whom the process is counted.
func (p *Process) Tenant() Tenant { return Tenant{p.uid, p.watch.cgroup.PodUID} }

var (
	errTooLarge = errors.New("all trace files together show too many operations and flows, and this user's most")
	errTooMany  = errors.New("there are too many trace files, and this user's are most")
)

// maxState bounds how many operations and flows of all processes together are held: about 150 MB. No honest set of files comes
// near.
const maxState = 400_000

// demand is how many operations and flows a process shows, those included that its next snapshot may bring.
func (p *Process) demand() int {
	n := len(p.Snap.Ops) + len(p.Snap.Flows)
	if p.Dead() || p.Lost {
		return n
	}
	return n + max(0, p.file.Slots()-p.slots)
}

// shown is the demand of all.
func (s *Sampler) shown() int {
	n := 0
	for _, p := range s.processes {
		n += p.demand()
	}
	return n
}

// limit gives up files until what all show together is held: of the tenant that shows most, the largest.
func (s *Sampler) limit(now time.Time) {
	for {
		total, most := 0, Tenant{}
		shown := map[Tenant]int{}
		for _, p := range s.processes {
			if p.Lost {
				continue
			}
			n := p.demand()
			total += n
			shown[p.Tenant()] += n
			if shown[p.Tenant()] > shown[most] {
				most = p.Tenant()
			}
		}
		if total <= maxState {
			return
		}
		var largest *Process
		for _, p := range s.processes {
			if !p.Lost && p.Tenant() == most && (largest == nil || p.demand() > largest.demand()) {
				largest = p
			}
		}
		s.lose(largest, now, &trace.Error{Reason: trace.ReasonHostile, Err: errTooLarge})
		largest.Snap = trace.Snapshot{Identity: largest.Snap.Identity, Status: largest.Snap.Status}
	}
}

// found is a file that a directory shows.
type found struct {
	path  string
	id    fileID
	uid   uint32
	empty bool
	in    *folder
}

// share chooses most files, from each user in turn: first those that are followed and live, then those unknown, then the dead, and
// last the empty.
func (s *Sampler) share(files []found, most int) (chosen []found, left int) {
	if len(files) <= most {
		return files, 0
	}
	followed := map[string]*Process{}
	for _, p := range s.processes {
		followed[p.path] = p
	}
	standing := func(f found) int {
		p := followed[f.path]
		switch {
		case p != nil && p.id == f.id && !p.Dead():
			return 0
		case f.empty:
			return 3
		case p != nil || s.unread[f.path] != nil:
			return 2
		}
		return 1
	}
	byUser := map[uint32][]found{}
	for _, f := range files {
		byUser[f.uid] = append(byUser[f.uid], f)
	}
	for _, list := range byUser {
		slices.SortFunc(list, func(a, b found) int {
			return cmp.Or(cmp.Compare(standing(a), standing(b)), cmp.Compare(a.path, b.path))
		})
	}
	users := sortedUsers(byUser)
	for turn := 0; len(chosen) < most; turn++ {
		for _, uid := range users {
			if list := byUser[uid]; turn < len(list) && len(chosen) < most {
				chosen = append(chosen, list[turn])
			}
		}
	}
	return chosen, len(files) - most
}

func sortedUsers(byUser map[uint32][]found) []uint32 {
	users := make([]uint32, 0, len(byUser))
	for uid := range byUser {
		users = append(users, uid)
	}
	slices.Sort(users)
	return users
}

// makeRoom lets a process in when maxFiles are followed: files that were removed under their processes count, too. The tenant that
// has most gives one up, a dead one first. False: that would be the newcomer's own.
func (s *Sampler) makeRoom(newcomer Tenant) bool {
	if len(s.processes) < maxFiles {
		return true
	}
	count := map[Tenant]int{}
	most := newcomer
	for _, p := range s.processes {
		if count[p.Tenant()]++; count[p.Tenant()] > count[most] {
			most = p.Tenant()
		}
	}
	victim := -1
	for i, p := range s.processes {
		if p.Tenant() == most && (p.Dead() || most != newcomer) && (victim < 0 || p.Dead() && !s.processes[victim].Dead()) {
			victim = i
		}
	}
	if victim < 0 {
		return false
	}
	s.forget(s.processes[victim])
	s.processes = slices.Delete(s.processes, victim, victim+1)
	return true
}
