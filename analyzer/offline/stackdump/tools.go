// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stackdump

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Other tools print a line for each thread and one for each frame: Python's faulthandler, gdb (thread apply all bt, py-bt),
// pystack and eu-stack.

var (
	faultThread = regexp.MustCompile(`^(?:Current thread|Thread) (0x[0-9a-f]+)(?: \[([^\]]*)\])? \(most recent call first\):\s*$`)
	gdbThread   = regexp.MustCompile(`^Thread (\d+) \((?:Thread 0x[0-9a-f]+ )?\(?LWP (\d+)\)?(?: "([^"]*)")?\)*(?: \(Exiting\))?:?\s*$`)
	pyBacktrace = regexp.MustCompile(`^Traceback \(most recent call first\):\s*$`)
	pystackHead = regexp.MustCompile(`^Traceback for thread (\d+)(?: \(([^)]*)\))?(.*?)\(most recent call last\):\s*$`)
	euThread    = regexp.MustCompile(`^TID (\d+):\s*$`)

	pythonLine  = regexp.MustCompile(`^\s+File "([^"]+)", line (\d+),? in (.+?)\s*$`)
	pystackLine = regexp.MustCompile(`^\s+\((Python|C)\) File "([^"]+)", line (\d+), in (.+?)\s*$`)
	gdbPython   = regexp.MustCompile(`^#\d+ +(?:\(frame information optimized out\)|Frame 0x[0-9a-f]+, for file ([^,]+), line (\d+), in ([^ (]+).*)$`)
	gdbLine     = regexp.MustCompile(`^#\d+\s+(?:0x[0-9a-f]+ in )?(\S.*?) \(.*?\)(?: from (\S+)| at (\S+?):(\d+))?\s*$`)
	euLine      = regexp.MustCompile(`^#\d+\s+0x[0-9a-f]+(?:\s+-)?\s+([^\s/]\S*)(?:\s+- (\S+))?.*$`)

	euProcess  = regexp.MustCompile(`^PID (\d+)\b`)
	gdbProcess = regexp.MustCompile(`(?:Attaching to (?:program: .*, )?process|\[Inferior 1 \(process) (\d+)`)
	rankValue  = regexp.MustCompile(`(?:^|[\s'"])RANK=(\d+)\b`)
	// startFrame is a frame of gdb's inside a communicator's start, which has the rank among its arguments.
	startFrame = regexp.MustCompile(`\b(bootstrapInit|ncclCommInit\w*|initTransportsRank|ncclBootstrapInit|commAlloc)\b \(.*?\)(?: at | from |$)`)
	startRank  = regexp.MustCompile(`\b(?:my)?[rR]ank=(?:\w+@entry=)?(\d+)`)
	startSize  = regexp.MustCompile(`\bn[rR]anks=(?:\w+@entry=)?(\d+)`)
	localFlag  = regexp.MustCompile(`--local[_-]rank[= ](\d+)\b`)
)

// toolLike: more than half of the lines are those of threads and frames, so that a log in which a dump stands is none.
func toolLike(head []byte) bool {
	threads, known, lines := 0, 0, 0
	below := false // A frame: some tools quote its source.
	for raw := range bytes.Lines(head) {
		line := string(bytes.TrimRight(raw, "\r\n"))
		if strings.TrimSpace(line) == "" {
			continue
		}
		lines++
		switch {
		case threadLine(line) != nil:
			threads++
			known++
		case frameLine(line) != nil, emptyStack[strings.TrimSpace(line)], below && strings.HasPrefix(line, "    "):
			known++
		default:
			below = false
			continue
		}
		below = true
	}
	return threads > 0 && 2*known > lines
}

// emptyStack are faulthandler's words about threads that run no Python code.
var emptyStack = map[string]bool{"<no Python frame>": true, "Garbage-collecting": true}

// threadLine reads the line that begins a thread.
func threadLine(line string) *Thread {
	if m := faultThread.FindStringSubmatch(line); m != nil {
		return &Thread{ID: m[1], Name: m[2], Weight: 1, Active: strings.HasPrefix(line, "Current")}
	}
	if m := gdbThread.FindStringSubmatch(line); m != nil {
		t := &Thread{ID: m[2], Name: m[3], Weight: 1}
		if m[1] == "1" {
			t.Name = mainThread
		}
		return t
	}
	if m := pystackHead.FindStringSubmatch(line); m != nil {
		return &Thread{ID: m[1], Name: m[2], Weight: 1, GIL: strings.Contains(m[3], "Has the GIL"), outermostFirst: true}
	}
	if m := euThread.FindStringSubmatch(line); m != nil {
		return &Thread{ID: m[1], Weight: 1}
	}
	if pyBacktrace.MatchString(line) {
		return &Thread{Weight: 1, Active: true}
	}
	return nil
}

// placed is a frame of which the tool tells the place.
type placed struct{ text string }

func frameLine(line string) *placed {
	if m := pythonLine.FindStringSubmatch(line); m != nil {
		return &placed{frame(m[3], m[1], m[2])}
	}
	if m := pystackLine.FindStringSubmatch(line); m != nil {
		return &placed{frame(m[4], m[2], m[3])}
	}
	if m := gdbPython.FindStringSubmatch(line); m != nil {
		if m[1] == "" {
			return &placed{}
		}
		return &placed{frame(m[3], m[1], m[2])}
	}
	if m := gdbLine.FindStringSubmatch(line); m != nil {
		return &placed{frame(m[1], cmp.Or(m[2], m[3], "?"), m[4])}
	}
	if m := euLine.FindStringSubmatch(line); m != nil {
		return &placed{frame(m[1], cmp.Or(m[2], "?"), "")}
	}
	return nil
}

func parseTools(file string, data []byte) ([]Process, error) {
	var out []Process
	add := func(pid int) *Process {
		out = append(out, Process{File: file, PID: pid, Rank: -1})
		return &out[len(out)-1]
	}
	rank := -1
	for raw := range bytes.Lines(data) {
		line := strings.TrimRight(string(raw), "\r\n")
		if m := euProcess.FindStringSubmatch(line); m != nil {
			add(atoi(m[1]))
			continue
		}
		if m := gdbProcess.FindStringSubmatch(line); m != nil {
			if len(out) == 0 || len(out[len(out)-1].Threads) > 0 {
				add(atoi(m[1]))
			}
			continue
		}
		if t := threadLine(line); t != nil {
			if len(out) == 0 {
				add(0)
			}
			p := &out[len(out)-1]
			if t.Name == mainThread && p.PID == 0 {
				p.PID = atoi(t.ID) // gdb's first thread is the process.
			}
			if t.ID != "" && p.PID != 0 && t.ID == strconv.Itoa(p.PID) {
				t.Name = mainThread
			}
			if len(p.Threads) < maxThreads {
				p.Threads = append(p.Threads, *t)
			}
			continue
		}
		if f := frameLine(line); f != nil && len(out) > 0 {
			out[len(out)-1].starting(line)
			if p := &out[len(out)-1]; f.text != "" && len(p.Threads) > 0 {
				if t := &p.Threads[len(p.Threads)-1]; len(t.Stack) < maxFrames {
					t.Stack = append(t.Stack, f.text)
				}
			}
			continue
		}
		rank = max(rank, hinted(line))
	}
	if !slices.ContainsFunc(out, func(p Process) bool { return len(p.Threads) > 0 }) {
		return nil, ErrNotStacks
	}
	for i := range out {
		if len(out) == 1 && rank >= 0 {
			out[i].Rank = rank
		}
		for j := range out[i].Threads {
			if t := &out[i].Threads[j]; !t.outermostFirst {
				slices.Reverse(t.Stack)
			}
		}
	}
	return out, nil
}

// hinted gives the rank that the process's environment or command line names; -1 none.
func hinted(line string) int {
	if m := rankValue.FindStringSubmatch(line); m != nil {
		return atoi(m[1])
	}
	return -1
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// starting takes rank and size from the arguments of a communicator's start. Frames that differ are of several communicators.
func (p *Process) starting(line string) {
	m := startFrame.FindStringSubmatch(line)
	rank, size := startRank.FindStringSubmatch(line), startSize.FindStringSubmatch(line)
	if m == nil || rank == nil || size == nil {
		return
	}
	r, n := atoi(rank[1]), atoi(size[1])
	if p.Starts != "" && (p.Rank != r || p.World != n) || r >= n {
		p.Starts = ""
		return
	}
	if p.Starts == "" {
		p.Starts = m[1]
	}
	p.Rank, p.World = r, n
}
