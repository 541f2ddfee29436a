// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
)

// Call is the last operation that a process called on a communicator, as NCCL_DEBUG_SUBSYS=COLL prints it.
type Call struct {
	Host  string
	PID   int
	GPU   string
	Comm  string // NCCL's address of it in the process.
	Size  int    // 0 unknown.
	Count int64  // Operations called before it.
	Op    string
}

type callKey struct {
	host string
	pid  int
	comm string
}

// launched takes an operation that a process calls: the newest counts.
func (p *parser) launched(e *grammar.Event) {
	const most = maxRank
	n, err := strconv.ParseInt(e.Get("count"), 16, 63)
	if err != nil {
		return
	}
	c := Call{Host: unlabelled(e.Get("host")), PID: e.Int("pid"), GPU: e.Get("gpu"), Comm: e.Get("comm"), Size: max(e.Int("size"), 0), Count: n, Op: e.Get("op")}
	key := callKey{c.Host, c.PID, c.Comm}
	if _, ok := p.log.Calls[key]; ok || len(p.log.Calls) < most {
		p.log.Calls[key] = c
	}
}

// behind tells which processes have called fewer operations on a communicator than most of its others. Launches run ahead of the
// GPU, so that is a suspicion.
func (b *builder) behind(logs []*Log) {
	id := map[callKey]string{} // Communicators' names, which all their processes print alike.
	for _, l := range logs {
		for _, j := range l.Joins {
			id[callKey{j.Host, j.PID, j.Address}] = j.Comm
		}
	}
	by := map[string][]Call{}
	for _, l := range logs {
		for _, key := range slices.SortedFunc(maps.Keys(l.Calls), compareCalls) {
			c := l.Calls[key]
			name := id[key]
			if name == "" {
				name = fmt.Sprintf("of %d ranks", c.Size)
			}
			by[name] = append(by[name], c)
		}
	}
	const few = 4 // A quarter at most, as of stacks.
	for _, name := range slices.Sorted(maps.Keys(by)) {
		calls := by[name]
		most := slices.MaxFunc(calls, func(x, y Call) int { return cmp.Compare(x.Count, y.Count) }).Count
		late := slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return c.Count == most })
		if len(late) == 0 || len(calls) < 2 || len(late) > max(1, len(calls)/few) || len(calls) == 2 && calls[0].Size > 2 {
			continue
		}
		for _, c := range late {
			f := told.New(grammar.Behind, fmt.Sprintf("called fewer operations than the others on communicator %s: its last is %s number %d, theirs is number %d", name, c.Op, c.Count, most))
			f.Host, f.PID, f.GPU = c.Host, c.PID, c.GPU
			b.found = append(b.found, f)
		}
	}
}

func compareCalls(x, y callKey) int {
	return cmp.Or(cmp.Compare(x.host, y.host), cmp.Compare(x.pid, y.pid), cmp.Compare(x.comm, y.comm))
}
