// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
)

// Exception is one that nothing caught and that ended its process.
type Exception struct {
	Rank    int    // Global; -1 where the log does not say whose it is.
	Class   string // "ValueError".
	Message string // Of one or several lines.
	Stack   []string
	// Worker is a program's own name of its process, Local the process's place on its host, where the log has no rank; -1 unknown.
	Worker string
	Local  int
	PID    int
	Order  int
	// Tail: the text has the last line alone.
	Tail bool
	// Trapped: its kernel ended itself, as it had waited for another rank for too long.
	Trapped bool
	// Doing is the operation that its rank was in, where no stack shows it.
	Doing string
}

// String is the exception on one line.
func (e *Exception) String() string {
	first, _, _ := strings.Cut(e.Message, "\n")
	if first == "" {
		return e.Class
	}
	if m := lastError.FindStringSubmatch(e.Message); m != nil {
		first = "NCCL failed: " + m[1] // The rest says where PyTorch called it.
	}
	return e.Class + ": " + cut(first)
}

// lastError is what NCCL itself says in a message of PyTorch.
var lastError = regexp.MustCompile(`(?m)^NCCL error in[^~]*\nLast error: *\n([^\n]+)`)

const tracebackStart = "Traceback (most recent call last):"

var (
	// raised is the last line of a traceback: the exception's class, and what it says.
	raised   = regexp.MustCompile(`^((?:[A-Za-z_][\w.]*)?(?:Error|Exception|Exit|Interrupt|Warning|Failure|Timeout|StopIteration)(?:\([\w.]+\))?|[a-z_]\w*(?:\.\w+)+)(?:: (.*))?$`)
	fileLine = regexp.MustCompile(`^\s*File "([^"]+)", line (\d+), in (.+)$`)
	chained  = regexp.MustCompile(`^(?:The above exception was the direct cause|During handling of the above exception)`)
)

const (
	mostExceptions = 4096     // Of large jobs that fail as a whole the first suffice.
	longest        = 64 << 10 // Of one, with lines of others in between.
)

// spawned is what torch.multiprocessing puts before the exception of a process that it started.
var spawned = regexp.MustCompile(`-- Process (\d+) terminated with the following error:\s*$`)

// raisedBy is what programs put before a traceback of which they tell the rank, as InternLM does.
var raisedBy = regexp.MustCompile(`(?i)[^\n]*exception[^\n]*\brank(?: id)?[:= ]+(\d+)\W*\n$`)

// traceback takes an exception that ended a rank.
func (p *parser) traceback(at *grammar.Event) {
	if p.examined++; p.examined > mostExceptions {
		return
	}
	label := string(p.text[at.Start:at.At])
	rest := p.text[at.At+len(tracebackStart) : min(len(p.text), at.At+len(tracebackStart)+longest)]
	e := Exception{Rank: p.rank, Local: -1, Order: at.At}
	own := ""
	if m := grammar.ProcLabel.FindStringSubmatch(label); m != nil {
		e.Rank, e.Worker, e.PID = -1, m[1], int(number([]byte(m[2])))
		if m[3] != "" {
			own = strings.TrimSpace(m[0])
		}
	} else if m := grammar.RankLabel.FindAllStringSubmatch(label, -1); m != nil {
		e.Rank = int(number([]byte(m[len(m)-1][1])))
		own = fmt.Sprintf("[rank%d]:", e.Rank)
	} else if label != "" && strings.TrimSpace(label) == "" {
		rest = dedented(rest, label) // As in torchrun's list of failures.
	} else if strings.HasSuffix(label, "traceback : ") {
		rest = dedented(bytes.TrimPrefix(rest, []byte{'\n'}), "  ") // In the same list, on the line of its field.
	} else if p.named && strings.TrimSpace(label) == "" {
		e.Rank = -1 // The launcher's own, or one from before ranks are known.
	}
	const above = 400
	if m := spawned.FindSubmatch(bytes.TrimRight(p.text[max(0, at.Start-above):at.Start], " \n")); m != nil {
		e.Local = int(number(m[1]))
	}
	if m := raisedBy.FindSubmatch(p.text[max(0, at.Start-above):at.Start]); m != nil && e.Rank < 0 && e.Worker == "" {
		e.Rank = int(number(m[1]))
	}
	if e.Rank >= maxRank || !e.read(string(rest), own) && (own == "" || bytes.Contains(rest, []byte(own)) || !e.read(string(rest), "")) {
		if n := len(e.Stack); e.Rank < maxRank && n > 0 && !launching.MatchString(e.Stack[n-1]) && len(p.cutOff) < mostFindings {
			p.cutOff = append(p.cutOff, e)
		}
		return
	}
	if m := aboutRank.FindStringSubmatch(e.Message); m != nil && e.Rank < 0 && e.Worker == "" && e.Local < 0 && !e.Victim() {
		e.Rank = int(number([]byte(m[1])))
	}
	first, _, _ := strings.Cut(e.Message, "\n")
	p.within = span{at.At, at.At + len(tracebackStart) + max(0, bytes.Index(rest, []byte(e.Class+": "+first))) + len(e.Class) + len(e.Message) + len(": "), len(p.log.Exceptions)}
	p.log.Exceptions = append(p.log.Exceptions, e)
}

// trapped tells kernels of DeepEP and NCCL EP, which trap after a time-out, from those that fail by themselves.
func (p *parser) trapped() {
	const failure = "unspecified launch failure"
	libraries := []string{"DeepEP", "NCCL EP"}
	if !slices.ContainsFunc(p.log.Claims, func(c Claim) bool { return containsAny(c.What, libraries) }) &&
		!slices.ContainsFunc(p.log.Findings, func(f told.Finding) bool { return f.Kind == grammar.LibraryWaits && containsAny(f.Says, libraries) }) {
		return
	}
	for i := range p.log.Exceptions {
		e := &p.log.Exceptions[i]
		e.Trapped = strings.Contains(e.Message, failure)
	}
	p.log.Findings = slices.DeleteFunc(p.log.Findings, func(f told.Finding) bool { return f.Kind == grammar.GPUUnknown && strings.Contains(f.Says, failure) })
}

// span is where an exception of the log stands in the text.
type span struct{ from, to, exception int }

// lastLine keeps the last line of a traceback, in case that the text lacks the rest.
func (p *parser) lastLine(at *grammar.Event) {
	e := Exception{Rank: -1, Local: -1, Order: at.At, Class: at.Get("class"), Message: at.Get("message"), Tail: true}
	if m := grammar.ProcLabel.FindStringSubmatch(at.Get("label")); m != nil {
		e.Worker, e.PID = m[1], int(number([]byte(m[2])))
	} else if m := grammar.RankLabel.FindStringSubmatch(at.Get("label")); m != nil {
		e.Rank = int(number([]byte(m[1])))
	} else if p.named {
		return // Whoever has no label says it of another.
	}
	if e.Rank < maxRank && len(p.bare) < mostExceptions {
		if strings.HasPrefix(e.Message, "NCCL error in") {
			_, below, _ := strings.Cut(string(p.text[at.At:min(len(p.text), at.At+window)]), "\n")
			for line := range strings.Lines(below) {
				if !e.more(strings.TrimPrefix(line, at.Get("label"))) {
					break
				}
			}
		}
		e.Stack = p.framesAbove(at.Start, at.Get("label"))
		p.bare = append(p.bare, e)
	}
}

// launching are the places of launchers: what they raise tells of a process of theirs.
var launching = regexp.MustCompile(`runpy|torch/distributed/(?:run|launch|elastic)|accelerate/commands|accelerate_cli|deepspeed/launcher|multiprocessing/(?:spawn|process)\.py|bin/\w+:|ray/_private`)

// crashFrame is a frame of Open MPI's handler of signals.
var crashFrame = regexp.MustCompile(`(?m)^\s*\[([\w.-]+):(\d+)\] \[ ?\d+\] \S+?\((\w+)[^)\n]*\)\[0x`)

// unfinished tells of tracebacks whose last line the log lacks, of processes of which no exception is known.
func (p *parser) unfinished() {
	if len(p.cutOff)+len(p.log.Exceptions)+len(p.log.Findings)+len(p.log.Ends) == 0 {
		if stack := p.framesAbove(len(p.text), ""); len(stack) > 1 { // The text ends within one of which it lacks the beginning too.
			p.cutOff = append(p.cutOff, Exception{Rank: p.rank, Local: -1, Order: len(p.text), Stack: stack})
		} else if m := crashFrame.FindSubmatch(p.text); m != nil {
			f := told.New(grammar.CutTraceback, "crashed in "+string(m[3])+"; the log lacks what ended it")
			f.Host, f.PID = string(m[1]), int(number(m[2]))
			p.log.Findings = append(p.log.Findings, f)
		}
	}
	for i := range p.cutOff {
		e := &p.cutOff[i]
		again := func(o Exception) bool { return o.Rank == e.Rank && o.Worker == e.Worker && o.PID == e.PID }
		if slices.ContainsFunc(p.log.Exceptions, again) || len(p.log.Findings) >= mostFindings {
			continue
		}
		f := e.finding()
		f.Kind, f.Rank, f.Says = grammar.CutTraceback, e.Rank, "raised an exception "+cutAt(e.Stack)+"; the log lacks what it says"
		p.log.Findings = append(p.log.Findings, f)
	}
}

// cutAt says where a traceback ends whose last line is not there.
func cutAt(stack []string) string { return "at " + cmp.Or(frames.Site(stack), stack[len(stack)-1]) }

// framesAbove gives the frames in the lines above one, as far as the text has them.
func (p *parser) framesAbove(start int, label string) []string {
	const lines, bytesBack = 80, 16 << 10
	var out []string
	text := p.text[max(0, start-bytesBack):start]
	for range lines {
		text = bytes.TrimSuffix(text, []byte{'\n'})
		i := bytes.LastIndexByte(text, '\n')
		line, mine := strings.CutPrefix(string(text[i+1:]), strings.TrimSpace(label))
		if m := fileLine.FindStringSubmatch(line); m != nil {
			out = append(out, fmt.Sprintf("%s (%s:%s)", m[3], m[1], m[2]))
		} else if !mine || strings.TrimSpace(line) == "" || line[0] != ' ' {
			break
		}
		if text = text[:i+1]; i < 0 {
			break
		}
	}
	slices.Reverse(out)
	return out
}

// complete adds the exceptions of which the text has the last line alone: the first of each process that none is known of.
func (p *parser) complete() {
	for i := range p.bare {
		e := &p.bare[i]
		again := func(o Exception) bool { return o.Rank == e.Rank && o.Worker == e.Worker && o.PID == e.PID }
		if !slices.ContainsFunc(p.log.Exceptions, again) && len(p.log.Exceptions) < mostExceptions && (e.Rank >= 0 || e.Worker != "" || len(p.log.Exceptions) == 0) {
			p.log.Exceptions = append(p.log.Exceptions, *e)
		}
	}
}

// dedented takes a block's indentation off its lines. Lines with less of it end the block.
func dedented(text []byte, indent string) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(indent))
		if !ok && len(bytes.TrimSpace(line)) > 0 {
			break
		}
		out = append(out, rest...)
	}
	return out
}

// read takes the lines of a traceback after its first. Lines of others may come between where its own have a label.
func (e *Exception) read(text, own string) bool {
	indent, code := -1, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if own != "" {
			i := strings.LastIndex(line, own)
			if i < 0 {
				continue
			}
			line = strings.TrimPrefix(line[i+len(own):], " ")
		}
		quoted := code
		code = false
		switch m := fileLine.FindStringSubmatch(line); {
		case strings.HasSuffix(line, tracebackStart) || chained.MatchString(line):
			return e.Class != "" // Of a chain the first is what happened.
		case m != nil && e.Class == "":
			indent = len(line) - len(strings.TrimLeft(line, " "))
			code = indent == 0 // Pastes lose the indentation: the next line is the source's, then.
			e.Stack = append(e.Stack, fmt.Sprintf("%s (%s:%s)", m[3], m[1], m[2]))
		case e.Class != "":
			if !e.more(line) {
				return true
			}
		case strings.TrimSpace(line) == "" || indent >= 0 && strings.HasPrefix(line, strings.Repeat(" ", indent)) && indent > 0 || line[0] == ' ' || line[0] == '\t':
		default:
			m := raised.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil && (quoted || strings.Trim(line, "^~ ") == "") {
				continue
			}
			if m == nil {
				return false // It ended otherwise than tracebacks do.
			}
			if call := rayCall.FindStringSubmatch(m[2]); call != nil { // What was raised there follows.
				e.PID, e.Stack, indent = int(number([]byte(call[1]))), nil, -1
				continue
			}
			e.Class, e.Message = m[1], m[2]
		}
	}
	return e.Class != ""
}

// more takes a further line of the message. Without a label nothing says where it ends: what follows directly counts.
func (e *Exception) more(line string) bool {
	const longest = 4 << 10
	if strings.TrimSpace(line) == "" || len(e.Message) > longest || launcherLine.MatchString(line) {
		return false
	}
	e.Message += "\n" + strings.TrimSpace(line)
	return true
}

// launcherLine begins what launchers say, in the newer and the older form of their logs.
var launcherLine = regexp.MustCompile(`^(?:[IWE]\d{4} \d\d:|(?:WARNING|ERROR|INFO):torch|\[\d{4}-\d\d-\d\d |=====|srun: )`)

// broken are parts of messages about communication that another process's end or absence breaks off.
var broken = []string{
	"Timed out waiting", "timed out", "Timeout", "timeout after", "Application timeout caused pair closure", "Connection closed by", "Connection reset by peer",
	"Connection refused", "Broken pipe", "Read error", "Write error", "socketPollConnect", "socketProgress", "ncclRemoteError", "ncclSystemError", "ncclInternalError",
	"NCCL communicator was aborted", "NCCL error", "remote process exited", "store->get(", "Failed to recv", "failed to recv", "recvValue failed", "sendBytes failed",
	"monitoredBarrier", "Detected mismatch between collectives", "op.preamble.length", "connectFullMesh failed", "clients joined", "store based barrier",
	"Watchdog caught collective operation timeout", "Some NCCL operations have failed or timed out",
}

// victims are classes of exceptions and words for endings that follow from another process's failure: communication that
// broke off, or the launcher that ends what is left.
var victims = []string{
	"gloo/transport/", "Hccl", "HCCL", "DistBackendError", "DistNetworkError", "DistStoreError", "NCCL", "ProcessGroup", "Watchdog", "watchdog", "SignalException", "KeyboardInterrupt", "ChildFailedError", "ProcessRaisedException", "CalledProcessError",
	"RendezvousConnectionError", "RendezvousTimeoutError", "EngineDeadError", "RPC call to ", "host not found: ", "initialization failed due to an exception in a background process",
	"DEADLINE_EXCEEDED", "UNAVAILABLE: ", "Engine core initialization failed", "Engine process failed to start", "could finish the model loading, but", "DeepEP error: timeout", "DeepEP error: CPU recv timeout", "SIGTERM", "SIGINT", "SIGHUP", "Detected mismatch between collectives", "monitoredBarrier", "connectFullMesh failed",
	"error code is 507048", "error code is 107020", "ACL stream synchronize failed", // Huawei's runtime: work on the device, such as HCCL's, took too long.
}

func containsAny(s string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

// Victim says that the exception follows from what another process did or did not do.
func (e *Exception) Victim() bool {
	if e.Trapped || containsAny(e.Class, victims) || containsAny(e.Message, victims) {
		return true
	}
	if len(e.Stack) > 0 && passesOn.MatchString(e.Stack[len(e.Stack)-1]) {
		return true
	}
	return e.communicates() && (containsAny(e.Message, broken) || e.Class == "RuntimeError" && !ofCall.MatchString(e.Message)) ||
		len(e.Stack) == 0 && containsAny(e.Message, broken)
}

// passesOn are places where a server, a driver or a launcher waits for its workers: what is raised there tells of a worker.
var passesOn = regexp.MustCompile(`(?:shm_broadcast|core_client|multiproc_executor|multiproc_worker_utils|ray_distributed_executor|ray_executor\w*)\.py|ray/_private/|elastic/rendezvous/|paddle/distributed/(?:launch|utils)\b`)

// ofCall is in messages that refuse a call for its arguments, or tell of the rank's own GPU. Another RuntimeError inside communication
// is a library's word that the operation failed, which may be another rank's doing.
var ofCall = regexp.MustCompile(`(?i)must|expect|should|invalid|support|no backend|not (?:implemented|initialized|enough)|shape|size|dtype|type|device|cuda|hip|memory|tensor`)

// communicates says that it was raised inside communication.
func (e *Exception) communicates() bool {
	k := frames.Of(e.Stack).Kind
	return k == frames.Communicate || k == frames.Backward
}
