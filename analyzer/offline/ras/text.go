// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"bufio"
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// Lines are found anywhere in their line: reports are cut out of logs that put something before each.
var (
	reVersion  = regexp.MustCompile(`NCCL version (\S+) compiled with`)
	reSummary  = regexp.MustCompile(`^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$`)
	reTable    = regexp.MustCompile(`(\d+)\s+(\d+)\s+(\d+)\s+([\d-]+)\s+(\d+)\s+(\d+)\s+([A-Z]+(?:[,|/][A-Z]+)*)\s+([A-Z]+(?:,[A-Z]+)*)\s*$`)
	reComm     = regexp.MustCompile(`#(\d+)-(\d+) \((?:0x)?([0-9a-fA-F]+)\) (MISMATCH|INCOMPLETE|ERROR)`)
	reCounts   = regexp.MustCompile(`Communicator ranks have different (\w+) operation counts`)
	reStatuses = regexp.MustCompile(`Communicator ranks have different status`)
	reErrors   = regexp.MustCompile(`(Initialization|Asynchronous) errors? on (\d+) ranks?`)
	reMany     = regexp.MustCompile(`(\d+) ranks? (?:have|has) (?:launched up to operation (\d+)|(not launched any operations)|status (\w+))`)
	reReported = regexp.MustCompile(`(\d+) ranks? reported (.+?)\s*$`)
	reRank     = regexp.MustCompile(`Ranks? ([\d, -]*\d)(?: (?:has|have) (?:launched up to operation (\d+)|(not launched any operations)|status (\w+))| reported (.+?))?(?: -- (?:GPUs? ([\d,-]+(?: \(NVML [\d,-]+\))?) managed by process (\d+) on node (\S+)|\[process).*)?\s*$`)
	reUnknown  = regexp.MustCompile(`The unknown ranks: ([\d, -]*\d)`)
	reMissing  = regexp.MustCompile(`The missing ranks?: ([\d, -]*\d)`)
	reProcess  = regexp.MustCompile(`Process (\d+) on node (\S+) managing GPUs? ([\d,-]+(?: \(NVML [\d,-]+\))?)`)
	reMonitor  = regexp.MustCompile(`PEER_([A-Z_]+): Process (\d+) on node (\S+) managing GPUs? ([\d,-]+(?: \(NVML [\d,-]+\))?)`)
	reTimeouts = regexp.MustCompile(`[Ee]ncountered (\d+) communication timeouts?`)
	reDead     = regexp.MustCompile(`\d+ job process(?:es are| is) considered dead`)
	reLost     = regexp.MustCompile(`Missing communicator data from (\d+) job process`)
)

// peerEvents are the events of the monitoring mode that say how a process is, by their name without PEER_. The others tell
// of connections.
var peerEvents = map[string]string{
	"DEAD": "dead", "TIMEOUT_DEAD": "dead", "UNRESPONSIVE": "unresponsive", "KEEPALIVE_TIMEOUT": "unresponsive", "SEND_STUCK": "unresponsive",
	"RECOVERED": "recovered",
}

// gpu gives the numbers that the host's tools know: where CUDA_VISIBLE_DEVICES hides GPUs, RAS adds those behind CUDA's own.
func gpu(s string) string {
	if _, nvml, ok := strings.Cut(s, " (NVML "); ok {
		return strings.TrimSuffix(nvml, ")")
	}
	return s
}

// SniffText says whether text holds anything of a RAS report.
func SniffText(data []byte) bool {
	return reComm.Match(data) || reMonitor.Match(data) || reDead.Match(data) || reLost.Match(data) ||
		bytes.Contains(data, []byte("Ranks    Status  Errors")) ||
		reCounts.Match(data)
}

// textParser holds where in a report the reading is.
type textParser struct {
	report   *Report
	table    map[int]int // Ranks per communicator by group number.
	comm     *Comm
	function string // Of the block: a function, "" for status.
	block    string // counts, status, error, incomplete, dead, lost.
	last     Unlisted
	lastSize int // Ranks announced for the group whose members may follow.
	errKind  string
	errText  string
}

// ParseText reads a report in text.
func ParseText(file string, data []byte) (*Report, error) {
	if !SniffText(data) {
		return nil, ErrNotReport
	}
	p := textParser{report: &Report{File: file}, table: map[int]int{}}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.line(lines.Text())
	}
	p.flush()
	if err := lines.Err(); err != nil {
		return nil, err
	}
	left := maxImplied
	for _, c := range p.report.Comms {
		c.settle(&left)
		c.unsettled()
	}
	return p.report, nil
}

func (p *textParser) line(s string) {
	r := p.report
	switch {
	case reVersion.MatchString(s):
		r.Version = reVersion.FindStringSubmatch(s)[1]
	case reTimeouts.MatchString(s):
		r.Timeouts = atoi(reTimeouts.FindStringSubmatch(s)[1])
	case reMonitor.MatchString(s):
		m := reMonitor.FindStringSubmatch(s)
		if kind := peerEvents[m[1]]; kind != "" {
			r.Events = append(r.Events, Event{Process{m[3], atoi(m[2]), gpu(m[4])}, kind})
		}
	case reComm.MatchString(s):
		p.flush()
		m := reComm.FindStringSubmatch(s)
		p.comm = p.communicator(strings.TrimLeft(strings.ToLower(m[3]), "0"))
		p.comm.Size = max(p.comm.Size, p.table[atoi(m[1])])
		p.block = strings.ToLower(m[4])
	case reCounts.MatchString(s):
		p.flush()
		p.ensure()
		p.block, p.function = "counts", reCounts.FindStringSubmatch(s)[1]
		p.comm.Functions = append(p.comm.Functions, p.function)
	case reStatuses.MatchString(s):
		p.flush()
		p.ensure()
		p.block, p.function = "status", ""
	case reErrors.MatchString(s):
		p.flush()
		p.ensure()
		p.block, p.errKind, p.errText = "error", reErrors.FindStringSubmatch(s)[1], ""
	case reDead.MatchString(s):
		p.flush()
		p.block = "dead"
	case reLost.MatchString(s):
		p.flush()
		p.block = "missing"
	case reProcess.MatchString(s) && (p.block == "dead" || p.block == "missing"):
		m := reProcess.FindStringSubmatch(s)
		r.Events = append(r.Events, Event{Process{m[2], atoi(m[1]), gpu(m[3])}, p.block})
	default:
		p.members(s)
	}
}

// members reads the lines that say something of ranks, and the summary tables.
func (p *textParser) members(s string) {
	if m := reMissing.FindStringSubmatch(s); m != nil && p.comm != nil {
		for _, n := range numbers(m[1]) {
			p.comm.rank(n).Missing = true
		}
		return
	}
	if m := reMany.FindStringSubmatch(s); m != nil && p.comm != nil {
		p.flush()
		p.last = Unlisted{Count: atoi(m[1]), Function: p.function, Status: m[4], Launched: count(m[2])}
		p.lastSize = p.last.Count
		return
	}
	if m := reUnknown.FindStringSubmatch(s); m != nil && p.comm != nil && p.last.Status != "" {
		for _, n := range numbers(m[1]) {
			p.comm.rank(n).Status = p.last.Status
			p.lastSize--
		}
		return
	}
	if m := reReported.FindStringSubmatch(s); m != nil && p.block == "error" {
		p.errText = m[2]
		return
	}
	if m := reRank.FindStringSubmatch(s); m != nil && p.comm != nil && p.block != "" {
		p.ranks(m)
		return
	}
	if m := reTable.FindStringSubmatch(s); m != nil {
		p.table[atoi(m[1])] = atoi(m[5])
		if len(p.table) == 1 {
			p.report.AllOK = true
		}
		if m[8] != "OK" {
			p.report.AllOK = false
		}
		return
	}
	if m := reSummary.FindStringSubmatch(s); m != nil && len(p.table) == 0 {
		p.report.JobProcesses, p.report.JobGPUs = atoi(m[4]), atoi(m[5])
	}
}

func (p *textParser) ranks(m []string) {
	own := m[2] != "" || m[3] != "" || m[4] != "" || m[5] != ""
	if own {
		p.flush()
	}
	for _, n := range numbers(m[1]) {
		r := p.comm.rank(n)
		if m[8] != "" {
			r.Place = Process{Host: m[8], PID: atoi(m[7]), GPU: gpu(m[6])}
		}
		switch p.block {
		case "incomplete":
			r.Missing = true
		case "error":
			text := p.errText
			if m[5] != "" {
				text = m[5]
			}
			if p.errKind == "Initialization" {
				r.InitError = text
			} else {
				r.AsyncError = text
			}
		case "status":
			r.Status = m[4]
			if !own {
				r.Status = p.last.Status
			}
		case "counts":
			r.Launched[p.function] = count(m[2])
			if !own {
				r.Launched[p.function] = p.last.Launched
			}
		}
		if !own {
			p.lastSize--
		}
	}
}

// flush closes a group of ranks: when its members did not follow, it is unlisted.
func (p *textParser) flush() {
	if p.comm != nil && p.last.Count > 0 && p.lastSize == p.last.Count {
		p.comm.Unlisted = append(p.comm.Unlisted, p.last)
	}
	p.last, p.lastSize = Unlisted{}, 0
}

// ensure gives excerpts without the communicator's headline one to belong to.
func (p *textParser) ensure() {
	if p.comm == nil {
		p.comm = p.communicator("unknown")
	}
}

func (p *textParser) communicator(hash string) *Comm {
	for _, c := range p.report.Comms {
		if c.Hash == hash {
			return c
		}
	}
	c := &Comm{Hash: hash}
	p.report.Comms = append(p.report.Comms, c)
	return c
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<30 {
		return 0
	}
	return n
}

func count(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// numbers reads "3, 5-7". A nonsensical span gives nothing.
func numbers(s string) []int {
	const most = 1 << 17
	var out []int
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		a, b, isSpan := strings.Cut(f, "-")
		lo, hi := atoi(a), atoi(a)
		if isSpan {
			hi = atoi(b)
		}
		if hi-lo+len(out) > most || hi > maxImplied {
			return out
		}
		for n := lo; n <= hi; n++ {
			out = append(out, n)
		}
	}
	return out
}
