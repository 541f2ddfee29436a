// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadDir reads the files that the recorder wrote into a folder, one a process, in the order of their names. A last
// line without its end is left out: the job may still be writing.
func ReadDir(dir string) ([]*Process, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, fmt.Errorf("looking for recordings: %w", err)
	}
	slices.SortFunc(files, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b) // rank.10 behind rank.9.
		}
		return strings.Compare(a, b)
	})
	var found []*Process
	for _, file := range files {
		p, err := ReadFile(file)
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no recording in %s", dir)
	}
	align(found)
	return found, nil
}

// ReadFile reads the file of one process.
func ReadFile(file string) (*Process, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a recording: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	p := newProcess(strings.TrimSuffix(filepath.Base(file), ".log"))
	r := reader{process: p}
	for line := range strings.Lines(string(text)) {
		if err := r.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, line, err)
		}
	}
	return p, nil
}

// align puts the processes and their GPUs on one time axis. They ran on one machine, under one clock.
func align(processes []*Process) {
	first := processes[0].Opened
	for _, p := range processes {
		if p.Opened.Before(first) {
			first = p.Opened
		}
	}
	for _, p := range processes {
		p.Offset = p.Opened.Sub(first)
		for _, c := range p.Calls {
			c.align(first)
		}
	}
}

// align takes the wall clock's start from a GPU's time. 0 and "-" say that there is none.
func (c *Call) align(first time.Time) {
	ns := c.Timer()
	if ns == 0 {
		return
	}
	text := strconv.FormatInt(int64(ns)-first.UnixNano(), 10)
	switch {
	case c.Verb == Start:
		c.Fields["timer"] = text
	case c.Name == "KernelChStop":
		c.Value = text
	}
}

// reader reads the lines of one process. Times are nanoseconds since time 0 or, in a stored recording, "+" and the
// microseconds since the line before. Handles are numbers or, in a stored recording, "." for the next one and "^N" for
// the one that was started N starts before the last.
type reader struct {
	process *Process
	now     time.Duration
	last    int // Handle of the last start.
}

var errShort = errors.New("too few words")

func (r *reader) line(line string) error {
	words := strings.Fields(line)
	if len(words) < 3 {
		return errShort
	}
	if err := r.time(words[0]); err != nil {
		return err
	}
	thread, err := strconv.Atoi(words[1])
	if err != nil {
		return fmt.Errorf("thread: %w", err)
	}
	c := &Call{Time: r.now, Thread: thread, Verb: words[2]}
	words = words[3:]
	switch c.Verb {
	case "open":
		return r.open(words)
	case "thread":
		r.process.Threads[thread] = strings.Join(words, " ")
		return nil
	case Finalize:
		if len(words) != 1 {
			return errShort
		}
		words[0] = "ctx=" + words[0]
	case Start, State, Again, Stop:
		if words, err = r.handle(c, words); err != nil {
			return err
		}
	}
	if err := c.fields(words); err != nil {
		return err
	}
	return r.add(c)
}

// add links a call; a broken number in it is the file's fault.
func (r *reader) add(c *Call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	r.process.add(c)
	return nil
}

func (r *reader) time(word string) error {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return fmt.Errorf("time: %w", err)
	}
	if word[0] == '+' || word[0] == '-' {
		r.now += time.Duration(n) * time.Microsecond
	} else {
		r.now = time.Duration(n)
	}
	return nil
}

// open starts a file, or a further piece of it: a plugin that is loaded again appends.
func (r *reader) open(words []string) error {
	c := &Call{}
	if err := c.fields(words); err != nil {
		return err
	}
	if text := c.Fields["offset"]; text != "" {
		us, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("offset: %w", err)
		}
		r.process.Offset = time.Duration(us) * time.Microsecond
		return nil
	}
	ns, err := strconv.ParseInt(c.Fields["realtime"], 10, 64)
	if err != nil {
		return fmt.Errorf("wall clock: %w", err)
	}
	if r.process.Opened.IsZero() {
		r.process.Opened = time.Unix(0, ns)
	}
	return nil
}

// handle reads the words of a call that are no fields.
func (r *reader) handle(c *Call, words []string) ([]string, error) {
	want := map[string]int{Start: 2, State: 3, Again: 2, Stop: 1}[c.Verb]
	if len(words) < want {
		return nil, errShort
	}
	var err error
	if c.Handle, err = r.number(words[0]); err != nil {
		return nil, fmt.Errorf("handle: %w", err)
	}
	switch c.Verb {
	case Start:
		c.Name, r.last = words[1], c.Handle
	case State:
		c.Name, c.Value = words[1], words[2]
	case Again:
		if c.Count, err = strconv.Atoi(words[1]); err != nil {
			return nil, fmt.Errorf("count: %w", err)
		}
	}
	words = words[want:]
	for i, w := range words {
		if key, value, ok := strings.Cut(w, "=^"); ok {
			n, err := r.number("^" + value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			words[i] = fmt.Sprintf("%s=%d", key, n)
		}
	}
	return words, nil
}

func (r *reader) number(word string) (int, error) {
	if word == "." {
		return r.last + 1, nil
	}
	if text, ok := strings.CutPrefix(word, "^"); ok {
		n, err := strconv.Atoi(text)
		return r.last - n, err
	}
	return strconv.Atoi(word)
}

func (c *Call) fields(words []string) error {
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			return fmt.Errorf("%q is no key=value", w)
		}
		if c.Fields == nil {
			c.Fields = map[string]string{}
		}
		c.Fields[key] = value
	}
	return nil
}
