// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
)

const rankRowsShown = 24

// rankRow is a line of the table of ranks.
type rankRow struct {
	rank     int
	label    string // What the rank is known by instead of its number.
	host     string
	state    string
	op       string // Oldest operation it waits in.
	behind   string
	waitedBy string
	order    int
	alike    []int // Further ranks of which the same is to be said.
}

// name is what the table shows of the row's ranks.
func (r *rankRow) name() string {
	if r.label != "" {
		return r.label
	}
	return strings.TrimPrefix(strings.TrimPrefix(rankList(append([]int{r.rank}, r.alike...)), "ranks "), "rank ")
}

// column is one of the table of ranks.
type column struct {
	title string
	value func(r *rankRow) string
}

// shownColumns gives the columns in which any row has something.
func shownColumns(rows []rankRow) []column {
	all := []column{
		{"RANK", (*rankRow).name},
		{"HOST", func(r *rankRow) string { return r.host }},
		{"STATE", func(r *rankRow) string { return r.state }},
		{"WAITS IN", func(r *rankRow) string { return r.op }},
		{"BEHIND BY", func(r *rankRow) string { return r.behind }},
		{"WAITED FOR BY", func(r *rankRow) string { return r.waitedBy }},
	}
	return slices.DeleteFunc(all, func(c column) bool {
		return !slices.ContainsFunc(rows, func(r rankRow) bool { return c.value(&r) != "" })
	})
}

// dullShown is how many ranks with nothing to say have a line each.
const dullShown = 4

// joinDull collapses quiet ranks to one row per state, where they are many.
func joinDull(rows []rankRow) []rankRow {
	dull := func(r *rankRow) bool {
		return r.label == "" && r.order > orderAccused && r.op == "" && r.behind == "" && r.waitedBy == ""
	}
	many := map[string]int{}
	for i := range rows {
		if dull(&rows[i]) {
			many[rows[i].state]++
		}
	}
	at := map[string]int{}
	var out []rankRow
	for i := range rows {
		r := rows[i]
		if !dull(&r) || many[r.state] <= dullShown {
			out = append(out, r)
			continue
		}
		j, ok := at[r.state]
		if !ok {
			at[r.state] = len(out)
			out = append(out, r)
			continue
		}
		out[j].alike = append(out[j].alike, r.rank)
		if out[j].host != r.host {
			out[j].host = ""
		}
	}
	return out
}

// jobRanks is what is said of all ranks together.
type jobRanks struct {
	names   map[rca.CommID]string
	most    map[rca.CommID]int64 // Operations called by the member that is furthest.
	accused []int
	missing map[int]string       // Why nothing, or not all, is known of a rank.
	waiters map[int]map[int]bool // Who waits for a rank.
}

func newJobRanks(ev *rca.Evidence, v rca.Verdict) *jobRanks {
	j := &jobRanks{names: map[rca.CommID]string{}, most: map[rca.CommID]int64{}, accused: diagnosis.Accused(v), missing: map[int]string{}}
	members := map[rca.CommID][]int{}
	for _, c := range ev.Comms {
		j.names[c.ID] = c.Name
		members[c.ID] = c.Members
	}
	for _, r := range ev.Ranks {
		for _, m := range r.Memberships {
			j.most[m.Comm] = max(j.most[m.Comm], m.Called)
		}
	}
	j.waiters = waitedFor(*ev, members)
	for _, m := range ev.Missing {
		for _, r := range m.Ranks {
			j.missing[r] = m.Why
		}
	}
	return j
}

// rankRows gives every rank, the accused first, then the missing, those behind, those waiting, and the others.
func rankRows(ev rca.Evidence, v rca.Verdict) []rankRow {
	j := newJobRanks(&ev, v)
	seen := map[int]bool{}
	var rows []rankRow
	for i := range ev.Ranks {
		seen[ev.Ranks[i].ID] = true
		rows = append(rows, j.row(&ev.Ranks[i]))
	}
	for r := range j.missing {
		if !seen[r] {
			rows = append(rows, rankRow{rank: r, state: "missing", order: orderMissing})
		}
	}
	for i := range rows {
		j.others(&rows[i])
	}
	slices.SortFunc(rows, func(a, b rankRow) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.rank, b.rank)) })
	return rows
}

// Groups of rows, in the order of the table.
const (
	orderAccused = iota
	orderMissing
	orderBehind
	orderWaiting
	orderRunning
)

// row says what is known of a rank that was seen.
func (j *jobRanks) row(r *rca.Rank) rankRow {
	row := rankRow{rank: r.ID, label: r.Name, host: r.Host, state: "running", order: orderRunning}
	if len(r.Memberships) == 0 && r.State == rca.ProcessUnknown && r.Caps&rca.SeesProcess == 0 {
		row.state = "" // Nothing shows whether it runs.
	}
	if op, comm := oldest(r); op != nil {
		row.op = fmt.Sprintf("%s in %s", opName(op), orDash(j.names[comm]))
		row.state, row.order = "waiting", orderWaiting
	}
	if c := openCall(r); c != nil {
		row.op, row.state, row.order = c.Name, "waiting", orderWaiting
		if j.names[c.On] != "" {
			row.op += " in " + j.names[c.On]
		}
	}
	if n, comm := furthestBehind(r, j.most); n > 0 {
		row.behind = fmt.Sprintf("%d in %s", n, j.names[comm])
		row.order = min(row.order, orderBehind)
	}
	switch {
	case r.State == rca.ProcessGone || r.State == rca.ProcessStopped || r.State == rca.ProcessDisk:
		row.state = string(r.State)
	case len(r.Memberships) == 0 && r.State == rca.ProcessUnknown && len(r.Stack) > 0:
		if st := frames.Of(r.Stack); st.Kind.MayWait() {
			row.state, row.op, row.order = "waiting", strings.TrimPrefix(st.String(), "in "), orderWaiting
		} else {
			row.state = st.String()
		}
	case j.missing[r.ID] != "":
		row.state, row.order = "missing", orderMissing
	}
	return row
}

// waitersShown is up to how many ranks that wait for one are listed.
const waitersShown = 4

// others adds what the others have to do with a row's rank: who waits for it, and whether it is accused.
func (j *jobRanks) others(row *rankRow) {
	if slices.Contains(j.accused, row.rank) {
		row.state, row.order = strings.TrimSuffix("culprit, "+row.state, ", "), orderAccused
	}
	switch n := len(j.waiters[row.rank]); {
	case n > waitersShown:
		row.waitedBy = fmt.Sprintf("%d ranks", n)
	case n > 0:
		row.waitedBy = rankList(sorted(j.waiters[row.rank]))
	}
}

func sorted(set map[int]bool) []int {
	out := make([]int, 0, len(set))
	for r := range set {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

func opName(op *rca.Op) string {
	s := cmp.Or(op.Func, "operation")
	if op.Seq >= 0 && op.Peer < 0 {
		s += fmt.Sprintf(" %d", op.Seq)
	}
	if op.Peer >= 0 {
		s += fmt.Sprintf(" with %d", op.Peer)
	}
	return s
}

// openCall is the call that makes or ends a communicator which the rank has been in for longest, nil none.
func openCall(r *rca.Rank) *rca.Call {
	var best *rca.Call
	for i := range r.Calls {
		if c := &r.Calls[i]; !c.Returned && (best == nil || c.Since > best.Since) {
			best = c
		}
	}
	return best
}

// oldest is the operation that the rank has waited in for longest.
func oldest(r *rca.Rank) (*rca.Op, rca.CommID) {
	var best *rca.Op
	var comm rca.CommID
	for i := range r.Memberships {
		m := &r.Memberships[i]
		for j := range m.InFlight {
			if op := &m.InFlight[j]; !op.NoCompletion && (best == nil || op.Age > best.Age) {
				best, comm = op, m.Comm
			}
		}
	}
	return best, comm
}

func furthestBehind(r *rca.Rank, most map[rca.CommID]int64) (behind int64, comm rca.CommID) {
	for _, m := range r.Memberships {
		if n := most[m.Comm] - m.Called; m.Called >= 0 && n > behind {
			behind, comm = n, m.Comm
		}
	}
	return behind, comm
}

// waitedFor gives, for each rank, who has called a collective that the rank has not.
func waitedFor(ev rca.Evidence, members map[rca.CommID][]int) map[int]map[int]bool {
	type waiter struct {
		rank   int
		number int64
	}
	waiters := map[rca.CommID][]waiter{}
	called := map[rca.CommID]map[int]int64{}
	lossy := map[int]bool{} // What these do not show may still be.
	for _, r := range ev.Ranks {
		lossy[r.ID] = r.Lost > 0
		for _, m := range r.Memberships {
			if called[m.Comm] == nil {
				called[m.Comm] = map[int]int64{}
			}
			called[m.Comm][r.ID] = m.Called
			for _, op := range m.InFlight {
				if op.Number >= 0 && op.Peer < 0 {
					waiters[m.Comm] = append(waiters[m.Comm], waiter{r.ID, op.Number})
					break
				}
			}
		}
	}
	out := map[int]map[int]bool{}
	for comm, ws := range waiters {
		for _, member := range members[comm] {
			n, seen := called[comm][member]
			if seen && n < 0 && !lossy[member] {
				continue
			}
			for _, w := range ws {
				if w.rank != member && (!seen || n <= w.number) {
					if out[member] == nil {
						out[member] = map[int]bool{}
					}
					out[member][w.rank] = true
				}
			}
		}
	}
	return out
}

// waits says "1 rank waits" or "3 ranks wait".
func waits(n int) string {
	if n == 1 {
		return "1 rank waits"
	}
	return fmt.Sprintf("%d ranks wait", n)
}

// Suspects says which ranks nobody saw although others wait for them: absence hides a culprit as well as a victim.
func Suspects(r *diagnosis.Result) []string {
	if c := r.Verdict.Cause; r.Verdict.Class != rca.Unknown && (c == rca.CauseException || c == rca.CauseProcessGone) {
		return nil // Who ended first ended the others, too: that they say nothing is no sign.
	}
	if r.Verdict.Class == rca.Inconsistent || told.Says(&r.Verdict) {
		return nil // That explains it, whatever the others did.
	}
	members := map[rca.CommID][]int{}
	for _, c := range r.Evidence.Comms {
		members[c.ID] = c.Members
	}
	named := diagnosis.Accused(r.Verdict)
	why := map[int]string{}
	for i := range r.Evidence.Ranks {
		if rank := &r.Evidence.Ranks[i]; rank.Lost > 0 {
			why[rank.ID] = "its record is incomplete"
		}
	}
	for _, m := range r.Evidence.Missing {
		for _, rank := range m.Ranks {
			why[rank] = m.Why
		}
	}
	if len(why) == 0 {
		return nil
	}
	waiters := waitedFor(r.Evidence, members)
	late := unfinished(r.Evidence)
	var out []string
	for _, rank := range slices.Sorted(maps.Keys(why)) {
		if slices.Contains(named, rank) {
			continue
		}
		if n := len(waiters[rank]); n == 0 && late[rank] {
			out = append(out, fmt.Sprintf("rank %d is a suspect too: %s, and it has not finished what others have", rank, why[rank]))
		} else if n > 0 {
			out = append(out, fmt.Sprintf("rank %d is a suspect too: %s, and %s for it", rank, why[rank], waits(n)))
		}
	}
	return out
}

// unfinished says which ranks are inside a collective that another member has finished.
func unfinished(ev rca.Evidence) map[int]bool {
	most := map[rca.CommID]int64{}
	for i := range ev.Ranks {
		for _, m := range ev.Ranks[i].Memberships {
			most[m.Comm] = max(most[m.Comm], m.Completed)
		}
	}
	out := map[int]bool{}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		for _, m := range r.Memberships {
			out[r.ID] = out[r.ID] || slices.ContainsFunc(m.InFlight, func(op rca.Op) bool {
				return op.Number >= 0 && op.Peer < 0 && op.Number < most[m.Comm]
			})
		}
	}
	return out
}
