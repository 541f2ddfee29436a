// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/lab/ncclrecord/recording"
)

var communicators = []Rule{
	{"comm-known", "init names the communicator by its id, rank and size.", func(t *Tally, r *recording.Recording) {
		eachComm(r, func(_ *recording.Process, c *recording.Comm) {
			t.Add(c.Init.Fields["comm"] != "0x0" && c.Init.Num("ranks") > 0)
		})
	}},
	{"comm-named-in-op", "Each Coll and P2p names the communicator by its id.", always(func(s *recording.Span) bool {
		return s.Fields["comm"] != "" && s.Fields["comm"] != "0x0"
	}, "Coll", "P2p")},
	{"comm-same-id", "All ranks see the same id for a communicator.", sameIdentity},
	{"comm-has-name", "init gives the communicator a name (none was set).", func(t *Tally, r *recording.Recording) {
		eachComm(r, func(_ *recording.Process, c *recording.Comm) { t.Add(c.Init.Fields["name"] != "-") })
	}},
	{"mask-begins-empty", "The mask behind init's pointer is 0 at the first communicator.", func(t *Tally, r *recording.Recording) {
		for _, p := range r.Processes {
			if len(p.Comms) > 0 {
				t.Add(p.Comms[0].Init.Num("before") == 0)
			}
		}
	}},
	{"one-rank-events", "A communicator of one rank has events.", func(t *Tally, r *recording.Recording) {
		for _, p := range r.Processes {
			if r.Settings["ranks"] == "1" {
				t.Add(len(p.Spans) > 0)
			}
		}
	}},
}

func eachComm(r *recording.Recording, visit func(p *recording.Process, c *recording.Comm)) {
	for _, p := range r.Processes {
		for _, c := range p.Comms {
			visit(p, c)
		}
	}
}

// sameIdentity: the first communicator of each process is that of all ranks.
func sameIdentity(t *Tally, r *recording.Recording) {
	ids := map[string]bool{}
	for _, p := range r.Processes {
		if len(p.Comms) > 0 {
			ids[firstIdentity(p)] = true
		}
	}
	if len(r.Processes) > 1 && !ids[""] {
		t.Add(len(ids) == 1)
	}
}

func firstIdentity(p *recording.Process) string {
	if id := p.Comms[0].Init.Fields["comm"]; id != "0x0" {
		return id
	}
	for _, s := range p.Of("Coll", "P2p") {
		if id := identity(s); id != "" {
			return id
		}
	}
	return ""
}

var apiEvents = []string{"GroupApi", "CollApi", "P2pApi", "KernelLaunch"}

var calls = []Rule{
	{"user-thread", "Group, Coll and P2p come on the thread that called init.", always(func(s *recording.Span) bool {
		return s.Thread == userThread(s.Process)
	}, "Group", "Coll", "P2p")},
	{"coll-stop-is-enqueue", "A Coll or P2p is stopped before the first of its proxy operations starts.", func(t *Tally, r *recording.Recording) {
		each(r, func(_ *recording.Process, s *recording.Span) {
			if ops := s.Of("ProxyOp"); len(ops) > 0 {
				t.Add(!s.Live() && s.End().Index < ops[0].Index)
			}
		}, "Coll", "P2p")
	}},
	{"group-around", "A Group starts before its Coll and P2p and stops after them.", always(func(s *recording.Span) bool {
		g := s.Group
		if g == nil && s.Parent != nil && s.Parent.Name == "Group" {
			g = s.Parent
		}
		return g != nil && g.Index < s.Index && (g.Live() || s.Live() || s.End().Index < g.End().Index)
	}, "Coll", "P2p")},
	{"group-order", "Inside a GroupApi the order is: GroupStartApiStop, calls, GroupEndApiStart, then for each plan KernelLaunch, Group, Colls and P2ps.", groupOrder},
	{"parent-call", "The parent of a Coll or P2p is the CollApi or P2pApi of its function.", always(func(s *recording.Span) bool {
		return s.Parent != nil && strings.HasSuffix(s.Parent.Name, "Api") && s.Parent.Fields["func"] == s.Fields["func"]
	}, "Coll", "P2p")},
	{"api-rank", "GroupApi, CollApi, P2pApi and KernelLaunch carry the rank (counted on ranks other than 0).", func(t *Tally, r *recording.Recording) {
		each(r, func(_ *recording.Process, s *recording.Span) {
			if rank := commRank(s); rank > 0 {
				t.Add(s.Num("rank") == rank)
			}
		}, apiEvents...)
	}},
	{"coll-rank", "Coll, P2p, ProxyOp and ProxyStep carry the rank (counted on ranks other than 0).", func(t *Tally, r *recording.Recording) {
		each(r, func(_ *recording.Process, s *recording.Span) {
			if rank := commRank(s); rank > 0 {
				t.Add(s.Num("rank") == rank)
			}
		}, "Coll", "P2p", "ProxyOp", "ProxyStep")
	}},
	{"sequence", "A Coll's sequence number counts from 0 for each communicator and function.", sequence},
	{"same-on-ranks", "The same function and number has the same count, type, algorithm, protocol and channels on all ranks.", sameOnRanks},
	{"connect-in-group-end", "The first operation of a communicator is launched more than 50 ms after its GroupEndApiStart: connections are made there.", func(t *Tally, r *recording.Recording) {
		firstLaunch(t, r, func(waited time.Duration, first bool) (bool, bool) { return waited > 50*time.Millisecond, first })
	}},
	{"later-launch-at-once", "A later operation is launched within 10 ms of its GroupEndApiStart.", func(t *Tally, r *recording.Recording) {
		firstLaunch(t, r, func(waited time.Duration, first bool) (bool, bool) { return waited < 10*time.Millisecond, !first })
	}},
}

var (
	groupGrammar = regexp.MustCompile(`^Gs(Aa)+e(LlPC+c+p)*g$`)
	groupLetters = map[string]string{"GroupApi": "G", "CollApi": "A", "P2pApi": "A", "KernelLaunch": "L", "Group": "P", "Coll": "C", "P2p": "C"}
	groupStates  = map[string]string{"GroupStartApiStop": "s", "GroupEndApiStart": "e"}
)

func groupOrder(t *Tally, r *recording.Recording) {
	each(r, func(p *recording.Process, g *recording.Span) {
		if g.Live() {
			return
		}
		var text strings.Builder
		for _, c := range p.Calls[g.Index : g.End().Index+1] {
			if c.Thread != g.Thread || c.Span == nil || c.Span.Comm != g.Comm {
				continue
			}
			switch c.Verb {
			case recording.Start:
				text.WriteString(groupLetters[c.Name])
			case recording.State:
				text.WriteString(groupStates[c.Name])
			case recording.Stop:
				text.WriteString(strings.ToLower(groupLetters[c.Span.Name]))
			}
		}
		t.Add(groupGrammar.MatchString(text.String()))
	}, "GroupApi")
}

func sequence(t *Tally, r *recording.Recording) {
	for _, p := range r.Processes {
		next := map[string]int{}
		for _, s := range p.Of("Coll") {
			key := fmt.Sprint(s.Fields["ctx"], s.Fields["func"])
			t.Add(s.Num("seq") == next[key])
			next[key] = s.Num("seq") + 1
		}
	}
}

func sameOnRanks(t *Tally, r *recording.Recording) {
	if !healthy(r) {
		return
	}
	type seen struct {
		ranks int
		what  map[string]bool
	}
	ops := map[string]*seen{}
	each(r, func(_ *recording.Process, s *recording.Span) {
		key := identity(s) + s.Fields["func"] + s.Fields["seq"]
		if ops[key] == nil {
			ops[key] = &seen{what: map[string]bool{}}
		}
		ops[key].ranks++
		var what []string
		for _, k := range []string{"count", "datatype", "algo", "proto", "channels", "max_channels"} {
			what = append(what, s.Fields[k])
		}
		ops[key].what[strings.Join(what, " ")] = true
	}, "Coll")
	for _, o := range ops {
		if o.ranks > 1 {
			t.Add(len(o.what) == 1)
		}
	}
}

// firstLaunch measures from GroupEndApiStart to the KernelLaunch; count says what holds and whether it is asked.
func firstLaunch(t *Tally, r *recording.Recording, count func(waited time.Duration, first bool) (holds, asked bool)) {
	if !healthy(r) {
		return
	}
	for _, p := range r.Processes {
		launched := map[*recording.Comm]bool{}
		for _, g := range p.Of("GroupApi") {
			end, launches := g.State("GroupEndApiStart"), g.Of("KernelLaunch")
			if end == nil || len(launches) == 0 {
				continue
			}
			if holds, asked := count(launches[0].Time-end.Time, !launched[g.Comm]); asked {
				t.Add(holds)
			}
			launched[g.Comm] = true
		}
	}
}

var broadcasts = []Rule{
	{"broadcast-seen", "A Broadcast has a Coll event.", broadcast("broadcast", "Coll")},
	{"broadcast-call-seen", "A Broadcast has a CollApi event.", broadcast("broadcast", "CollApi")},
	{"broadcast-shown", "A Broadcast has a Coll event when NCCL_ALLGATHERV_ENABLE=0.", broadcast("broadcast-shown", "Coll")},
	{"broadcast-group-seen", "Broadcasts of several roots in one group have Coll events.", broadcast("group-broadcast", "Coll")},
	{"broadcast-group-shown", "The same when NCCL_ALLGATHERV_ENABLE=0.", broadcast("group-broadcast-shown", "Coll")},
	{"broadcast-kernel-after", "After Broadcasts of several roots in one group an AllReduce still has its KernelCh.", kernelAfter("group-broadcast")},
	{"broadcast-end", "After Broadcasts of several roots in one group, with KernelCh asked for, ncclCommDestroy returns.", func(t *Tally, r *recording.Recording) {
		if r.Case == "group-broadcast" {
			t.Add(r.Settings["end"] != "hung")
		}
	}},
	{"alltoall-kernel-after", "After all-to-alls with a send to oneself an AllReduce still has its KernelCh.", kernelAfter("alltoall")},
}

// broadcast: each process has as many events as Broadcasts were done.
func broadcast(name, kind string) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if r.Case != name {
			return
		}
		rounds, _ := strconv.Atoi(r.Settings["rounds"])
		each := 1
		if strings.Contains(r.Settings["ops"], "groupbroadcast") {
			each, _ = strconv.Atoi(r.Settings["ranks"])
		}
		for _, p := range r.Processes {
			if kind == "CollApi" && p.ABI() < 5 {
				continue
			}
			seen := 0
			for _, s := range p.Of(kind) {
				if s.Fields["func"] == "Broadcast" {
					seen++
				}
			}
			for n := range rounds * each {
				t.Add(n < seen)
			}
		}
	}
}

func kernelAfter(name string) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if r.Case != name {
			return
		}
		each(r, func(p *recording.Process, s *recording.Span) {
			if p.ABI() >= 3 && s.Fields["func"] == "AllReduce" {
				t.Add(kernelComplete(s))
			}
		}, "Coll")
	}
}
