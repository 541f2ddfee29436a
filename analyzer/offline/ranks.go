// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
)

const rankRowsShown = 24

// rankRow is a line of the table of ranks.
type rankRow struct {
	rank     int
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

// joinDull puts ranks of which there is nothing to say but their state on one line a state, where they are many.
func joinDull(rows []rankRow) []rankRow {
	dull := func(r *rankRow) bool { return r.order > 0 && r.op == "" && r.behind == "" && r.waitedBy == "" }
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

// rankRows gives every rank, the accused first, then the missing, those behind, those waiting, and the others.
func rankRows(ev rca.Evidence, v rca.Verdict) []rankRow {
	names := map[rca.CommID]string{}
	members := map[rca.CommID][]int{}
	for _, c := range ev.Comms {
		names[c.ID] = c.Name
		members[c.ID] = c.Members
	}
	most := map[rca.CommID]int64{} // Operations called by the member that is furthest.
	for _, r := range ev.Ranks {
		for _, m := range r.Memberships {
			most[m.Comm] = max(most[m.Comm], m.Called)
		}
	}
	waiters := waitedFor(ev, members)
	guilty := map[int]bool{}
	for _, r := range accused(v) {
		guilty[r] = true
	}
	missing := map[int]string{}
	for _, m := range ev.Missing {
		for _, r := range m.Ranks {
			missing[r] = m.Why
		}
	}
	var rows []rankRow
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		row := rankRow{rank: r.ID, host: r.Host, state: "running", order: 4}
		if op, comm := oldest(r); op != nil {
			row.op = fmt.Sprintf("%s in %s", opName(op), orDash(names[comm]))
			row.state, row.order = "waiting", 3
		}
		if c := openCall(r); c != nil {
			row.op, row.state, row.order = c.Name, "waiting", 3
			if names[c.On] != "" {
				row.op += " in " + names[c.On]
			}
		}
		if n, comm := furthestBehind(r, most); n > 0 {
			row.behind = fmt.Sprintf("%d in %s", n, names[comm])
			row.order = min(row.order, 2)
		}
		switch {
		case r.State == rca.ProcessGone || r.State == rca.ProcessStopped || r.State == rca.ProcessDisk:
			row.state = string(r.State)
		case missing[r.ID] != "":
			row.state, row.order = "missing", 1
		}
		if guilty[r.ID] {
			row.order = 0
			row.state = "culprit, " + row.state
		}
		delete(missing, r.ID)
		rows = append(rows, row)
	}
	for r := range missing {
		row := rankRow{rank: r, state: "missing", order: 1}
		if guilty[r] {
			row.state, row.order = "culprit, missing", 0
		}
		rows = append(rows, row)
	}
	for i := range rows {
		if n := len(waiters[rows[i].rank]); n > 0 {
			rows[i].waitedBy = rankList(sorted(waiters[rows[i].rank]))
			if n > 4 {
				rows[i].waitedBy = fmt.Sprintf("%d ranks", n)
			}
		}
	}
	slices.SortFunc(rows, func(a, b rankRow) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.rank, b.rank)) })
	return rows
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

// suspects says which ranks nobody saw although others wait for them: absence hides a culprit as well as a victim.
func suspects(r *result) []string {
	members := map[rca.CommID][]int{}
	for _, c := range r.evidence.Comms {
		members[c.ID] = c.Members
	}
	named := accused(r.verdict)
	why := map[int]string{}
	for i := range r.evidence.Ranks {
		if rank := &r.evidence.Ranks[i]; rank.Lost > 0 {
			why[rank.ID] = "its record is incomplete"
		}
	}
	for _, m := range r.evidence.Missing {
		for _, rank := range m.Ranks {
			why[rank] = m.Why
		}
	}
	if len(why) == 0 {
		return nil
	}
	waiters := waitedFor(r.evidence, members)
	late := unfinished(r.evidence)
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
