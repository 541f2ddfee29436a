// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"cmp"
	"regexp"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
)

// End is how a process of the job ended, as its log or its launcher tells it.
type End struct {
	Rank int // Global; of Task, the task's number until it is known to be a rank.
	Task bool
	Why  string // "signal 9 (SIGKILL)", "exit code 3", "out of memory".
	Host string // Empty unknown.
	PID  int    // 0 unknown.
	At   string // When, as the launcher writes it; empty unknown.
	// First: the launcher says that it was the first that it saw.
	First bool
}

const (
	failures = "\nFailures:"
	exited   = "exit code "
)

var (
	elasticRow = regexp.MustCompile(`(?:^|\s)(time|host|rank|exitcode|traceback) *: ([^\n]*)`)
	elasticOne = regexp.MustCompile(`(?m)^.*\[\d+\]:\s*$`)
	// elasticSays is the exception that torchrun of 1.9 shows.
	elasticSays = regexp.MustCompile(`(?:msg\s*: |"message": )"([^"\n]+)"`)
	exitCode    = regexp.MustCompile(`^(-?\d+)\s*\(pid: (\d+)\)`)
)

// notFirst is the head of an entry of torchrun's list of failures, of which the last in the list, "Root Cause", is number 0.
var (
	notFirst  = regexp.MustCompile(`(?m)^\W*\[[1-9]\d*\]:\s*\n(?:[^\n]*:[^\n]*\n){0,3}[^\n]*$`)
	rootCause = []byte("Root Cause")
)

// isVictim says that an ending follows from another process's failure.
func isVictim(why string) bool { return containsAny(why, victims) }

// ending takes what a launcher says of the end of ranks: the failures that torchrun lists, what Slurm says of its tasks, and other
// launchers of their processes.
func (p *parser) ending(e *grammar.Event) {
	switch e.Kind {
	case grammar.ListedEnd:
		at := e.At + len(e.Anchors[0])
		p.elastic(p.text[at:min(len(p.text), at+window)], true)
		const longest = 256 << 10 // Of the list before, which holds the others.
		before := p.text[max(0, at-longest):e.At]
		p.rows(before[max(0, bytes.LastIndex(before, []byte(failures)), bytes.LastIndex(before, []byte("===="))):]) // Its head may be cut off.
	case grammar.TaskEnd:
		p.tasks(e.Get("host"), e.Get("ranks"), e.Get("what"))
	case grammar.RankEnd:
		why := told.Ending(e.Get("code"))
		if n := e.Get("signal"); n != "" {
			why = told.Ending("-" + n)
		}
		if e.Get("how") != "" {
			why = "exited before it ended MPI"
		}
		if r := e.Int("rank"); r >= 0 && r < maxRank && why != "" && e.Get("code") != "0" {
			const above = 250
			if strings.HasPrefix(why, exited) && notFirst.Match(p.text[max(0, e.Start-above):e.Start]) && !bytes.Contains(p.text, rootCause) {
				f := told.New(grammar.Exited, "ended with "+why+"; torchrun saw another fail first, which the log lacks")
				f.Rank, f.PID, f.Order = r, max(e.Int("pid"), 0), e.At
				p.log.Findings = append(p.log.Findings, f)
				return
			}
			p.end(End{Rank: r, Why: why, Host: unlabelled(e.Get("host")), PID: max(e.Int("pid"), 0)})
		}
	}
}

// rows takes the entries of torchrun's list of failures.
func (p *parser) rows(list []byte) {
	starts := elasticOne.FindAllIndex(list, most)
	for i, at := range starts {
		end := len(list)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		p.elastic(list[at[1]:min(end, at[1]+window)], false)
	}
}

func cut(s string) string {
	const longest = 240
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

// elastic reads one process that torchrun saw fail.
func (p *parser) elastic(text []byte, first bool) {
	text, _, _ = bytes.Cut(text, []byte("===="))
	e := End{Rank: -1, First: first}
	for _, m := range elasticRow.FindAllSubmatch(text, 8) {
		value := strings.TrimSpace(string(m[2]))
		switch string(m[1]) {
		case "time":
			e.At = value
		case "host":
			e.Host = value
		case "rank":
			rank, _, _ := strings.Cut(value, " ")
			e.Rank = int(number([]byte(rank)))
		case "exitcode":
			if c := exitCode.FindStringSubmatch(value); c != nil {
				e.Why, e.PID = told.Ending(c[1]), int(number([]byte(c[2])))
			}
		}
	}
	if e.Rank < 0 || e.Rank >= maxRank || e.Why == "" {
		return
	}
	p.end(e)
	if m := elasticSays.FindSubmatch(text); m != nil && len(p.log.Exceptions) < mostExceptions {
		if parts := raised.FindStringSubmatch(string(m[1])); parts != nil {
			p.log.Exceptions = append(p.log.Exceptions, Exception{Rank: e.Rank, Local: -1, PID: e.PID, Class: parts[1], Message: parts[2]})
		}
	}
}

// tasks reads what srun says of a host's tasks. Of those that it ended itself because another failed nothing follows.
func (p *parser) tasks(host, list, what string) {
	why := map[string]string{
		"Out Of Memory": outOfMemory, "Segmentation fault": "signal 11 (SIGSEGV)", "Bus error": "signal 7 (SIGBUS)",
		"Illegal instruction": "signal 4 (SIGILL)", "Floating point exception": "signal 8 (SIGFPE)",
		"Aborted": "signal 6 (SIGABRT)", "Terminated": "signal 15 (SIGTERM)", "Killed": "signal 9 (SIGKILL)",
	}[what]
	if why == "" {
		why = told.Ending(strings.TrimPrefix(what, "Exited with "+exited))
	}
	for _, task := range spans(list) {
		p.end(End{Rank: task, Task: true, Why: why, Host: host})
	}
}

// spans reads "0-4,6".
func spans(list string) []int {
	var out []int
	for f := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		a, b, isSpan := strings.Cut(f, "-")
		lo, hi := number([]byte(a)), number([]byte(a))
		if isSpan {
			hi = number([]byte(b))
		}
		for n := lo; n >= 0 && n <= hi && len(out) < most; n++ {
			out = append(out, int(n))
		}
	}
	return out
}

// most ends are kept of a log.
const most = 1 << 17

// end notes an ending; of several tellings of one rank's the first counts.
func (p *parser) end(e End) {
	key := endKey{e.Rank, e.Task}
	at, ok := p.ended[key]
	if !ok {
		if p.ended == nil {
			p.ended = map[endKey]int{}
		}
		if len(p.log.Ends) < most {
			p.ended[key] = len(p.log.Ends)
			p.log.Ends = append(p.log.Ends, e)
		}
		return
	}
	have := &p.log.Ends[at]
	have.At, have.First = cmp.Or(have.At, e.At), have.First || e.First
	have.Host = cmp.Or(have.Host, e.Host)
	have.PID = cmp.Or(have.PID, e.PID)
}

type endKey struct {
	rank int
	task bool
}
