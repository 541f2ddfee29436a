// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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

// Each exporter settles conflicting claims on its own host. Only Prometheus sees one rank claimed on two hosts, or jobs of one name
// and two users. Jobs of two users are two jobs, and each is analysed by itself. Of one user's processes that claim one rank, the one
// that Slurm runs in the job is believed, then the older; where the order is not known, none is.

// tenancy is the user that a job belongs to, and the ranks for which no process is believed.
type tenancy struct {
	owner     string         // User that the job belongs to; empty: exporters do not tell.
	known     bool           // False: several users claim the job, and nothing shows whose it is.
	users     []string       // All users with a claim.
	others    []string       // Users that run jobs of the same name.
	disputed  map[int]string // Reason by rank.
	contested []int          // Ranks that several living processes of the user claim, of which one is believed.
	where     string         // The instances of the first of them.
}

// claim says that an exporter shows a process as a rank.
type claim struct {
	rank     int
	instance string
}

func claimOf(p *Process) claim { return claim{p.Rank, p.Instance} }

// perClaim keeps one process for each claim, in order, preferably one that is scraped now. After a restart on other hosts the
// lookback still shows the old place. That one is dropped if the same user's rank is scraped elsewhere.
func perClaim(list []Process) []Process {
	type tenant struct {
		rank  int
		owner string
	}
	live := map[tenant]bool{}
	for i := range list {
		if p := &list[i]; p.Live {
			live[tenant{p.Rank, p.Owner}] = true
		}
	}
	list = slices.DeleteFunc(list, func(p Process) bool { return !p.Live && live[tenant{p.Rank, p.Owner}] })
	slices.SortFunc(list, func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), compareBool(b.Live, a.Live), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.PID, b.PID))
	})
	return slices.CompactFunc(list, func(a, b Process) bool { return claimOf(&a) == claimOf(&b) && a.Owner == b.Owner })
}

func owners(list []Process) []string {
	var out []string
	for i := range list {
		if owner := list[i].Owner; !slices.Contains(out, owner) {
			out = append(out, owner)
		}
	}
	slices.Sort(out)
	return out
}

// inSlurm reports whether Slurm runs the process in the job, by the cgroup that the kernel shows.
func inSlurm(job identity.Job, p *Process) bool {
	number, _, _ := strings.Cut(job.ID, ".") // A step of it.
	return p.SlurmJob != "" && p.SlurmJob == number
}

// ownerOf gives the user that a job belongs to: the one that is asked for, else the only one with a claim, else the one that
// Slurm runs the job for. Who came first proves nothing: anybody can run a name before its owner does.
func ownerOf(job identity.Job, list []Process) (string, bool) {
	if owner := job.Owner(); owner != "" {
		return owner, true
	}
	all := owners(list)
	if len(all) > 1 {
		all = owners(slices.DeleteFunc(slices.Clone(list), func(p Process) bool { return !inSlurm(job, &p) }))
	}
	if len(all) != 1 {
		return "", len(list) == 0
	}
	return all[0], true
}

// settle chooses one process for each rank from all claims to a job.
func (d *Directory) settle(ctx context.Context, job identity.Job, claims []Process) ([]Process, tenancy, error) {
	t := tenancy{users: owners(claims)}
	t.owner, t.known = ownerOf(job, claims)
	contested := false
	for i := 1; i < len(claims); i++ {
		contested = contested || claims[i].Rank == claims[i-1].Rank
	}
	if t.known && !contested {
		return claims, t, nil
	}
	first, alive, err := d.tenure(ctx, job)
	var out []Process
	for i := 0; i < len(claims); {
		end := i + 1
		for end < len(claims) && claims[end].Rank == claims[i].Rank {
			end++
		}
		of := slices.DeleteFunc(slices.Clone(claims[i:end]), func(p Process) bool { return t.known && p.Owner != t.owner })
		i = end
		if len(of) == 0 {
			continue
		}
		out = append(out, t.choose(job, of, first, alive))
	}
	return out, t, err
}

// choose takes one of the claims to one rank.
func (t *tenancy) choose(job identity.Job, claims []Process, first map[claim]time.Time, alive map[claim]bool) Process {
	if slices.ContainsFunc(claims, func(p Process) bool { return inSlurm(job, &p) }) {
		claims = slices.DeleteFunc(claims, func(p Process) bool { return !inSlurm(job, &p) })
	}
	p, rivals, ok := stands(claims, first, alive)
	switch {
	case !ok || !t.known:
		t.dispute(p.Rank, fmt.Sprintf("processes on %s claim to be it", instances(claims)))
	case len(rivals) > 1:
		if len(t.contested) == 0 {
			t.where = instances(rivals)
		}
		t.contested = append(t.contested, p.Rank)
	}
	return p
}

// stands chooses between one user's claims to one rank, and gives those of living processes. An ended process never outvotes a living
// one.
func stands(claims []Process, first map[claim]time.Time, alive map[claim]bool) (p Process, living []Process, ok bool) {
	living = slices.DeleteFunc(slices.Clone(claims), func(p Process) bool {
		up, told := alive[claimOf(&p)]
		return !p.Live || told && !up
	})
	if len(living) == 0 {
		return claims[0], nil, true
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
	return oldest, living, unique
}

func instances(claims []Process) string {
	var out []string
	for i := range claims {
		if at := claims[i].Instance; !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return strings.Join(out, " and ")
}

// firstSeenQuery looks back an hour in steps of a minute. Conflicts are rare, and of two claims that are older than that, none is
// believed.
const firstSeenQuery = "min by (rank, instance) (min_over_time(timestamp(%s)[1h:1m]))"

// tenure asks Prometheus since when it has each claim to a job, and which processes are alive.
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
			first[claim{rank, string(s.Metric["instance"])}] = time.Unix(int64(s.Value), 0)
		}
	}
	for _, s := range up {
		if rank, err := strconv.Atoi(string(s.Metric["rank"])); err == nil {
			at := claim{rank, string(s.Metric["instance"])}
			alive[at] = alive[at] || s.Value != 0
		}
	}
	return first, alive, cmp.Or(sinceErr, upErr)
}

// Namesakes gives the processes of other users that run under the name of a job.
func (d *Directory) Namesakes(ctx context.Context, job identity.Job) ([]Process, error) {
	if job.Owner() == "" {
		return nil, nil
	}
	anyones := job.OwnedBy("")
	text, err := config.Query(d.cfg.Queries.Processes, anyones.Selector())
	if err != nil {
		return nil, err
	}
	// Almost always there are none, and the labels of all processes of a job take long to read.
	who, err := d.vector(ctx, fmt.Sprintf("group by (owner, uid) (%s)", text))
	if err != nil {
		return nil, err
	}
	stranger := func(m model.Metric) bool { owner := ownerIn(m); return owner != "" && owner != job.Owner() }
	if !slices.ContainsFunc(who, func(s *model.Sample) bool { return stranger(s.Metric) }) {
		return nil, nil
	}
	all, err := d.ask(ctx, anyones)
	return perClaim(slices.DeleteFunc(all[anyones], func(p Process) bool { return !p.Live || p.Owner == "" || p.Owner == job.Owner() })), err
}

// meet notes who else runs jobs of the name. A rank that the job lacks and that a namesake claims may be either's.
func (s *Session) meet(namesakes []Process) {
	t := &s.tenancy
	t.others = owners(namesakes)
	for i := range namesakes {
		rank := namesakes[i].Rank
		if _, ours := s.processes[rank]; !ours && rank < s.world {
			t.dispute(rank, fmt.Sprintf("only a process of user %s on %s claims to be it, and the job is user %s's", namesakes[i].Owner, namesakes[i].Instance, t.owner))
		}
	}
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

// Conflict says why the evidence may not be of the job at all, or not of all its ranks; empty: nothing contradicts it. It then proves
// nobody innocent.
func (s *Session) Conflict() string {
	t := &s.tenancy
	switch {
	case !t.known && len(t.users) > 0:
		return t.nobodys()
	case len(t.contested) > 0:
		return t.twice()
	}
	for _, rank := range slices.Sorted(maps.Keys(t.disputed)) {
		return fmt.Sprintf("rank %d: %s", rank, t.disputed[rank])
	}
	return ""
}

// nobodys says that nothing shows whose job it is.
func (t *tenancy) nobodys() string {
	return fmt.Sprintf("users %s run processes of this name, and nothing shows whose job it is", strings.Join(t.users, " and "))
}

// twice says of which ranks there are two.
func (t *tenancy) twice() string {
	more := ""
	if n := len(t.contested) - 1; n > 0 {
		more = fmt.Sprintf(", as of %d more ranks", n)
	}
	return fmt.Sprintf("living processes on %s claim rank %d%s, and one of each is taken for it", t.where, t.contested[0], more)
}

// disputes adds what is in conflict about the job to what is missing.
func (a *assembly) disputes(t *tenancy) {
	job := func(why string) {
		a.ev.Missing = append(a.ev.Missing, rca.Missing{What: "claim", Name: "job " + a.ev.JobID, Why: why})
	}
	if !t.known && len(t.users) > 0 {
		job(t.nobodys())
		return
	}
	if len(t.others) > 0 {
		job(fmt.Sprintf("users %s run jobs of this name; this is the job of user %s", strings.Join(slices.Sorted(slices.Values(append(slices.Clone(t.others), t.owner))), " and "), t.owner))
	}
	if len(t.contested) > 0 {
		job(t.twice())
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
