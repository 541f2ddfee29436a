// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// standing builds the evidence of a job that stands still: one rank a host.
type standing struct{ ev rca.Evidence }

func ranks(world int) *standing {
	s := &standing{rca.Evidence{JobID: "job", WorldSize: world}}
	for r := range world {
		s.ev.Ranks = append(s.ev.Ranks, rca.Rank{ID: r, Host: fmt.Sprintf("node%d", r), GPU: "0", State: rca.ProcessRunning, Caps: rcatest.AllCaps})
	}
	return s
}

// comm adds a communicator whose members have completed as many operations.
func (s *standing) comm(name string, completed int64, members ...int) *standing {
	s.ev.Comms = append(s.ev.Comms, rca.Comm{ID: rca.CommID(name), Name: name, Size: len(members), Members: members})
	for i, r := range members {
		s.ev.Ranks[r].Memberships = append(s.ev.Ranks[r].Memberships, rca.Membership{
			Comm: rca.CommID(name), CommRank: i, Called: completed, Started: completed, Completed: completed,
			SinceCalled: 9 * time.Second, SinceCompleted: 9 * time.Second,
		})
	}
	return s
}

func (s *standing) on(r int, comm string) *rca.Membership {
	ms := s.ev.Ranks[r].Memberships
	return &ms[slices.IndexFunc(ms, func(m rca.Membership) bool { return m.Comm == rca.CommID(comm) })]
}

// in puts a rank inside the next operation of a communicator, with its kernel running and these flows.
func (s *standing) in(r int, comm, fn string, flows ...rca.Flow) *rca.Op {
	m := s.on(r, comm)
	m.InFlight = append(m.InFlight, rca.Op{
		Number: m.Called, Seq: m.Called, Func: fn, Peer: -1, Root: -1, Bytes: 1 << 20, Count: 1 << 18, Datatype: "float32", Algo: "ring", Proto: "simple",
		State: rca.OpMoving, Age: 6 * time.Second, Stuck: 6 * time.Second, Channels: 1, KernelStarted: 1, Flows: flows,
	})
	m.Called++
	return &m.InFlight[len(m.InFlight)-1]
}

// inside puts ranks inside the next operation of a communicator that nothing is seen to move in.
func (s *standing) inside(comm, fn string, ranks ...int) *standing {
	for _, r := range ranks {
		s.in(r, comm, fn)
	}
	return s
}

// without takes the records of ranks away.
func (s *standing) without(ranks ...int) *standing {
	s.ev.Ranks = slices.DeleteFunc(s.ev.Ranks, func(r rca.Rank) bool { return slices.Contains(ranks, r.ID) })
	return s
}

func (s *standing) fact(f rca.Fact) *standing {
	s.ev.Facts = append(s.ev.Facts, f)
	return s
}

func (s *standing) set(r int, change func(*rca.Rank)) *standing {
	change(&s.ev.Ranks[r])
	return s
}

// send and recv make flows of channel 0; counters as in rca.Flow.
func send(peer int, posted, ready, transmitted, done int64) rca.Flow {
	return rca.Flow{Send: true, Peer: peer, Total: 100, Posted: posted, Ready: ready, Transmitted: transmitted, Done: done, Stuck: 6 * time.Second, PeerPolls: 1}
}

func recv(peer int, posted, received, given, consumed int64) rca.Flow {
	return rca.Flow{Peer: peer, Total: 100, Posted: posted, Ready: received, Transmitted: given, Done: consumed, Stuck: 6 * time.Second}
}

// edgeOf is a job of two ranks in a reduction, of which the first sends to the second.
func edgeOf(from, to rca.Flow) *standing {
	s := ranks(2).comm("c", 100, 0, 1)
	s.in(0, "c", "AllReduce", from)
	s.in(1, "c", "AllReduce", to)
	return s
}

// toMiddle is a job of three ranks, of which the one in the middle receives from the first and has another flow.
func toMiddle(from, to, other rca.Flow) *standing {
	s := ranks(3).comm("c", 100, 0, 1, 2)
	s.in(0, "c", "AllReduce", from)
	s.in(1, "c", "AllReduce", to, other)
	s.in(2, "c", "AllReduce", recv(1, 8, 4, 4, 4))
	return s
}

// missing is a job of three ranks, of which the last has not called what the others are in.
func missing() *standing { return ranks(3).comm("c", 100, 0, 1, 2).inside("c", "AllReduce", 0, 1) }

// pair is a job of two ranks, of which the first sends to the second or receives from it, without kernel events.
func pair(fn string, f rca.Flow) (s *standing, o *rca.Op) {
	s = ranks(2).comm("c", 100, 0, 1)
	o = s.in(0, "c", fn, f)
	o.Seq, o.Peer, o.KernelStarted, o.State = 7, 1, -1, rca.OpEnqueued
	other := s.in(1, "c", map[string]string{"Send": "Recv", "Recv": "Send"}[fn])
	other.Seq, other.Peer = 7, 0
	s.set(0, func(r *rca.Rank) { r.Caps &^= rca.SeesKernels })
	return s, o
}

// setup is a job of ranks of which some are inside a call that ends a communicator, and the others have come back from it.
func setup(world, inside int) *standing {
	var members []int
	for r := range world {
		members = append(members, r)
	}
	s := ranks(world).comm("c", 100, members...)
	for r := range world {
		c := rca.Call{Name: "ncclCommDestroy", ID: "7", Size: world, On: "c", Since: 20 * time.Second, Returned: r >= inside, Done: r >= inside}
		s.set(r, func(k *rca.Rank) { k.Caps |= rca.SeesInit; k.Calls = []rca.Call{c} })
	}
	return s
}

// family is a job whose host 0 has ranks 0, 2 and 4, each in a communicator with a rank of host 1, which was not seen.
func family() *standing {
	s := ranks(6).comm("dp_0", 100, 0, 1).comm("dp_1", 101, 2, 3).comm("dp_2", 101, 4, 5).comm("tp_0", 50, 0, 2, 4)
	for _, r := range []int{0, 2, 4} {
		s.set(r, func(k *rca.Rank) { k.Host = "node0" })
	}
	return s
}

// rowCases has for each row of the table, and for each other level at which it is believed, a job in which it, and nothing else, says what is to be said.
var rowCases = map[string]func() *standing{
	"undelivered": func() *standing { return edgeOf(send(1, 8, 6, 6, 4), recv(0, 8, 4, 4, 4)) },
	"undelivered likely": func() *standing {
		return edgeOf(send(1, 8, 6, 6, 4), recv(0, 8, 4, 4, 4)).set(1, func(r *rca.Rank) { r.State = rca.ProcessUnknown })
	},
	"unacknowledged": func() *standing { return edgeOf(send(1, 8, 6, 6, 4), recv(0, 8, 6, 6, 6)) },
	"lost_on_wire":   func() *standing { return edgeOf(send(1, 8, 6, 6, 4), recv(0, 8, 2, 2, 2)) },
	"link_unproven":  func() *standing { return edgeOf(send(1, 8, 6, 6, 4), recv(0, 100, 100, 100, 100)).otherChannel() },
	"link_unproven slight": func() *standing {
		return edgeOf(send(1, 8, 6, 6, 4), recv(0, 8, 4, 4, 4)).without(1)
	},
	"peer_left": func() *standing {
		s := ranks(2).comm("c", 100, 0, 1)
		s.in(0, "c", "AllReduce", send(1, 8, 6, 6, 4))
		s.on(1, "c").Called, s.on(1, "c").Completed = 101, 101
		return s
	},
	"peer_left likely": func() *standing {
		s, _ := pair("Recv", recv(1, 8, 0, 0, 0))
		m := s.on(1, "c")
		m.Recent, m.InFlight, m.Completed = m.InFlight, nil, 101
		return s
	},
	"untransmitted": func() *standing { return edgeOf(send(1, 8, 6, 4, 4), recv(0, 8, 4, 4, 4)) },
	"proxy_stopped": func() *standing {
		s := edgeOf(send(1, 8, 6, 4, 4), recv(0, 8, 4, 4, 4))
		s.on(0, "c").InFlight[0].Flows[0].PeerPolls = 0
		return s
	},
	"send_not_begun":            func() *standing { return toMiddle(send(1, 8, 6, 6, 6), recv(0, 8, 6, 6, 4), send(2, 0, 0, 0, 0)) },
	"not_flushed":               func() *standing { return edgeOf(send(1, 8, 6, 6, 6), recv(0, 8, 6, 4, 4)) },
	"no_buffers":                func() *standing { return edgeOf(send(1, 8, 8, 6, 6), recv(0, 6, 6, 6, 6)) },
	"no_buffers perhaps likely": func() *standing { return toMiddle(send(1, 8, 6, 6, 4), send(2, 8, 6, 6, 6), send(2, 8, 6, 6, 6)) },
	"no_buffers perhaps slight": func() *standing { return edgeOf(send(1, 8, 6, 6, 6), recv(0, 6, 6, 6, 6)) },
	"never_posted":              func() *standing { return edgeOf(send(1, 8, 0, 0, 0), recv(0, 0, 0, 0, 0)) },
	"gpu_stopped":               func() *standing { return edgeOf(send(1, 8, 6, 6, 6), recv(0, 8, 6, 6, 4)) },
	"gpu_stopped perhaps sure": func() *standing {
		s := toMiddle(send(1, 8, 6, 6, 6), recv(0, 8, 6, 6, 4), recv(0, 100, 100, 100, 100))
		return s.set(2, func(r *rca.Rank) { r.Host = "node1" })
	},
	"gpu_stopped perhaps slight": func() *standing {
		s, o := pair("Recv", recv(1, 8, 6, 6, 0))
		s.comm("d", 10, 0, 1)
		before := s.in(0, "d", "AllGather")
		before.KernelStarted, before.State, before.Age = -1, rca.OpEnqueued, o.Age+500*time.Microsecond
		return s
	},
	"gpu_gives_nothing": func() *standing { return edgeOf(send(1, 8, 0, 0, 0), recv(0, 8, 0, 0, 0)) },
	"gpu_gives_nothing perhaps likely": func() *standing {
		s := ranks(2).comm("c", 100, 0, 1)
		s.in(0, "c", "AllReduce", send(1, 8, 0, 0, 0), recv(1, 8, 0, 0, 0))
		s.in(1, "c", "AllReduce", send(0, 8, 0, 0, 0), recv(0, 8, 0, 0, 0))
		return s
	},
	"gpu_gives_nothing perhaps slight": func() *standing {
		s := ranks(3).comm("c", 100, 0, 1, 2)
		s.in(0, "c", "AllReduce", send(2, 8, 0, 0, 0))
		s.in(1, "c", "AllReduce")
		s.in(2, "c", "AllReduce", recv(0, 8, 0, 0, 0))
		return s.set(1, func(r *rca.Rank) { r.Host = "node0" })
	},
	"gpu_not_come": func() *standing {
		s := ranks(3).comm("c", 100, 0, 1, 2)
		for r := range 3 {
			given := int64(4)
			if r == 1 {
				given = 0
			}
			o := s.in(r, "c", "AllReduce", send((r+1)%3, 8, given, given, given), recv((r+2)%3, 8, 0, 0, 0))
			o.KernelStarted, o.State = -1, rca.OpEnqueued
			s.set(r, func(k *rca.Rank) { k.Caps &^= rca.SeesKernels })
		}
		return s
	},
	"kernel_stays": func() *standing { return edgeOf(send(1, 100, 100, 100, 100), recv(0, 100, 100, 100, 100)) },
	"alone": func() *standing {
		s := ranks(2).comm("c", 100, 0, 1).inside("c", "AllReduce", 0)
		s.on(1, "c").Called, s.on(1, "c").Completed = 101, 101
		return s
	},
	"alone perhaps likely": func() *standing {
		s := ranks(2).comm("c", 100, 0, 1).inside("c", "Broadcast", 0)
		s.on(1, "c").Called, s.on(1, "c").Completed = 101, 101
		return s
	},
	"kernel_not_started":                func() *standing { return late(rca.OpEnqueued, 6*time.Second, 100, 0) },
	"kernel_not_started perhaps slight": func() *standing { return late(rca.OpEnqueued, time.Second, 100, 0) },
	"inside_call":                       func() *standing { return late(rca.OpCalled, 6*time.Second, 100, 5*time.Second) },
	"inside_call perhaps likely":        func() *standing { return late(rca.OpCalled, 6*time.Second, 100, 0) },
	"connecting":                        func() *standing { return late(rca.OpCalled, 6*time.Second, 0, 5*time.Second) },
	"connecting perhaps likely":         func() *standing { return late(rca.OpCalled, 6*time.Second, 0, 0) },
	"inside_setup":                      func() *standing { return setup(3, 1) },
	"inside_setup perhaps likely":       func() *standing { return setup(4, 2) },
	"sender_ails": func() *standing {
		return edgeOf(send(1, 8, 6, 6, 4), recv(0, 8, 6, 6, 6)).fact(rca.Fact{Rank: 0, Component: "nic", Kind: "symbol_error"})
	},
	"receiver_ails": func() *standing {
		return edgeOf(send(1, 8, 6, 6, 4), recv(0, 8, 6, 6, 6)).fact(rca.Fact{Rank: 1, Component: "nic", Kind: "symbol_error"})
	},
	"gpu_error": func() *standing { return all().fact(rca.Fact{Rank: 1, Component: "gpu", Kind: "xid"}) },
	"nic_down":  func() *standing { return all().fact(rca.Fact{Rank: 1, Component: "nic", Kind: "port_down"}) },
	"nic_down perhaps slight": func() *standing {
		return all().fact(rca.Fact{Rank: -1, Host: "node1", Component: "nic", Kind: "port_down"})
	},
	"process_stopped": func() *standing { return missing().set(2, func(r *rca.Rank) { r.State = rca.ProcessStopped }) },
	"process_gone":    func() *standing { return missing().set(2, func(r *rca.Rank) { r.State = rca.ProcessGone }) },
	"process_raised": func() *standing {
		return missing().set(2, func(r *rca.Rank) { r.State = rca.ProcessGone }).fact(rca.Fact{Rank: 2, Component: "process", Kind: "raised", Text: "it raised KeyError"})
	},
	"process_exited": func() *standing { return missing().set(2, func(r *rca.Rank) { r.State = rca.ProcessExited }) },
	"job_ends": func() *standing {
		exits := func(r *rca.Rank) { r.State = rca.ProcessExited }
		return missing().set(1, exits).set(2, exits)
	},
	"not_called":      missing,
	"checkpoint":      func() *standing { return missing().set(2, func(r *rca.Rank) { r.WriteBytesPerSec = 1e9 }) },
	"storage_blocked": func() *standing { return missing().set(2, func(r *rca.Rank) { r.State = rca.ProcessDisk }) },
	"inside_launch":   func() *standing { return missing().set(2, func(r *rca.Rank) { r.GroupOpen = 5 * time.Second }) },
	"first_step": func() *standing {
		return ranks(3).comm("c", 0, 0, 1, 2).inside("c", "AllReduce", 0, 1).set(2, func(r *rca.Rank) { r.CPUCores = 8 })
	},
	"first_step likely": func() *standing { return ranks(3).comm("c", 0, 0, 1, 2).inside("c", "AllReduce", 0, 1) },
	"other_call": func() *standing {
		return ranks(3).comm("c", 100, 0, 1, 2).inside("c", "AllReduce", 0, 1).inside("c", "Broadcast", 2)
	},
	"deadlock": crossed,
	"deadlock perhaps likely": func() *standing {
		s := ranks(2).comm("c", 100, 0, 1).comm("d", 50, 0, 1).inside("c", "AllReduce", 0).inside("d", "AllReduce", 1)
		lost := func(r *rca.Rank) { r.Lost = 1 }
		return s.set(0, lost).set(1, lost)
	},
	"ahead_of_most":   func() *standing { return ranks(3).comm("c", 100, 0, 1, 2).inside("c", "AllReduce", 0) },
	"one_host_stands": func() *standing { return all().set(1, onNode0).set(2, onNode0) },
	"all_alike":       all,
	"unexplained":     all,
	"still_moves": func() *standing {
		s := missing().comm("d", 100, 2)
		s.in(2, "d", "AllReduce").Stuck = 100 * time.Millisecond
		return s
	},
	"no_answer":       func() *standing { return unanswered(rca.Missing{What: "exporter", Name: "node2", Ranks: []int{2}}) },
	"not_seen":        func() *standing { return missing().without(2) },
	"unnamed_members": func() *standing { s := all(); s.ev.Comms[0].Size, s.ev.WorldSize = 4, 4; return s },
	"host_lost":       func() *standing { return unanswered(rca.Missing{What: "exporter", Name: "node2", Ranks: []int{2}}) },
	"host_hangs": func() *standing {
		return unanswered(rca.Missing{What: "exporter", Name: "node2", Ranks: []int{2}, Reached: true})
	},
	"record_lost": func() *standing { return unanswered(rca.Missing{What: "rank", Name: "2", Ranks: []int{2}}) },
	"host_unobserved": func() *standing {
		return unanswered(rca.Missing{What: "exporter", Name: "node2", Ranks: []int{2}, Alive: true})
	},
	"one_unseen": func() *standing { return unanswered(rca.Missing{}) },
	"rest_not_called": func() *standing {
		s := ranks(2)
		for r := range 2 {
			s.set(r, func(k *rca.Rank) {
				k.Caps |= rca.SeesInit
				k.Calls = []rca.Call{{Name: "ncclCommInitRank", ID: "7", Size: 4, Makes: true, Since: 20 * time.Second}}
			})
		}
		s.ev.WorldSize = 8
		return s
	},
	"several_unseen": func() *standing {
		return ranks(4).comm("c", 100, 0, 1, 2, 3).inside("c", "AllReduce", 0, 1).without(2, 3)
	},
	"called_elsewhere": func() *standing {
		s := family().inside("dp_0", "AllReduce", 0).inside("tp_0", "AllReduce", 2, 4)
		for r, comm := range map[int]string{2: "dp_1", 4: "dp_2"} {
			s.on(r, comm).Recent = []rca.Op{{Number: 100, Func: "ReduceScatter", Peer: -1}}
		}
		return s.without(1, 3, 5)
	},
	"entered_elsewhere": func() *standing {
		s := family().comm("pp", 20, 0, 2, 4, 5).inside("pp", "AllReduce", 0, 2, 4)
		o := s.in(0, "dp_0", "AllReduce", recv(1, 8, 4, 4, 0))
		o.KernelStarted, o.State, o.Age = 0, rca.OpEnqueued, 5*time.Second
		return s.without(1, 3, 5)
	},
	"unseen_or_rival": func() *standing {
		return family().inside("dp_0", "AllReduce", 0).inside("tp_0", "AllReduce", 2, 4).without(1, 3, 5)
	},
}

func onNode0(r *rca.Rank) { r.Host = "node0" }

// all is a job of three ranks that are all inside an operation and alike.
func all() *standing { return ranks(3).comm("c", 100, 0, 1, 2).inside("c", "AllReduce", 0, 1, 2) }

// otherChannel lets the second rank's flow be of another channel.
func (s *standing) otherChannel() *standing {
	s.on(1, "c").InFlight[0].Flows[0].Channel = 1
	return s
}

// late is a job of three ranks, of which the last has called the operation that the others are in, and is not in it.
func late(state rca.OpState, age time.Duration, completed int64, open time.Duration) *standing {
	s := ranks(3).comm("c", completed, 0, 1, 2).inside("c", "AllReduce", 0, 1)
	o := s.in(2, "c", "AllReduce")
	o.State, o.KernelStarted, o.Age = state, 0, age
	return s.set(2, func(r *rca.Rank) { r.GroupOpen = open })
}

// crossed is a job of two ranks that entered two operations in opposite orders.
func crossed() *standing {
	s := ranks(2).comm("c", 100, 0, 1).comm("d", 50, 0, 1)
	for r, order := range [][2]string{{"c", "d"}, {"d", "c"}} {
		s.in(r, order[0], "AllReduce")
		behind := s.in(r, order[1], "AllReduce")
		behind.KernelStarted, behind.State, behind.Age = 0, rca.OpEnqueued, 5*time.Second
	}
	return s
}

// unanswered is a job of three ranks of which two wait in an operation of their own for the last, which nobody has a record of.
func unanswered(m rca.Missing) *standing {
	s := missing().comm("d", 100, 0, 2).comm("e", 100, 1, 2)
	s.without(2)
	if m.What != "" {
		s.ev.Missing = []rca.Missing{m}
	}
	return s
}

// said gives the rows that ranks show, that candidates are made of, and that the verdict rests on, by name, by name and level, and of
// those that others' waiting may explain by name, perhaps and level.
func said(s *standing) []string {
	x := job.NewIndex(&s.ev, rca.Options{}.WithDefaults())
	w := buildWaitFor(x)
	var out []string
	levels := map[float64]string{sure: "sure", likely: "likely", slight: "slight"}
	say := func(r *row) {
		out = append(out, r.name, r.name+" "+levels[r.weight])
		if r.strength == weak {
			out = append(out, r.name+" perhaps "+levels[r.weight])
		}
	}
	for i := range w.owns {
		say(w.owns[i].row)
	}
	cs := w.candidates()
	for i := range cs {
		say(&cs[i].row)
	}
	d := w.choose(cs)
	none := decision{}
	out = append(out, w.answer(&d).name, w.answer(&none).name)
	for _, h := range w.compose(&d).Hypotheses {
		out = append(out, h.Row)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestRows: each row of the table says what it is there to say.
func TestRows(t *testing.T) {
	for name, build := range rowCases {
		t.Run(name, func(t *testing.T) {
			if got := said(build()); !slices.Contains(got, name) {
				t.Errorf("said %v", got)
			}
		})
	}
}

// TestRowsAreTested: no row of the table is without a job above, and no two have one name.
func TestRowsAreTested(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "flaws.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen, names := map[string]bool{}, map[string]string{} // Names by variable.
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		name := ""
		switch v := spec.Values[0].(type) {
		case *ast.CompositeLit:
			if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "row" {
				return true
			}
			if name, err = strconv.Unquote(v.Elts[0].(*ast.BasicLit).Value); err != nil {
				t.Fatal(err)
			}
			names[spec.Names[0].Name] = name
		case *ast.CallExpr:
			of := v.Fun.(*ast.SelectorExpr)
			name = names[of.X.(*ast.Ident).Name] + " " + strings.TrimPrefix(of.Sel.Name+" ", "at ") + v.Args[0].(*ast.Ident).Name
		default:
			return true
		}
		if seen[name] || rowCases[name] == nil {
			t.Errorf("row %s: twice %v, tested %v", name, seen[name], rowCases[name] != nil)
		}
		seen[name] = true
		return true
	})
	if len(seen) != len(rowCases) {
		t.Errorf("%d rows, %d jobs", len(seen), len(rowCases))
	}
}

// TestSuspectsAskTheirPartners: where a search has come to suspects and the waiting ends at nobody who could be asked, it goes on to
// those that the suspects exchange data with.
func TestSuspectsAskTheirPartners(t *testing.T) {
	s := ranks(3).comm("c", 100, 0, 1, 2)
	s.ev.Partial = true
	for r := range 2 {
		s.in(r, "c", "AllReduce", send((r+1)%3, 100, 100, 100, 100), recv((r+2)%3, 100, 100, 100, 100))
	}
	s.on(2, "c").Called, s.on(2, "c").Completed = 101, 101
	s.set(2, func(r *rca.Rank) { r.Caps, r.State = rca.SeesCalls, rca.ProcessUnknown })
	v, ok := Analyze(job.NewIndex(&s.ev, rca.Options{}.WithDefaults()))
	if !ok || v.Class != rca.Unknown || !slices.Equal(v.Ask, []int{2}) {
		t.Errorf("%v %s, asks %v: %s", ok, v.Class, v.Ask, v.Summary)
	}
}

// TestRivalsAreNotNamed: of two ranks that explain the same and are believed alike, neither is named. One that is believed by more than the
// margin is.
func TestRivalsAreNotNamed(t *testing.T) {
	unseenCalls := func(r *rca.Rank) { r.Caps &^= rca.SeesCalls }
	s := ranks(3).comm("c", 100, 0, 1, 2).inside("c", "AllReduce", 0).set(1, unseenCalls).set(2, unseenCalls)
	v, _ := Analyze(job.NewIndex(&s.ev, rca.Options{}.WithDefaults()))
	if v.Class != rca.Unknown || len(v.Culprits) != 1 || v.Culprits[0].Group != "suspects: rank 1, rank 2" {
		t.Errorf("%s %+v: %s", v.Class, v.Culprits, v.Summary)
	}
	s.set(2, func(r *rca.Rank) {
		r.Caps |= rca.SeesCalls
		r.State = rca.ProcessUnknown
		r.GroupOpen = 5 * time.Second
	})
	if v, _ := Analyze(job.NewIndex(&s.ev, rca.Options{}.WithDefaults())); len(rcatest.Accused(v)) != 1 || rcatest.Accused(v)[0] != 2 {
		t.Errorf("%s %+v: %s", v.Class, v.Culprits, v.Summary)
	}
}
