// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package pyspy reads stacks that py-spy took: `py-spy dump` as text or JSON, and folded stacks (`py-spy record -f raw`).
package stackdump

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNotStacks is given for what none of the tools wrote.
var ErrNotStacks = errors.New("no stacks")

// Process holds the stacks of one process.
type Process struct {
	File    string
	PID     int // 0 unknown.
	Command string
	Rank    int    // As the process's own environment says, or its arguments in a communicator's start; -1 unknown.
	World   int    // Ranks of that communicator; 0 unknown.
	Named   bool   // The tool calls a main thread by that name, so that its lack shows.
	Starts  string // The function of a communicator's start that it is in.
	Threads []Thread
}

// Thread is one thread's stack.
type Thread struct {
	ID     string
	OS     int // The kernel's number of it, as its process knows it; 0 unknown.
	Name   string
	Active bool
	GIL    bool     // It holds the interpreter's lock.
	Stack  []string // "function (file:line)", innermost last.
	Weight int64    // Samples, of folded stacks; 1 otherwise.
	// outermostFirst is the order in which the tool printed the frames.
	outermostFirst bool
}

// mainThread is how py-spy calls the thread that runs the program.
const mainThread = "MainThread"

const (
	maxThreads = 1 << 16
	maxFrames  = 512
)

var (
	// Ray's `stack` of old wrote a line of ps before each process's.
	reProcess = regexp.MustCompile(`^(?:Process |Stack dump for \S+ +)(\d+)(?:: ?| +\d+\.\d )(.*)$`)
	reThread  = regexp.MustCompile(`^Thread (\S+) \(([^)]*)\)(?:: "(.*)")?\s*$`)
	reFrame   = regexp.MustCompile(`^\s+(\S.*) \((.+?)(?::(\d+))?\)\s*$`)
	reFolded  = regexp.MustCompile(`^(\S.*\S) (\d+)$`)
	reRoot    = regexp.MustCompile(`^process (\d+):"?(.*?)"?$`)
)

// Sniff recognises any of the forms.
func Sniff(data []byte) bool {
	head := data[:min(len(data), 8<<10)]
	return jsonLike(head) || dumpLike(head) || toolLike(head) || foldedLike(head) || mergedLike(head) || flameLike(data)
}

func jsonLike(head []byte) bool {
	b := bytes.TrimSpace(head)
	return len(b) > 0 && b[0] == '[' && bytes.Contains(head, []byte(`"frames"`)) && bytes.Contains(head, []byte(`"thread_id"`))
}

var within = regexp.MustCompile(`(?m)^(?:Thread \S+ \((?:active|idle)[^)\n]*\)(?:: ".*")?|(?:Current thread|Thread) 0x[0-9a-f]+(?: \[[^\]\n]*\])? \(most recent call first\):)\s*$`)

// Within recognises a log in which stacks stand somewhere, as servers print them when they lose patience. The text is without what
// collectors put around its lines.
func Within(text []byte) bool {
	return bytes.Contains(text, []byte("Thread ")) && within.Match(text) || bytes.Contains(text, []byte("Current thread 0x")) && within.Match(text)
}

func dumpLike(head []byte) bool {
	threads := false
	for line := range bytes.Lines(head) {
		if reProcess.Match(bytes.TrimRight(line, "\r\n")) {
			return true
		}
		threads = threads || reThread.Match(bytes.TrimRight(line, "\r\n"))
	}
	return threads
}

// foldedLike: every line is frames with places, separated by semicolons, and a count.
func foldedLike(head []byte) bool {
	lines, good := 0, 0
	for line := range bytes.Lines(head) {
		if line[len(line)-1] != '\n' && lines > 0 {
			break // Cut by the head's end.
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		lines++
		if m := reFolded.FindSubmatch(line); m != nil && bytes.Contains(m[1], []byte("(")) && (bytes.Contains(m[1], []byte(".py:")) || bytes.Contains(m[1], []byte(";"))) {
			good++
		}
	}
	return lines > 0 && good == lines
}

// Parse reads stacks of one or several processes.
func Parse(file string, data []byte) ([]Process, error) {
	head := data[:min(len(data), 8<<10)]
	if jsonLike(head) && !toolLike(head) {
		return parseJSON(file, bytes.TrimSpace(data))
	}
	if dumpLike(head) {
		return parseDump(file, data)
	}
	if toolLike(head) {
		return parseTools(file, data)
	}
	switch {
	case mergedLike(head):
		return parseMerged(file, data)
	case flameLike(data):
		return parseFlame(file, data)
	}
	if foldedLike(head) {
		return parseFolded(file, data)
	}
	if faultsIn.Match(data) {
		return parseTools(file, data)
	}
	return parseDump(file, data)
}

// faultsIn are dumps of Python's faulthandler in a log.
var faultsIn = regexp.MustCompile(`(?m)^(?:Current thread|Thread) 0x[0-9a-f]+(?: \[[^\]\n]*\])? \(most recent call first\):`)

func parseDump(file string, data []byte) ([]Process, error) {
	var out []Process
	rank := -1 // People put the process's environment before its stack.
	open := false
	for raw := range bytes.Lines(data) {
		line := strings.TrimRight(string(raw), "\r\n")
		if m := reProcess.FindStringSubmatch(line); m != nil {
			pid, _ := strconv.Atoi(m[1])
			out = append(out, Process{File: file, PID: pid, Command: m[2], Rank: rank, Named: true})
			open = false
			continue
		}
		if m := reThread.FindStringSubmatch(line); m != nil {
			if len(out) == 0 {
				out = append(out, Process{File: file, Rank: rank, Named: true})
			}
			p := &out[len(out)-1]
			if len(p.Threads) < maxThreads {
				p.Threads = append(p.Threads, Thread{
					ID: m[1], Name: m[3], Weight: 1, Active: strings.Contains(m[2], "active"), GIL: strings.Contains(m[2], "gil"),
				})
			}
			open = true
			continue
		}
		if m := reFrame.FindStringSubmatch(line); m != nil && open {
			p := &out[len(out)-1]
			if n := len(p.Threads); n > 0 && len(p.Threads[n-1].Stack) < maxFrames {
				p.Threads[n-1].Stack = append(p.Threads[n-1].Stack, frame(m[1], m[2], m[3]))
			}
			continue
		}
		open = open && strings.HasPrefix(line, " ") // Locals stand below their frame; whatever else does ends the stack.
		if r := hinted(line); r >= 0 {
			if rank = r; len(out) == 1 {
				out[0].Rank = r
			}
		}
	}
	if !slices.ContainsFunc(out, func(p Process) bool { return len(p.Threads) > 0 }) {
		return nil, ErrNotStacks
	}
	for i := range out {
		for j := range out[i].Threads {
			slices.Reverse(out[i].Threads[j].Stack)
		}
	}
	return out, nil
}

func frame(name, file, line string) string {
	if line == "" {
		return fmt.Sprintf("%s (%s)", name, file)
	}
	return fmt.Sprintf("%s (%s:%s)", name, file, line)
}

type jsonThread struct {
	PID    int    `json:"pid"`
	ID     uint64 `json:"thread_id"`
	OS     int    `json:"os_thread_id"`
	Name   string `json:"thread_name"`
	Active bool   `json:"active"`
	GIL    bool   `json:"owns_gil"`
	Frames []struct {
		Name  string `json:"name"`
		File  string `json:"filename"`
		Short string `json:"short_filename"`
		Line  int    `json:"line"`
	} `json:"frames"`
}

func parseJSON(file string, data []byte) ([]Process, error) {
	var threads []jsonThread
	if err := json.Unmarshal(data, &threads); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	var out []Process
	for _, j := range threads {
		i := slices.IndexFunc(out, func(p Process) bool { return p.PID == j.PID })
		if i < 0 {
			i = len(out)
			out = append(out, Process{File: file, PID: j.PID, Rank: -1})
		}
		t := Thread{ID: strconv.FormatUint(j.ID, 10), OS: j.OS, Name: j.Name, Active: j.Active, GIL: j.GIL, Weight: 1}
		for _, f := range slices.Backward(j.Frames[:min(len(j.Frames), maxFrames)]) {
			t.Stack = append(t.Stack, frame(f.Name, cmp.Or(f.Short, f.File), strconv.Itoa(f.Line)))
		}
		if len(out[i].Threads) < maxThreads {
			out[i].Threads = append(out[i].Threads, t)
		}
	}
	if len(out) == 0 {
		return nil, ErrNotStacks
	}
	return out, nil
}

func parseFolded(file string, data []byte) ([]Process, error) {
	var out []Process
	at := map[int]int{}
	for raw := range bytes.Lines(data) {
		m := reFolded.FindStringSubmatch(strings.TrimSpace(string(raw)))
		if m == nil {
			continue
		}
		frames := strings.Split(m[1], ";")
		weight, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil || len(frames) > maxFrames || !strings.Contains(m[1], "(") {
			continue
		}
		pid, name := 0, ""
		for len(frames) > 0 {
			if root := reRoot.FindStringSubmatch(frames[0]); root != nil {
				pid, _ = strconv.Atoi(root[1])
			} else if rest, ok := strings.CutPrefix(frames[0], "thread "); ok {
				name = rest
			} else {
				break
			}
			frames = frames[1:]
		}
		i, ok := at[pid]
		if !ok {
			i = len(out)
			at[pid] = i
			out = append(out, Process{File: file, PID: pid, Rank: -1})
		}
		if len(out[i].Threads) < maxThreads {
			out[i].Threads = append(out[i].Threads, Thread{Name: name, Active: true, Stack: frames, Weight: weight})
		}
	}
	if len(out) == 0 {
		return nil, ErrNotStacks
	}
	return out, nil
}

// Main gives the stack that says what the process does: that of the main thread, else of the busiest.
func (p *Process) Main() []string {
	best, score := -1, int64(-1)
	if p.cut() {
		return nil
	}
	for i := range p.Threads {
		t := &p.Threads[i]
		if t.watches() {
			continue
		}
		s := min(t.Weight, 1<<32) * 8
		if strings.Contains(t.Name, mainThread) {
			s += 1 << 40
		}
		if len(t.Stack) > 0 && strings.HasPrefix(t.Stack[0], "<module>") {
			s += 1 << 39 // Only the main thread runs the program's file.
		}
		if t.GIL {
			s += 4
		}
		if t.Active {
			s += 2
		}
		if len(t.Stack) > 0 && s > score {
			best, score = i, s
		}
	}
	if best < 0 {
		return nil
	}
	return p.Threads[best].Stack
}

// cut reports whether the stack of the main thread is not there: all threads have names, and none is its. What a side thread does
// says nothing of the rank.
func (p *Process) cut() bool {
	side := func(t Thread) bool { return len(t.Stack) > 0 && begunByLibrary.MatchString(t.Stack[0]) }
	if len(p.Threads) > 0 && !slices.ContainsFunc(p.Threads, func(t Thread) bool { return !side(t) }) {
		return true
	}
	for i := range p.Threads {
		if t := &p.Threads[i]; t.Name == "" || strings.Contains(t.Name, mainThread) || t.outermostFirst || len(t.Stack) > 0 && strings.HasPrefix(t.Stack[0], "<module>") {
			return false
		}
	}
	return p.Named && len(p.Threads) > 0
}

// begunByLibrary is the outermost frame of native threads that a program starts.
var begunByLibrary = regexp.MustCompile(`^(?:start_thread|(?:__)?clone3?) \(`)

// watches reports whether a thread is the one that takes the stacks.
func (t *Thread) watches() bool {
	return slices.ContainsFunc(t.Stack, func(f string) bool {
		return strings.HasPrefix(f, "pyspy_dump") || strings.HasPrefix(f, "dump_traceback")
	})
}
