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
)

// mostFindings of a log are kept: what comes later follows from them.
const mostFindings = 4096

// find takes a message that says something by itself.
func (p *parser) find(e *grammar.Event) {
	if len(p.log.Findings) >= mostFindings {
		return
	}
	f := told.New(e.Kind, cut(e.Words()))
	f.Rank, f.Local, f.PID = e.Int("rank"), e.Int("local"), max(e.Int("pid"), e.Int("id2"), e.Int("id3"), 0)
	f.Host = unlabelled(cmp.Or(e.Get("host"), e.Get("host2"), e.Get("host3"), e.Get("shipper")))
	f.GPU, f.Worker, f.Peer, f.Port, f.Order = cmp.Or(e.Get("gpu"), e.Get("dev")), e.Get("worker"), e.Get("peer"), e.Get("port"), e.At
	if e.Kind == grammar.GPUHardware || e.Kind == grammar.LinkHardware || e.Kind == grammar.GPUProgram || e.Kind == grammar.Warning {
		f.Bus = e.Get("bus")
	}
	p.shape(&f, e)
	if (told.Own(e.Kind) || e.Get("worker_pid") != "") && f.Rank < 0 && f.Local < 0 && f.PID == 0 && f.Worker == "" && len(f.Tasks) == 0 {
		p.ofSpeaker(&f, e)
	}
	if f.Rank >= maxRank || e.Kind == grammar.Warning && p.again(&f, e) {
		return
	}
	if list := ranks(e.Get("ranks")); len(list) > 0 {
		for _, r := range list {
			one := f
			one.Rank = r
			p.log.Findings = append(p.log.Findings, one)
		}
		return
	}
	p.log.Findings = append(p.log.Findings, f)
}

// again reports whether its process has warned before: what comes later follows from the first.
func (p *parser) again(f *told.Finding, e *grammar.Event) bool {
	key := warning{e.Row, f.Host, f.Bus, f.PID, f.Rank}
	at, known := p.warned[key]
	switch {
	case !known:
		p.warned[key] = len(p.log.Findings)
	case at < len(p.log.Findings) && f.Fails() && !p.log.Findings[at].Fails():
		p.log.Findings[at] = *f
	}
	return known
}

type warning struct {
	row       *grammar.Row
	host, bus string
	pid, rank int
}

// firstFailure takes the line that names a failure best, where nothing that is known says why the job ended or stands.
func (p *parser) firstFailure(events []grammar.Event) {
	decided := slices.ContainsFunc(p.log.Exceptions, func(e Exception) bool { return !e.Victim() }) ||
		slices.ContainsFunc(p.log.Ends, func(e End) bool {
			return !isVictim(e.Why) && !strings.HasPrefix(e.Why, exited) && !strings.Contains(e.Why, "SIGABRT")
		}) ||
		slices.ContainsFunc(p.log.Findings, func(f told.Finding) bool { return told.Decides(f.Kind) })
	if decided {
		return
	}
	next := 0 // Events are in the order of the text, as lines are.
	failed, ok := grammar.FirstFailure(p.text, func(start, end int) bool {
		for next < len(events) && events[next].At < start {
			next++
		}
		for i := next; i < len(events) && events[i].At < end; i++ {
			if !events[i].Kind.Bare() {
				return true
			}
		}
		return false
	})
	others := len(p.log.Exceptions) + len(p.log.States) + len(p.log.Losses) + len(p.cutOff)
	if !ok || failed.Follows && others > 0 || failed.Weak() && others+len(p.log.Ends)+len(p.log.Findings) > 0 {
		return
	}
	f := told.New(grammar.FirstFailed, `reported: "`+cut(failed.Text)+`"`)
	f.Quoted = true
	if failed.Follows {
		f.Kind = grammar.BrokenOff
	}
	f.Order = failed.At
	p.withTraceback(&f)
	e := grammar.Event{Row: &grammar.Row{Kind: f.Kind}, At: failed.At, Start: failed.At}
	if i := bytes.IndexByte(p.text[failed.At:], '\n'); i >= 0 {
		e.At += i
	}
	p.ofSpeaker(&f, &e)
	if f.Rank < maxRank {
		p.log.Findings = append(p.log.Findings, f)
	}
}

// withTraceback adds where a traceback ends that begins at the line which names a failure, and of which the log lacks the message.
func (p *parser) withTraceback(f *told.Finding) {
	const near = 2 << 10 // Bytes.
	i := slices.IndexFunc(p.log.Findings, func(o told.Finding) bool {
		return o.Kind == grammar.CutTraceback && o.Order >= f.Order && o.Order < f.Order+near
	})
	if i >= 0 {
		f.Says += "; the traceback after it, which is cut off, ends " + cutAt(p.log.Findings[i].Stack)
		p.log.Findings = slices.Delete(p.log.Findings, i, i+1)
	}
}

// ofSpeaker gives a finding to the process whose line it is.
func (p *parser) ofSpeaker(f *told.Finding, e *grammar.Event) {
	who, ok := p.speaker(e.At)
	if ok || who.rank >= 0 {
		f.Rank = who.rank
		return
	}
	line := p.text[e.Start:e.At]
	goesOn := e.Kind == grammar.RemoteError || e.Kind == grammar.NCCLError // These stand below the line that has the rank.
	if r := p.above(e.Start); goesOn && r >= 0 && !bytes.Contains(line, []byte("[proc ")) {
		f.Rank = r
		return
	}
	if m := last(grammar.ProcLabel, line); m != nil {
		f.Worker, f.PID = string(m[1]), max(int(number(m[2])), 0)
		return
	}
	if f.Host == "" {
		if m := last(ncclHead, line); m != nil {
			f.Host, f.PID, f.GPU = unlabelled(string(m[1])), int(number(m[2])), string(m[3])
			return
		}
	}
	if r, ok := p.raisedIn(e); ok {
		f.Rank = r
		return
	}
	const back = 16 << 10
	if m := rayCall.FindAllSubmatch(p.text[max(0, e.Start-back):e.Start], -1); m != nil && f.Host == "" && f.PID == 0 {
		f.PID, f.Host = int(number(m[len(m)-1][1])), string(m[len(m)-1][2])
		return
	}
	if e.At > p.within.from && e.At < p.within.to { // The message of an exception, whose label stands at its traceback.
		x := &p.log.Exceptions[p.within.exception]
		f.Rank, f.Local, f.PID, f.Worker = x.Rank, x.Local, x.PID, x.Worker
	}
}

// above gives the rank of the message to which an unlabelled line belongs: that of one of the few lines above it; -1 unknown.
func (p *parser) above(start int) int {
	const lines, bytesBack = 6, 2 << 10
	text := p.text[max(0, start-bytesBack):start]
	for range lines {
		text = bytes.TrimSuffix(text, []byte{'\n'})
		i := bytes.LastIndexByte(text, '\n')
		line := text[i+1:]
		if m := last(grammar.RankLabel, line); m != nil {
			return int(number(m[1]))
		}
		if i < 0 || len(bytes.TrimSpace(line)) == 0 || bytes.HasPrefix(line, []byte("Traceback")) {
			break
		}
		text = text[:i+1]
	}
	return -1
}

var (
	ncclHead = regexp.MustCompile(`(\S+?):(\d+):\d+ \[(\d+)\] `)
	// aboutRank begins the message of an exception that names its rank.
	aboutRank   = regexp.MustCompile(`^\s*\[?[Rr]ank[ :=]*(\d+)\b[\]:,]`)
	stragglerID = regexp.MustCompile(`rank=(\d+)`)
	taskPart    = regexp.MustCompile(`task:(\d+)`)
	// rayCall begins what Ray shows of a call that failed elsewhere.
	rayCall   = regexp.MustCompile(`ray::[^\n]*?\(pid=(\d+), ip=([\d.]+)`)
	addressed = regexp.MustCompile(`([\w.%-]+(?:\.[\w.%-]+)*?|[0-9a-f:]+)<(\d+)>`)
)

// raisedIn gives the rank of an exception in which a message stands.
func (p *parser) raisedIn(e *grammar.Event) (int, bool) {
	line := string(p.text[e.Start:e.At])
	if _, message, ok := strings.Cut(line, "Error: "); ok {
		if m := aboutRank.FindStringSubmatch(message); m != nil {
			return int(number([]byte(m[1]))), true
		}
	}
	return -1, false
}

// shape puts into words what no template can.
func (p *parser) shape(f *told.Finding, e *grammar.Event) {
	switch e.Kind {
	case grammar.ProcessEnd, grammar.OneOfHost:
		code := e.Get("code")
		if status := e.Int("status"); status > 0 { // As waitpid gives it.
			if code = fmt.Sprint(status >> 8); status&0x7f != 0 {
				code = fmt.Sprint(-(status & 0x7f))
			}
		}
		if name := e.Get("signame"); name != "" {
			code = told.SignalCode(name)
		} else if what := e.Get("what"); what != "" {
			code = told.SignalCode(what)
		} else if n := e.Get("signal"); n != "" {
			code = "-" + n
		}
		f.Kind, f.Says = told.End(e.Kind, code)
		if command := e.Get("command"); command != "" {
			f.Says = strings.Replace(f.Says, "ended", "ran \""+cut(command)+"\", which ended", 1)
		}
	case grammar.LinkHardware:
		if strings.Contains(e.Get("what"), "Nonfatal") {
			f.Kind = grammar.Warning
		}
	case grammar.Slower:
		for _, m := range stragglerID.FindAllStringSubmatch(e.Get("who"), most) {
			f.Tasks = append(f.Tasks, int(number([]byte(m[1]))))
		}
	case grammar.HostMemory:
		f.Tasks = spans(e.Get("task"))
	case grammar.LauncherSignal:
		f.Says, f.Whole = told.LauncherSignalled(cmp.Or(e.Get("signal"), e.Get("signal2"))), true
	case grammar.Leftovers:
		f.Kind, f.Says = told.Barrier(e.Int("have"), e.Int("of"))
		f.By, f.Rank, f.Whole = f.Rank, -1, true
	case grammar.ClientsMissing:
		f.By, f.Whole = f.Rank, true
	case grammar.Awaited:
		var tasks []int
		for _, m := range taskPart.FindAllStringSubmatch(e.Get("tasks"), most) {
			tasks = append(tasks, int(number([]byte(m[1]))))
		}
		if tasks = told.Set(tasks); len(tasks) == 0 {
			return
		}
		f.Says, f.Whole = fmt.Sprintf("barrier %s%s timed out: task:%s did not come", e.Get("id"), e.Get("id2"), told.Spans(tasks)), true
		if e.Get("of") != "" {
			f.Says += fmt.Sprintf(", %s of %s tasks came", e.Get("have"), e.Get("of"))
		}
	case grammar.SameGPU:
		f.Rank, f.Tasks, f.Plural, f.Says = -1, []int{e.Int("a"), e.Int("b")}, f.Says, "has the GPU of another rank (CUDA device "+e.Get("bus")+")"
	case grammar.ForeignClient:
		f.Says += told.Magic(e.Get("magic"))
	case grammar.RemoteError, grammar.NCCLError:
		if what := e.Get("what") + e.Get("class"); strings.Contains(what, "nvalid") {
			f.Kind = grammar.NCCLUsage
		}
		last := strings.TrimSpace(e.Get("last"))
		if m := addressed.FindStringSubmatch(last); m != nil {
			f.Peer, f.Port = m[1], m[2]
		}
	case grammar.Returned:
		f.Says = strings.Replace(f.Says, "with code "+e.Get("code"), "("+told.NCCLResult(e.Int("code"))+")", 1)
	case grammar.NetworkError:
		if nic := e.Get("nic"); nic != "" {
			f.Says += " of its NIC " + nic
		}
	case grammar.LibraryWaits:
		deepEP(f, e)
	case grammar.PortTaken:
		port := cmp.Or(e.Get("port"), e.Get("port2"))
		f.Says = strings.ReplaceAll(f.Says, " port :", " port:")
		if port != "" && port != "0" {
			f.Port = port
			f.Says = "cannot open the store's port " + port + ": another process uses it"
		}
	case grammar.StoreUnreached, grammar.Connect:
		f.Says = strings.Replace(f.Says, "(failed to connect)", "(connection refused or no route)", 1)
	case grammar.HostLost, grammar.TimeLimit, grammar.Preempted, grammar.Cancelled, grammar.Evicted:
		if f.Whole = f.Host == "" && f.Worker == ""; f.Whole {
			f.Says = "the job " + f.Says
		}
	}
}

// deepEP gives the ranks of a time-out of DeepEP: its RDMA rank counts hosts, of eight processes each (NUM_MAX_NVL_PEERS).
func deepEP(f *told.Finding, e *grammar.Event) {
	const peers = 8
	host, place := e.Int("rdma"), e.Int("nvl")
	if host < 0 || place < 0 || place >= peers {
		return
	}
	f.Rank = host*peers + place
	switch from, at := e.Int("rdma2"), e.Int("nvl2"); {
	case from == host && at >= 0 && at < peers:
		f.Says, f.Plural = fmt.Sprintf("timed out in DeepEP, waiting for rank %d", from*peers+at), "timed out in DeepEP, waiting for other ranks of their host"
	case from >= 0 && from != host:
		f.Says = fmt.Sprintf("timed out in DeepEP, waiting for host %d of the job (its ranks %d-%d)", from, from*peers, from*peers+peers-1)
	}
}
