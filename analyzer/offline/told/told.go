// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package told reasons from what messages say by themselves: a GPU that reported an ECC error, a process that the kernel killed, a
// store that half of the job never reached. Nothing is compared; who is meant stands in the message, or in what else is known of
// its process.
package told

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
)

// Finding is one such message.
type Finding struct {
	Kind grammar.Kind
	Says string // A predicate of its subject.
	// Who it is about; what is unknown is -1, 0 or empty.
	Rank   int
	Local  int // Rank on its host.
	Tasks  []int
	PID    int
	Host   string
	GPU    string // Its number on the host.
	Bus    string // PCI address as the message has it.
	Worker string // A program's own name of its process.
	// Peer is the other side, which the message is about as well.
	Peer string
	Port string
	By   int // The rank that says it; -1 unknown.
	// Plural is Says of several, where it differs.
	Plural string
	// Stack is where it happened, innermost last.
	Stack []string
	Order int // In its log.
	// Whole says that the message is about all of the job, and not about a process.
	Whole bool
	// Quoted: it is a line that no row knows, in its own words.
	Quoted bool
	// First: the launcher says that it was the first.
	First bool
}

// New gives a finding about nobody yet.
func New(kind grammar.Kind, says string) Finding {
	return Finding{Kind: kind, Says: says, Rank: -1, Local: -1, By: -1}
}

// Fails reports whether a warning says that something failed; others are advice.
func (f *Finding) Fails() bool {
	says := strings.ToLower(f.Says)
	return strings.Contains(says, "fail") || strings.Contains(says, "error")
}

// subject names whom a finding is about; empty: nobody is known.
func (f *Finding) subject() string {
	var s string
	switch {
	case f.Rank >= 0 && f.Worker != "" && f.Worker != strconv.Itoa(f.Rank):
		s = fmt.Sprintf("rank %d (worker %s)", f.Rank, f.Worker)
	case f.Rank >= 0:
		s = fmt.Sprintf("rank %d", f.Rank)
	case f.Worker != "":
		s = "worker " + f.Worker
	case f.Local >= 0:
		s = fmt.Sprintf("local rank %d", f.Local)
	case f.PID > 0:
		s = fmt.Sprintf("process %d", f.PID)
	case f.Host != "":
		return "host " + f.Host
	default:
		return ""
	}
	if f.Host != "" {
		s += " on " + f.Host
	}
	if f.GPU != "" && f.Rank < 0 {
		s += ", GPU " + f.GPU
	}
	if f.PID > 0 && (f.Rank >= 0 || f.Worker != "" || f.Local >= 0) {
		s += fmt.Sprintf(" (pid %d)", f.PID)
	}
	return s
}

// place is where findings are alike about.
func (f *Finding) key() string {
	return fmt.Sprintf("%s|%d|%d|%d|%s|%s", f.Kind, f.Rank, f.Local, f.PID, f.Host, f.Worker)
}

// Join leaves out what is said again of the same subject, and keeps the order.
func Join(all []Finding) []Finding {
	at := map[string]int{}
	var out []Finding
	for _, f := range all {
		k := f.key()
		if f.subject() == "" {
			k += f.Says
			if i := slices.IndexFunc(out, func(o Finding) bool {
				return o.Kind == f.Kind && o.subject() == "" && strings.HasPrefix(f.Says, o.Says)
			}); i >= 0 && out[i].Says != f.Says {
				out[i], at[k] = f, i // It says more.
				continue
			}
		}
		if i, ok := at[k]; ok {
			out[i].Peer = cmp.Or(out[i].Peer, f.Peer)
			continue
		}
		at[k] = len(out)
		out = append(out, f)
	}
	return out
}

// who names the subjects of several findings of one kind.
func who(fs []Finding) string {
	var ranks []int
	var rest []string
	hosts := map[string]bool{}
	for i := range fs {
		f := &fs[i]
		hosts[f.Host] = true
		if f.Rank >= 0 && f.Worker == "" {
			ranks = append(ranks, f.Rank)
			continue
		}
		if s := f.subject(); s != "" && !slices.Contains(rest, s) {
			rest = append(rest, s)
		}
	}
	ranks = Set(ranks)
	if len(ranks) == 1 && len(rest) == 0 {
		return fs[slices.IndexFunc(fs, func(f Finding) bool { return f.Rank >= 0 })].subject()
	}
	var parts []string
	if len(ranks) > 0 {
		s := Ranks(ranks)
		if len(hosts) == 1 && fs[0].Host != "" {
			s += " on " + fs[0].Host
		}
		parts = append(parts, s)
	}
	const few = 4
	if len(rest) > few {
		rest = append(rest[:few], fmt.Sprintf("%d more", len(rest)-few))
	}
	return strings.Join(append(parts, rest...), ", ")
}

// Set gives numbers in order, each once.
func Set(ids []int) []int {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}

// Ranks says which ranks, in order: "rank 3", "ranks 0-2, 7".
func Ranks(ids []int) string {
	if ids = Set(ids); len(ids) == 1 {
		return fmt.Sprintf("rank %d", ids[0])
	}
	return "ranks " + Spans(ids)
}

// Spans writes sorted numbers with stretches joined: "1-3, 7".
func Spans(ids []int) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		switch j - i {
		case 0:
			parts = append(parts, fmt.Sprint(ids[i]))
		case 1:
			parts = append(parts, fmt.Sprint(ids[i]), fmt.Sprint(ids[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		}
		i = j + 1
	}
	const few = 12
	if len(parts) > few {
		return strings.Join(parts[:few], ", ") + fmt.Sprintf(", … (%d)", len(ids))
	}
	return strings.Join(parts, ", ")
}
