// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package joblog reads what a training job's log says of communication: the messages of PyTorch's NCCL watchdog about
// operations that timed out (PyTorch 1.13 and newer), its desynchronisation report, the lines in which NCCL itself says
// who joins a communicator (NCCL_DEBUG=INFO), and how processes ended: uncaught exceptions, the first failure that
// torchrun saw, srun's word on its tasks. Such logs hold anything else too, of all ranks mixed.
package joblog

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ErrNothing is given for a log that says nothing of communication.
var ErrNothing = errors.New("no message of the NCCL watchdog, no communicator's start and no process's end")

// Log is what was read from one file.
type Log struct {
	File   string
	Ranks  map[int]bool // Global ranks that say anything at all.
	States map[Place]*State
	Joins  []Join
	Ends   []End // Of processes, in the order of the log.
	// Exceptions, Claims and Prints are in the order of the log, too.
	Exceptions []Exception
	Claims     []Claim
	Prints     []Print
	Aborts     []string // What C++ programs say before they abort.
	Repeats    int      // Lines that a collector left out as other processes' same ones.
	World      int      // Ranks that the log says that the job has; 0 unknown.
	// Warnings are the first of each process, in the order of the log.
	Warnings []Warning
	// Losses are what Ray says that it lost, in the order of the log.
	Losses  []Loss
	Watches []Watch  // Where a launcher saw each rank last.
	Slower  []string // What a detector of stragglers said.
	// Closed are the hosts that closed connections, with how many messages say so.
	Closed map[string]int
	// Attempts counts how often the job started over; States are those of the last.
	Attempts int
	// Assumed: no line names its global rank, so the ranks of the groups stand for them.
	Assumed bool
}

// Place is a rank in a process group.
type Place struct {
	Rank  int    // Global.
	Group string // "0", or what the message has; empty where it has none.
}

// State is what the watchdog said last of a rank in a group. Numbers count from 1; -1 unknown, 0 none.
type State struct {
	Desc                         string // The group's description.
	GroupRank                    int    // -1 unknown.
	Enqueued, Started, Completed int64
	Ops                          []Op // That timed out, by number.
}

// Op is an operation that timed out.
type Op struct {
	Seq       int64
	Type      string // As PyTorch writes it: ALLREDUCE, _ALLGATHER_BASE.
	In, Out   int64  // Elements; -1 unknown.
	Ran       time.Duration
	Stack     []string // Innermost last.
	NeverDone bool     // From the desynchronisation report: joined, not finished.
}

// Join is a rank that enters a communicator.
type Join struct {
	Comm string // NCCL's hash.
	Rank int    // In the communicator.
	Size int
	Host string
	PID  int
	GPU  string // Its number on the host.
	Done bool
}

const (
	maxRank = 1 << 17
	// window is how much of the text after a message's beginning belongs to it at most; terminals and collectors of logs
	// break lines anywhere.
	window = 700
)

// Anchors of messages.
const (
	caught   = "Watchdog caught collective operation timeout"
	detected = "etected by watchdog at work" // "Exception (either an error or timeout) d…", "failure d…".
	timedOut = "Timeout at NCCL work:"
	dumping  = "Received a dump signal"
	lagging  = "To our best knowledge, "
	snapshot = "Snapshot of ranks' latest states"
	joining  = " - Init "
	trace    = "Stack trace of the failed collective"
)

// Sniff recognises a log that says anything of use.
func Sniff(data []byte) bool {
	if sniff(data) {
		return true
	}
	// What collectors and terminals broke is put together first.
	const enough = 4 << 20
	head := data[:min(len(data), enough)]
	whole := plain(head)
	return len(whole) != len(head) && sniff(whole)
}

func sniff(data []byte) bool {
	for _, s := range []string{caught, detected, timedOut, dumping} {
		if bytes.Contains(data, []byte(s)) {
			return true
		}
	}
	for _, s := range []string{"monitoredBarrier", "CollectiveFingerPrint(", warns} {
		if bytes.Contains(data, []byte(s)) {
			return true
		}
	}
	return bytes.Contains(data, []byte("NCCL INFO")) && joinLine.Match(data) || sniffEnds(data) || sniffLosses(data) || sniffWatches(data)
}

var (
	workPart   = regexp.MustCompile(`WorkNCCL\( ?SeqNum= ?(\d+), ?OpType= ?(\w+)(?:, ?NumelIn= ?(\d+), ?NumelOut= ?(\d+))?, ?Timeout ?\(ms\) ?= ?\d+ ?\)(?: ran for (\d+) milliseconds)?`)
	statusPart = regexp.MustCompile(`(?i)last (enqueued|started|completed)(?: NCCL)? work: (-?\d+)`)
	absentPart = regexp.MustCompile(`\[([\d, ]+)\] finished collective #(\d+), but didn't join collective #(\d+)`)
	neverPart  = regexp.MustCompile(`To our best knowledge, ranks \[([\d, ]+)\] are the lagging ranks`)
	latestPart = regexp.MustCompile(`#(\d+) (?:started|finished) ranks:|\[([\d, ]+)\] (started|finished) (\w+)`)
	joinLine   = regexp.MustCompile(`(?m)(\S+?):(\d+):\d+ \[(\d+)\] NCCL INFO (?:\[Rank \d+\] )?ncclComm\w+ comm 0x[0-9a-f]+ rank (\d+) n[rR]anks (\d+) cudaDev \d+ .*?commId 0x([0-9a-f]+) - Init (START|COMPLETE)`)
	framePart  = regexp.MustCompile(`^(?:\[rank\d+\]:\s*)?#\d+ (\S+) from (\S+)`)
)

// Parse reads a log. rank is whose log it is where the file's name says so, else -1.
func Parse(file string, data []byte, rank int) (*Log, error) {
	labelled := data
	data = plain(data)
	p := parser{text: data, rank: rank, teller: speaker{rank: -1}, log: &Log{File: file, Ranks: map[int]bool{}, States: map[Place]*State{}, Attempts: 1}}
	p.prefixes()
	p.messages()
	p.joins()
	p.ends()
	p.losses(labelled)
	p.watches()
	p.peers()
	p.claims()
	p.aborts()
	p.warnings()
	p.settle()
	p.size()
	p.log.Repeats = repeats(data)
	if len(p.log.States) == 0 && len(p.log.Joins) == 0 && len(p.log.Ends) == 0 && len(p.log.Exceptions) == 0 && len(p.log.Claims) == 0 && len(p.log.Warnings) == 0 && len(p.log.Losses) == 0 && len(p.log.Watches) == 0 && len(p.log.Slower) == 0 {
		return nil, ErrNothing
	}
	return p.log, nil
}

var worldParts = []*regexp.Regexp{
	regexp.MustCompile(`Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is ?: ?(\d+)`),
	regexp.MustCompile(`(?i)\bworld[_ ]size ?[=:] ?(\d+)`),
}

var glooRank = regexp.MustCompile(`\[Gloo\] Rank (\d+) is connected to`)

var terminate = regexp.MustCompile(`terminate called after throwing an instance of '([^']+)'(?:[^\n]*\n[^\n]*what\(\):\s*([^\n]*))?`)

// aborts takes what C++ programs say before they abort: not whose it is, but why.
func (p *parser) aborts() {
	const most = 64
	for _, m := range terminate.FindAllSubmatch(p.text, most) {
		p.log.Aborts = append(p.log.Aborts, string(m[1])+": "+cut(string(m[2])))
	}
}

// size takes how many ranks the job has from lines that say so.
func (p *parser) size() {
	const most = 64
	for i, re := range worldParts {
		for _, m := range re.FindAllSubmatch(p.text, most) {
			if n := int(number(m[1])); n > 0 && n < maxRank {
				p.log.World = max(p.log.World, n+1-i) // The first form counts the others.
			}
		}
	}
	for _, m := range glooRank.FindAllSubmatch(p.text, maxRank) {
		if r := int(number(m[1])); r >= 0 && r < p.log.World {
			p.log.Ranks[r] = true
		}
	}
}

// loggerLine is how PyTorch's own loggers, in C++ and in torchrun, begin a line.
var loggerLine = regexp.MustCompile(`(?m)^(?:\[[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ [\w./]+:\d+\]|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ torch/)`)

// SniffQuiet recognises a log of ranks by the labels that PyTorch gives their lines, whatever they say.
func SniffQuiet(data []byte) bool {
	return bytes.Contains(data, []byte("[rank")) && rankPrefix.Match(data) || loggerLine.Match(data)
}

// ParseQuiet reads only whose log it is.
func ParseQuiet(file string, data []byte) *Log {
	p := parser{text: data, rank: -1, log: &Log{File: file, Ranks: map[int]bool{}, Attempts: 1}}
	p.prefixes()
	return p.log
}

type parser struct {
	text []byte
	rank int
	log  *Log
	// named: some lines name their global rank.
	named bool
	// teller said last that something timed out: the desynchronisation report follows that on lines of its own.
	teller speaker
	ended  map[endKey]int // Places in log.Ends.
}

func (p *parser) prefixes() {
	for _, m := range rankPrefix.FindAllSubmatch(p.text, -1) {
		if r := number(m[1]); r >= 0 && r < maxRank {
			p.log.Ranks[int(r)] = true
			p.named = true
		}
	}
	if p.rank >= 0 && !p.named {
		p.log.Ranks[p.rank] = true
	}
}

// messages goes through the log in its order.
func (p *parser) messages() {
	for at := 0; at < len(p.text); {
		next, kind := -1, ""
		for _, anchor := range []string{caught, detected, timedOut, dumping, lagging, snapshot, trace} {
			if i := bytes.Index(p.text[at:min(len(p.text), at+searchAhead)], []byte(anchor)); i >= 0 && (next < 0 || i < next) {
				next, kind = i, anchor
			}
		}
		if next < 0 {
			at += max(1, searchAhead-len(snapshot)-len(lagging))
			continue
		}
		at += next
		p.message(at, kind)
		at += len(kind)
	}
}

// searchAhead bounds how far a single search looks, so that many messages of one kind do not cost a pass over the rest
// of the log for every other kind each.
const searchAhead = 64 << 10

func (p *parser) message(at int, kind string) {
	who, ok := p.speaker(at)
	report := kind == lagging || kind == snapshot
	switch {
	case ok && !report:
		p.teller = who
	case !ok && report && p.teller.rank >= 0:
		who = p.teller
	case !ok:
		return
	}
	text := flat(p.text[at:min(len(p.text), at+window)])
	switch kind {
	case caught:
		p.work(who, text)
	case detected, timedOut, dumping:
		p.status(who, text)
	case trace:
		p.stack(who, at)
	case lagging:
		for _, m := range absentPart.FindAllStringSubmatch(text, maxRank) {
			for _, r := range ranks(m[1]) {
				s := p.state(Place{r, who.group}, who.desc)
				s.Enqueued, s.Completed = max(s.Enqueued, number([]byte(m[2]))), max(s.Completed, number([]byte(m[2])))
			}
		}
		if m := neverPart.FindStringSubmatch(text); m != nil {
			for _, r := range ranks(m[1]) {
				p.state(Place{r, who.group}, who.desc).Enqueued = 0
			}
		}
	case snapshot:
		p.latest(who, at)
	}
}

// work takes the operation that timed out.
func (p *parser) work(who speaker, text string) {
	m := workPart.FindStringSubmatch(text)
	if m == nil {
		return
	}
	op := Op{Seq: number([]byte(m[1])), Type: m[2], In: -1, Out: -1, Ran: -1}
	if m[3] != "" {
		op.In, op.Out = number([]byte(m[3])), number([]byte(m[4]))
	}
	if ms := number([]byte(m[5])); m[5] != "" && ms >= 0 && ms < 1<<40 {
		op.Ran = time.Duration(ms) * time.Millisecond
	}
	p.add(p.state(Place{who.rank, who.group}, who.desc), op, who)
}

func (p *parser) add(s *State, op Op, who speaker) {
	if who.groupRank >= 0 {
		s.GroupRank = who.groupRank
	}
	for i := range s.Ops {
		if o := &s.Ops[i]; o.Seq == op.Seq && o.Type == op.Type {
			o.Ran = max(o.Ran, op.Ran)
			return
		}
	}
	const most = 64
	if op.Seq > 0 && len(s.Ops) < most {
		s.Ops = append(s.Ops, op)
	}
}

// status takes the counters. Counters that go back are those of a job that was started anew.
func (p *parser) status(who speaker, text string) {
	// Versions say different fields in different orders; another message may follow and has its own.
	field := map[string]int64{}
	end := 0
	for _, m := range statusPart.FindAllStringSubmatchIndex(text, 3) {
		name := strings.ToLower(text[m[2]:m[3]])
		if _, again := field[name]; again || end > 0 && m[0] > end+4 {
			break
		}
		field[name], end = number([]byte(text[m[4]:m[5]])), m[1]
	}
	if len(field) == 0 {
		return
	}
	get := func(name string) int64 {
		if v, ok := field[name]; ok {
			return max(v, 0)
		}
		return -1
	}
	enqueued, completed := get("enqueued"), get("completed")
	place := Place{who.rank, who.group}
	if old := p.log.States[place]; old != nil && old.Enqueued > max(enqueued, 0) {
		p.log.States = map[Place]*State{}
		p.log.Attempts++
	}
	s := p.state(place, who.desc)
	if who.groupRank >= 0 {
		s.GroupRank = who.groupRank
	}
	s.Enqueued, s.Completed, s.Started = max(s.Enqueued, enqueued), max(s.Completed, completed), max(s.Started, started(field, completed))
}

// started is up to which operation kernels have begun. Without timing PyTorch does not follow it, and says less than has
// completed: -1 then.
func started(field map[string]int64, completed int64) int64 {
	if v, ok := field["started"]; ok && v > 0 && v >= completed {
		return v
	}
	return -1
}

func (p *parser) state(place Place, desc string) *State {
	s := p.log.States[place]
	if s == nil {
		s = &State{GroupRank: -1, Enqueued: -1, Started: -1, Completed: -1}
		p.log.States[place] = s
	}
	if desc != "" {
		s.Desc = desc
	}
	p.log.Ranks[place.Rank] = true
	return s
}

// latest takes the snapshot of the desynchronisation report: every rank's newest operation.
func (p *parser) latest(who speaker, at int) {
	const longest = 64 << 10
	text := flat(p.text[at+len(snapshot) : min(len(p.text), at+longest)])
	seq := int64(-1)
	end := 0
	for _, m := range latestPart.FindAllStringSubmatchIndex(text, -1) {
		const apart = 80 // What follows at a distance is another message.
		if m[0] > end+apart {
			return
		}
		end = m[1]
		if m[2] >= 0 {
			seq = number([]byte(text[m[2]:m[3]]))
			continue
		}
		for _, r := range ranks(text[m[4]:m[5]]) {
			s := p.state(Place{r, who.group}, who.desc)
			s.Enqueued = max(s.Enqueued, seq)
			if text[m[6]:m[7]] == "finished" {
				s.Completed = max(s.Completed, seq)
				continue
			}
			s.Completed = max(s.Completed, seq-1)
			p.add(s, Op{Seq: seq, Type: text[m[8]:m[9]], In: -1, Out: -1, Ran: -1, NeverDone: true}, speaker{groupRank: r})
		}
	}
}

// stack attaches the frames after a message to the speaker's operation.
func (p *parser) stack(who speaker, at int) {
	const longest = 8 << 10
	var frames []string
	rest := p.text[at:min(len(p.text), at+longest)]
	for i, line := range strings.Split(string(rest), "\n") {
		m := framePart.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			if i == 0 {
				continue
			}
			break
		}
		frames = append([]string{m[1] + " (" + m[2] + ")"}, frames...)
	}
	for place, s := range p.log.States {
		if place.Rank == who.rank && len(s.Ops) > 0 && len(frames) > 0 && s.Ops[len(s.Ops)-1].Stack == nil {
			s.Ops[len(s.Ops)-1].Stack = frames
		}
	}
}

func (p *parser) joins() {
	if !bytes.Contains(p.text, []byte(joining)) {
		return
	}
	for _, m := range joinLine.FindAllSubmatch(p.text, -1) {
		p.log.Joins = append(p.log.Joins, Join{
			Comm: strings.TrimLeft(string(m[6]), "0"), Rank: int(min(number(m[4]), maxRank)), Size: int(min(number(m[5]), maxRank)),
			Host: unlabelled(string(m[1])), PID: int(number(m[2])), GPU: string(m[3]), Done: string(m[7]) == "COMPLETE",
		})
	}
}

// settle joins what messages without a group said of a rank with what others of its said.
func (p *parser) settle() {
	for place, s := range p.log.States {
		if place.Group != "" {
			continue
		}
		for i := 0; i < len(s.Ops); i++ {
			for other, to := range p.log.States {
				if other.Rank != place.Rank || other.Group == "" || s.Ops[i].Seq <= to.Completed || s.Ops[i].Seq > to.Enqueued || p.ambiguous(other, s.Ops[i].Seq) {
					continue
				}
				to.Ops = append(to.Ops, s.Ops[i])
				s.Ops = append(s.Ops[:i], s.Ops[i+1:]...)
				i--
				break
			}
		}
		if len(s.Ops) == 0 && s.Enqueued < 0 {
			delete(p.log.States, place)
		}
	}
}

// ambiguous says whether the number is pending in another group of the rank too.
func (p *parser) ambiguous(at Place, seq int64) bool {
	for other, s := range p.log.States {
		if other.Rank == at.Rank && other.Group != at.Group && other.Group != "" && seq > s.Completed && seq <= s.Enqueued {
			return true
		}
	}
	return false
}

func number(b []byte) int64 {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func ranks(list string) []int {
	var out []int
	for f := range strings.FieldsFuncSeq(list, func(r rune) bool { return r < '0' || r > '9' }) {
		if n := number([]byte(f)); n >= 0 && n < maxRank {
			out = append(out, int(n))
		}
	}
	return out
}

// flat makes one line of a message that was broken into several.
func flat(b []byte) string { return strings.Join(strings.Fields(string(b)), " ") }
