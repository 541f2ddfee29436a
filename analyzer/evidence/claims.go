// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Each exporter settles conflicting claims on its own host. Only Prometheus sees one rank claimed on two hosts, or one job
// claimed by two users on different hosts. Here, too, the older claim is believed; where the order is not known, neither is.

// tenancy is the user that a job belongs to, and the ranks for which no process is believed.
type tenancy struct {
	owner    string         // User that the job belongs to, from the label uid.
	known    bool           // False: several users claim the job, and it is not known who was first.
	users    []string       // All users with a claim.
	disputed map[int]string // Reason by rank.
}

// claim says that an exporter shows a process of a user as a rank.
type claim struct {
	rank          int
	instance, uid string
}

func claimOf(p *Process) claim { return claim{p.Rank, p.Instance, p.UID} }

// perClaim keeps one process for each claim, in order, preferably one that is scraped now. After a restart on other hosts the
// lookback still shows the old place. That one is dropped if the same user's rank is scraped elsewhere.
func perClaim(list []Process) []Process {
	type tenant struct {
		rank int
		uid  string
	}
	live := map[tenant]bool{}
	for i := range list {
		if p := &list[i]; p.Live {
			live[tenant{p.Rank, p.UID}] = true
		}
	}
	list = slices.DeleteFunc(list, func(p Process) bool { return !p.Live && live[tenant{p.Rank, p.UID}] })
	slices.SortFunc(list, func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), compareBool(b.Live, a.Live), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.UID, b.UID), cmp.Compare(a.PID, b.PID))
	})
	return slices.CompactFunc(list, func(a, b Process) bool { return claimOf(&a) == claimOf(&b) })
}

func users(list []Process) []string {
	var out []string
	for i := range list {
		if uid := list[i].UID; !slices.Contains(out, uid) {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

// owner gives the user that a job is known to belong to: the only user with a claim, else the remembered one if that user still
// has a claim.
func (r *remembered) owner(list []Process) (string, bool) {
	all := users(list)
	if len(all) == 1 {
		return all[0], true
	}
	return r.tenant, r.tenanted && slices.Contains(all, r.tenant)
}

// settle chooses one process for each rank from all claims to a job.
func (d *Directory) settle(ctx context.Context, job identity.Job, claims []Process) ([]Process, tenancy, error) {
	d.mu.Lock()
	r := d.known[job]
	d.mu.Unlock()
	t := tenancy{users: users(claims)}
	t.owner, t.known = r.owner(claims)
	contested := false
	for i := 1; i < len(claims); i++ {
		contested = contested || claims[i].Rank == claims[i-1].Rank
	}
	if t.known && !contested {
		return claims, t, nil
	}
	first, alive, err := d.tenure(ctx, job)
	if !t.known {
		if t.owner, t.known = firstUser(claims, first); t.known {
			d.mu.Lock()
			r = d.known[job]
			r.tenant, r.tenanted = t.owner, true
			d.known[job] = r
			d.mu.Unlock()
		}
	}
	var out []Process
	for i := 0; i < len(claims); {
		end := i + 1
		for end < len(claims) && claims[end].Rank == claims[i].Rank {
			end++
		}
		of := slices.DeleteFunc(slices.Clone(claims[i:end]), func(p Process) bool { return t.known && p.UID != t.owner })
		i = end
		if len(of) == 0 {
			continue
		}
		p, ok := stands(of, first, alive)
		if !ok || !t.known {
			t.dispute(p.Rank, fmt.Sprintf("processes on %s claim to be it", instances(of)))
		}
		out = append(out, p)
	}
	return out, t, err
}

// firstUser gives the user whose first claim to a job is older than any other user's.
func firstUser(claims []Process, first map[claim]time.Time) (string, bool) {
	oldest := map[string]time.Time{}
	for i := range claims {
		at, told := first[claimOf(&claims[i])]
		if before, known := oldest[claims[i].UID]; told && (!known || at.Before(before)) {
			oldest[claims[i].UID] = at
		}
	}
	owner, unique := "", false
	for uid, at := range oldest {
		switch {
		case owner == "" && !unique || at.Before(oldest[owner]):
			owner, unique = uid, true
		case at.Equal(oldest[owner]):
			unique = false
		}
	}
	return owner, unique
}

// stands chooses between one user's claims to one rank. An ended process never outvotes a living one.
func stands(claims []Process, first map[claim]time.Time, alive map[claim]bool) (Process, bool) {
	living := slices.DeleteFunc(slices.Clone(claims), func(p Process) bool {
		up, told := alive[claim{p.Rank, p.Instance, ""}]
		return !p.Live || told && !up
	})
	if len(living) == 0 {
		return claims[0], true
	}
	oldest, unique := living[0], true
	for _, p := range living[1:] {
		at, told := first[claimOf(&p)]
		before, known := first[claimOf(&oldest)]
		switch {
		case !told || !known || at.Equal(before):
			unique = false
		case at.Before(before):
			oldest, unique = p, true
		}
	}
	return oldest, unique
}

func instances(claims []Process) string {
	out := make([]string, len(claims))
	for i := range claims {
		out[i] = claims[i].Instance
	}
	return strings.Join(out, " and ")
}

// firstSeenQuery looks back an hour in steps of a minute. Conflicts are rare, and a claim that is an hour old was recorded as
// first long before.
const firstSeenQuery = "min by (rank, instance, uid) (min_over_time(timestamp(%s)[1h:1m]))"

// tenure asks Prometheus since when it has each claim to a job, and which processes are alive. The second answer has no uid,
// because an instance has one series per rank.
func (d *Directory) tenure(ctx context.Context, job identity.Job) (first map[claim]time.Time, alive map[claim]bool, err error) {
	selector := job.Selector()
	processes, err := config.Query(d.cfg.Queries.Processes, selector)
	if err != nil {
		return nil, nil, err
	}
	var since, up model.Vector
	var sinceErr, upErr error
	var wg sync.WaitGroup
	wg.Go(func() { since, sinceErr = d.vector(ctx, fmt.Sprintf(firstSeenQuery, processes)) })
	wg.Go(func() { up, upErr = d.filled(ctx, d.cfg.Queries.Up, selector) })
	wg.Wait()
	first, alive = map[claim]time.Time{}, map[claim]bool{}
	for _, s := range since {
		if rank, err := strconv.Atoi(string(s.Metric["rank"])); err == nil {
			first[claim{rank, string(s.Metric["instance"]), string(s.Metric["uid"])}] = time.Unix(int64(s.Value), 0)
		}
	}
	for _, s := range up {
		if rank, err := strconv.Atoi(string(s.Metric["rank"])); err == nil {
			alive[claim{rank, string(s.Metric["instance"]), ""}] = s.Value != 0
		}
	}
	return first, alive, cmp.Or(sinceErr, upErr)
}

// believes reports whether a process may speak for the rank that it claims to be.
func (s *Session) believes(p *nodeapi.Process) bool {
	t := &s.tenancy
	switch {
	case p.Disputed != "", !t.known && len(t.users) > 0:
		return false
	case t.known && t.owner != "" && p.UID != "" && p.UID != t.owner:
		return false
	}
	return t.disputed[int(p.Rank)] == ""
}

// Disputed gives the reason why a rank must not be named: several processes claim to be that rank, and none of them is known to
// be right. Empty where the rank is not disputed.
func (s *Session) Disputed(rank int) string { return s.tenancy.disputed[rank] }

// disputes adds the ranks for which no process is believed to what is missing.
func (a *assembly) disputes(t *tenancy) {
	if !t.known && len(t.users) > 0 {
		a.ev.Missing = append(a.ev.Missing, rca.Missing{
			What: "claim", Name: "job " + a.ev.JobID, Why: fmt.Sprintf("users %q run processes of this name, and which were first is unknown", t.users),
		})
		return
	}
	for rank, why := range t.disputed {
		a.dispute(rank, why)
	}
}

func (a *assembly) dispute(rank int, why string) {
	a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "claim", Name: "rank " + strconv.Itoa(rank), Why: why})
}

func (t *tenancy) dispute(rank int, why string) {
	if t.disputed == nil {
		t.disputed = map[int]string{}
	}
	t.disputed[rank] = why
}
