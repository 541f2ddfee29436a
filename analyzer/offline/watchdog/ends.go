// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// End is how a process of the job ended, as its log or its launcher tells it.
type End struct {
	Rank int // Global; of Task, the task's number until it is known to be a rank.
	Task bool
	Why  string // "raised ValueError: bad batch", "signal 9 (SIGKILL)", "exit code 3", "out of memory".
	Host string // Empty unknown.
	PID  int    // 0 unknown.
}

const (
	elastic   = "Root Cause (first observed failure):"
	srunError = "srun: error: "
	exited    = "exit code "
)

var (
	// uncaught begins what PyTorch prints of an exception that nothing caught, with the rank before every line.
	uncaught = regexp.MustCompile(`\[rank(\d+)\]:\s*Traceback \(most recent call last\):`)
	// raised is the last line of a traceback: the exception's class, and what it says.
	raised     = regexp.MustCompile(`^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Failure|Timeout)|[a-z_]\w*(?:\.\w+)+)(?:: (.*))?$`)
	elasticRow = regexp.MustCompile(`(?:^|\s)(host|rank|exitcode|traceback)\s*: ([^\n]*)`)
	exitCode   = regexp.MustCompile(`^(-?\d+)\s*\(pid: (\d+)\)`)
	taskEnd    = regexp.MustCompile(`srun: error: (\S+): tasks? ([\d,\- ]+): (Out Of Memory|Killed|Segmentation fault|Bus error|Illegal instruction|Aborted|Terminated|Floating point exception|Exited with exit code \d+)(?: \(core dumped\))?`)
)

// victims are exceptions and endings that follow from another process's failure: communication that broke off, or the
// launcher that ends what is left.
var victims = []string{
	"DistBackendError", "DistNetworkError", "DistStoreError", "NCCL", "ProcessGroup", "Watchdog", "watchdog", "Connection reset", "Connection closed", "Broken pipe",
	"SignalException", "KeyboardInterrupt", "ChildFailedError", "RendezvousConnectionError", "SIGTERM", "SIGABRT", "SIGINT",
}

func isVictim(why string) bool {
	return slices.ContainsFunc(victims, func(v string) bool { return strings.Contains(why, v) })
}

// sniffEnds recognises a log that tells of processes that ended.
func sniffEnds(data []byte) bool {
	return bytes.Contains(data, []byte(elastic)) || (bytes.Contains(data, []byte(srunError)) && taskEnd.Match(data)) ||
		uncaught.Match(data)
}

// ends collects what processes died of by themselves: exceptions that nothing caught, what torchrun saw fail first, and
// what Slurm says of its tasks.
func (p *parser) ends() {
	p.tracebacks()
	for at := 0; ; {
		i := bytes.Index(p.text[at:], []byte(elastic))
		if i < 0 {
			break
		}
		at += i + len(elastic)
		p.elastic(p.text[at:min(len(p.text), at+window)])
	}
	for _, m := range taskEnd.FindAllSubmatch(p.text, -1) {
		if len(p.log.Ends) >= most {
			break
		}
		p.tasks(string(m[1]), string(m[2]), string(m[3]))
	}
}

// tracebacks takes the exceptions that ended ranks.
func (p *parser) tracebacks() {
	const most = 4096 // Of large jobs that fail as a whole the first suffice.
	for _, m := range uncaught.FindAllSubmatchIndex(p.text, most) {
		rank := number(p.text[m[2]:m[3]])
		if why := p.exception(m[1], rank); why != "" && rank < maxRank {
			p.end(End{Rank: int(rank), Why: "raised " + why})
		}
	}
}

// exception is the last line of the rank's traceback whose first line ends at an offset: the first that is not indented.
// Lines of others may come between.
func (p *parser) exception(at int, rank int64) string {
	const longest = 16 << 10
	own := fmt.Sprintf("[rank%d]:", rank)
	for line := range strings.Lines(string(p.text[at:min(len(p.text), at+longest)])) {
		i := strings.LastIndex(line, own)
		if i < 0 {
			continue
		}
		line = strings.TrimPrefix(strings.TrimRight(line[i+len(own):], "\r\n"), " ")
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			continue
		}
		m := raised.FindStringSubmatch(line)
		if m == nil {
			return "" // It ended otherwise than tracebacks do.
		}
		if m[2] != "" {
			return m[1] + ": " + cut(m[2])
		}
		return m[1]
	}
	return ""
}

func cut(s string) string {
	const longest = 240
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

// elastic reads the process that torchrun saw fail first.
func (p *parser) elastic(text []byte) {
	text, _, _ = bytes.Cut(text, []byte("===="))
	e := End{Rank: -1}
	for _, m := range elasticRow.FindAllSubmatch(text, 8) {
		value := strings.TrimSpace(string(m[2]))
		switch string(m[1]) {
		case "host":
			e.Host = value
		case "rank":
			rank, _, _ := strings.Cut(value, " ")
			e.Rank = int(number([]byte(rank)))
		case "exitcode":
			if c := exitCode.FindStringSubmatch(value); c != nil {
				e.Why, e.PID = ending(c[1]), int(number([]byte(c[2])))
			}
		}
	}
	if e.Rank >= 0 && e.Rank < maxRank && e.Why != "" {
		p.end(e)
	}
}

var signals = map[int]string{1: "SIGHUP", 2: "SIGINT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}

// ending puts an exit code, negative for a signal, into words.
func ending(code string) string {
	n, err := strconv.Atoi(code)
	if err != nil {
		return ""
	}
	if n < 0 {
		return strings.TrimSpace(fmt.Sprintf("signal %d %s", -n, strings.TrimSuffix("("+signals[-n]+")", "()")))
	}
	return exited + code
}

// tasks reads what srun says of a host's tasks. Of those that it ended itself because another failed nothing follows.
func (p *parser) tasks(host, list, what string) {
	why := map[string]string{
		"Out Of Memory": "out of memory", "Segmentation fault": "signal 11 (SIGSEGV)", "Bus error": "signal 7 (SIGBUS)",
		"Illegal instruction": "signal 4 (SIGILL)", "Floating point exception": "signal 8 (SIGFPE)",
		"Aborted": "signal 6 (SIGABRT)", "Terminated": "signal 15 (SIGTERM)", "Killed": "signal 9 (SIGKILL)",
	}[what]
	if why == "" {
		why = strings.TrimPrefix(what, "Exited with ")
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

// better says whether one telling of an end says more than another: an exception says more than the exit code that
// follows from it, and what a process died of more than that it was ended.
func (e *End) better(than *End) bool {
	bare := func(e *End) bool { return strings.HasPrefix(e.Why, exited) }
	return bare(than) && !bare(e) || isVictim(than.Why) && !isVictim(e.Why) && !bare(e)
}

// most ends are kept of a log.
const most = 1 << 17

// end notes an ending; of several tellings of one rank's the first counts, unless another is better.
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
	if e.better(have) {
		have.Why = e.Why
	}
	have.Host = cmp.Or(have.Host, e.Host)
	have.PID = cmp.Or(have.PID, e.PID)
}

type endKey struct {
	rank int
	task bool
}
