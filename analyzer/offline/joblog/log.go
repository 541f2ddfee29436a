// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package joblog makes evidence of what a training job's log says: operations that timed out, communicators that started, how
// processes ended, and what messages tell by themselves. Which messages there are, and in which words, is package grammar's. Logs
// hold anything else too, of all ranks mixed.
package joblog

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
)

// ErrNothing is given for a log that says nothing of communication.
var ErrNothing = errors.New("no message that is known: of communication, of how processes ended, or of hardware")

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
	// Findings are what messages tell by themselves, in the order of the log.
	Findings []told.Finding
	// Losses are what Ray says that it lost, in the order of the log.
	Losses  []Loss
	Watches []Watch // Where a launcher saw each rank last.
	Placed  []told.Process
	// Loose are operations that timed out and have no number, by rank.
	Loose map[int]string
	// TimedOut are the ranks whose watchdogs had a timeout, as signals to dump say.
	TimedOut map[int]bool
	// Ending are the processes that a launcher ended because of another.
	Ending map[int]bool
	// Calls are the last of each process on each communicator.
	Calls map[callKey]Call
	// CutOff is the rank with whose words the log ends in mid-sentence, which may be any message; -1 none.
	CutOff int
	// Dropped counts operations and groups beyond the bounds.
	Dropped int
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
	Comm    string // NCCL's hash; empty in lines of versions that print none.
	Address string // The communicator's in its process.
	Rank    int    // In the communicator.
	Size    int
	Host    string
	PID     int
	GPU     string // Its number on the host.
	Bus     string // Its PCI address, as NCCL writes it.
	Done    bool
}

const (
	maxRank = 1 << 17
	// window is how much of the text after a message's beginning belongs to it at most; terminals and collectors of logs
	// break lines anywhere.
	window = 700
)

// Sniff recognises a log that says anything of use.
func Sniff(data []byte) bool {
	if grammar.Any(data) {
		return true
	}
	// What collectors and terminals broke is put together first.
	const enough = 4 << 20
	head := data[:min(len(data), enough)]
	whole := grammar.Plain(head)
	return !bytes.Equal(whole, head) && grammar.Any(whole)
}

// SniffFailure recognises a text in which something says that it failed, though no message in it is known. Of a file that somebody gave
// alone it is enough that some line does, or that it has frames of a traceback; among others it must name the failure.
func SniffFailure(data []byte, alone bool) bool {
	if !utf8.Valid(data[:max(0, min(len(data), window)-utf8.UTFMax)]) || bytes.IndexByte(data, 0) >= 0 {
		return false
	}
	return grammar.HasFailure(grammar.Plain(data), alone) || alone && (len(framesAlone.FindAll(data, 2)) > 1 || crashFrame.Match(data))
}

var framesAlone = regexp.MustCompile(`(?m)^\s*File "[^"\n]+", line \d+, in \w`)

var (
	statusPart = regexp.MustCompile(`(?i)last (enqueued|started|completed)(?: NCCL)? work: (-?\d+)`)
	absentPart = regexp.MustCompile(`\[([\d, ]+)\] finished collective #(\d+), but didn't join collective #(\d+)`)
	neverPart  = regexp.MustCompile(`To our best knowledge, ranks \[([\d, ]+)\] are the lagging ranks`)
	latestPart = regexp.MustCompile(`#(\d+) (?:started|finished) ranks:|\[([\d, ]+)\] (started|finished) (\w+)`)
	framePart  = regexp.MustCompile(`^(?:\[rank\d+\]:\s*)?#\d+ (\S+) from (\S+)`)
)

// Parse reads a log. rank is whose log it is where the file's name says so, else -1.
func Parse(file string, data []byte, rank int) (*Log, error) {
	labelled := data
	data = grammar.Plain(data)
	p := newParser(file, data, rank)
	p.prefixes()
	events := grammar.Scan(data)
	for i := range events {
		p.event(&events[i])
	}
	p.complete()
	p.unfinished()
	p.arrivals()
	p.trapped()
	p.losses(labelled)
	if m := errorFile.FindStringSubmatch(file); m != nil {
		for i := range p.log.Exceptions {
			if e := &p.log.Exceptions[i]; e.Rank < 0 && e.Local < 0 {
				e.Local = int(number([]byte(m[1])))
			}
		}
	}
	p.firstFailure(events)
	p.broken(events)
	p.log.Repeats = grammar.Repeats(data)
	if l := p.log; len(l.States) == 0 && len(l.Joins) == 0 && len(l.Ends) == 0 && len(l.Exceptions) == 0 && len(l.Claims) == 0 && len(l.Losses) == 0 &&
		len(l.Watches) == 0 && len(l.Findings) == 0 && len(l.Loose) == 0 && len(l.Calls) == 0 && len(l.Prints) == 0 {
		return nil, ErrNothing
	}
	return p.log, nil
}

// loggerHead is how PyTorch's logger in C++ begins a rank's line.
var loggerHead = regexp.MustCompile(`^\[rank(\d+)\]: ?\[[EWFI]`)

// broken looks whether the log ends with the beginning of a message of PyTorch's.
func (p *parser) broken(events []grammar.Event) {
	text := bytes.TrimRight(p.text, "\n ")
	start := bytes.LastIndexByte(text, '\n') + 1
	m := loggerHead.FindSubmatch(text[start:])
	if m != nil && !bytes.HasSuffix(text, []byte(".")) && !slices.ContainsFunc(events, func(e grammar.Event) bool { return e.Start >= start }) {
		p.log.CutOff = int(number(m[1]))
	}
}

// errorFile is where TorchElastic keeps what a process raised: its directory is the process's place on its host.
var errorFile = regexp.MustCompile(`attempt_\d+/(\d+)/error\.json$`)

func newParser(file string, text []byte, rank int) *parser {
	return &parser{
		text: text, rank: rank, teller: speaker{rank: -1}, last: map[int]*State{}, claims: map[claimKey]int{}, prints: map[int]int{}, watches: map[int]int{}, warned: map[warning]int{},
		log: &Log{File: file, Ranks: map[int]bool{}, States: map[Place]*State{}, Loose: map[int]string{}, TimedOut: map[int]bool{}, Ending: map[int]bool{}, Calls: map[callKey]Call{}, Attempts: 1, CutOff: -1},
	}
}

// loggerLine is how PyTorch's own loggers, in C++ and in torchrun, begin a line.
var loggerLine = regexp.MustCompile(`(?m)^(?:\[[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ [\w./]+:\d+\]|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ torch/)`)

// SniffQuiet recognises a log of ranks by the labels that PyTorch gives their lines, whatever they say.
func SniffQuiet(data []byte) bool {
	return bytes.Contains(data, []byte("[rank")) && grammar.RankLabel.Match(data) || loggerLine.Match(data)
}

// ParseQuiet reads only whose log it is.
func ParseQuiet(file string, data []byte) *Log {
	p := newParser(file, data, -1)
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
	teller  speaker
	last    map[int]*State // The state of the operation that each rank told of last.
	ended   map[endKey]int // Places in log.Ends.
	claims  map[claimKey]int
	prints  map[int]int
	watches map[int]int
	warned  map[warning]int           // Places in log.Findings.
	groups  map[string]map[int64]bool // Numbers of operations that timed out, by group.
	lost    []grammar.Event
	came    []arrival // To operations, each set of ranks once.
	// within is where the last traceback stands; bare are last lines of tracebacks.
	within span
	bare   []Exception
	cutOff []Exception // Without their last line.
	// examined counts tracebacks.
	examined int
}

func (p *parser) prefixes() {
	for _, m := range grammar.RankLabel.FindAllSubmatch(p.text, -1) {
		if r := number(m[1]); r >= 0 && r < maxRank {
			p.log.Ranks[int(r)] = true
			p.named = true
		}
	}
	if p.rank >= 0 && !p.named {
		p.log.Ranks[p.rank] = true
	}
}

// event takes one message.
func (p *parser) event(e *grammar.Event) {
	switch e.Kind {
	case grammar.Timeout, grammar.Counters, grammar.DumpSignal, grammar.Lagging, grammar.Snapshot, grammar.CallStack:
		p.message(e)
	case grammar.NotJoined:
		p.notJoined(e)
	case grammar.Joined:
		p.joined(e)
	case grammar.Print:
		p.print(e)
	case grammar.WaitsFor, grammar.Reached, grammar.Key:
		p.claimed(e)
	case grammar.World:
		p.size(e)
	case grammar.Traceback:
		p.traceback(e)
	case grammar.LastLine:
		p.lastLine(e)
	case grammar.Abort:
		p.abort(e)
	case grammar.ListedEnd, grammar.TaskEnd, grammar.RankEnd:
		p.ending(e)
	case grammar.Ending:
		p.log.Ending[e.Int("pid")] = true
	case grammar.Lost:
		p.lost = append(p.lost, *e)
	case grammar.Watched:
		p.watched(e)
	case grammar.Placed:
		if r := e.Int("rank"); r < maxRank && len(p.log.Placed) < most {
			p.log.Placed = append(p.log.Placed, told.Process{Rank: r, PID: max(e.Int("pid"), 0), Host: e.Get("host"), GPU: e.Get("gpu")})
		}
	case grammar.Launched:
		p.launched(e)
	default:
		p.find(e)
	}
}

func (p *parser) abort(e *grammar.Event) {
	const most = 64
	if len(p.log.Aborts) < most {
		p.log.Aborts = append(p.log.Aborts, e.Get("class")+": "+cut(e.Get("what")))
	}
}

// size takes how many ranks the job has from a line that says so.
func (p *parser) size(e *grammar.Event) {
	n := e.Int("size")
	if peers := e.Int("peers"); peers >= 0 {
		n = peers + 1
	}
	if n > 0 && n < maxRank {
		p.log.World = max(p.log.World, n)
	}
	if r := e.Int("rank"); r >= 0 && r < p.log.World {
		p.log.Ranks[r] = true
	}
}

func (p *parser) message(e *grammar.Event) {
	at := e.At
	who, ok := p.speaker(at)
	report := e.Kind == grammar.Lagging || e.Kind == grammar.Snapshot
	switch {
	case ok && !report:
		p.teller = who
	case !ok && report && p.teller.rank >= 0:
		who = p.teller
	case !ok:
		p.nobody(e)
		return
	}
	text := flat(p.text[at:min(len(p.text), at+window)])
	switch e.Kind {
	case grammar.Timeout:
		p.work(who, e)
	case grammar.DumpSignal:
		if of := e.Int("of"); of >= 0 {
			p.log.TimedOut[of] = true
		} else if e.Get("own") != "" {
			p.log.TimedOut[who.rank] = true
		}
		p.status(who, text)
	case grammar.Counters:
		p.status(who, text)
	case grammar.CallStack:
		p.stack(who, at)
	case grammar.Lagging:
		p.lagging(who, text)
	case grammar.Snapshot:
		p.latest(who, at)
	}
}

// nobody takes an operation that timed out in a log that never names a rank.
func (p *parser) nobody(e *grammar.Event) {
	if e.Kind != grammar.Timeout || p.named || len(p.log.Findings) >= mostFindings {
		return
	}
	says := "timed out in " + flightrecorder.Canonical(e.Get("op"))
	if seq := e.Get("seq"); seq != "" {
		says += " #" + seq
	}
	f := told.New(grammar.LibraryWaits, says)
	f.Order = e.At
	p.log.Findings = append(p.log.Findings, f)
}

func (p *parser) lagging(who speaker, text string) {
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
}

// notJoined takes what PyTorch's own tool says of a collective that not all have joined.
func (p *parser) notJoined(e *grammar.Event) {
	seq := int64(max(e.Int("seq"), e.Int("seq2")))
	missing := ranks(e.Get("ranks"))
	if seq <= 0 {
		return
	}
	for _, r := range ranks(e.Get("expected")) {
		s := p.state(Place{r, e.Get("group")}, e.Get("desc"))
		s.Completed = max(s.Completed, seq-1)
		if slices.Contains(missing, r) {
			s.Enqueued = max(s.Enqueued, seq-1)
			continue
		}
		s.Enqueued = max(s.Enqueued, seq)
		p.add(Place{r, e.Get("group")}, s, Op{Seq: seq, Type: e.Get("op"), In: -1, Out: -1, Ran: -1}, speaker{groupRank: -1})
	}
}

// work takes the operation that timed out.
func (p *parser) work(who speaker, e *grammar.Event) {
	num := func(name string) int64 {
		if e.Get(name) == "" {
			return -1
		}
		return number([]byte(e.Get(name)))
	}
	op := Op{Seq: num("seq"), Type: e.Get("op"), In: num("in"), Out: num("out"), Ran: -1}
	if ms := num("ms"); ms >= 0 && ms < 1<<40 {
		op.Ran = time.Duration(ms) * time.Millisecond
	}
	if op.Seq < 0 {
		p.log.Ranks[who.rank] = true
		if _, told := p.log.Loose[who.rank]; !told && op.Type != "" {
			p.log.Loose[who.rank] = op.Type
		}
		return
	}
	place := Place{who.rank, who.group}
	p.add(place, p.state(place, who.desc), op, who)
}

// mostNumbers of a group's operations are pending in any job that is real: ranks stand at a few places. More would be compared
// with every rank each.
const mostNumbers = 64

func (p *parser) add(place Place, s *State, op Op, who speaker) {
	if who.groupRank >= 0 {
		s.GroupRank = who.groupRank
	}
	for i := range s.Ops {
		if o := &s.Ops[i]; o.Seq == op.Seq && o.Type == op.Type {
			o.Ran = max(o.Ran, op.Ran)
			return
		}
	}
	if p.groups == nil {
		p.groups = map[string]map[int64]bool{}
	}
	numbers := p.groups[place.Group]
	if numbers == nil {
		numbers = map[int64]bool{}
		p.groups[place.Group] = numbers
	}
	if !numbers[op.Seq] && len(numbers) == mostNumbers || len(s.Ops) == mostNumbers {
		p.log.Dropped++
		return
	}
	if op.Seq > 0 {
		numbers[op.Seq] = true
		s.Ops = append(s.Ops, op)
		p.last[place.Rank] = s
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
		p.log.States, p.last, p.groups = map[Place]*State{}, map[int]*State{}, nil
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
	text := flat(p.text[at:min(len(p.text), at+longest)])
	_, text, _ = strings.Cut(text, "latest states:")
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
			p.add(Place{r, who.group}, s, Op{Seq: seq, Type: text[m[8]:m[9]], In: -1, Out: -1, Ran: -1, NeverDone: true}, speaker{groupRank: r})
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
	if s := p.last[who.rank]; s != nil && len(s.Ops) > 0 && len(frames) > 0 && s.Ops[len(s.Ops)-1].Stack == nil {
		s.Ops[len(s.Ops)-1].Stack = frames
	}
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
