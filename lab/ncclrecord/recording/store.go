// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A stored file has several recordings:
//
//	case NAME key=value…
//	process NAME
//	(the lines of the recorder)
//
// In them times are differences in microseconds, GPU times begin with the first process, handles are differences too,
// and communicators, buffers and streams are numbered in the order in which they appear.

// Store writes recordings into one compressed file.
func Store(file string, recordings []*Recording) error {
	f, err := os.Create(file + ".new")
	if err != nil {
		return fmt.Errorf("storing recordings: %w", err)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("storing recordings: %w", err)
	}
	w := bufio.NewWriter(z)
	for _, r := range recordings {
		r.write(w)
	}
	for _, err := range []error{w.Flush(), z.Close(), f.Close(), os.Rename(file+".new", file)} {
		if err != nil {
			return fmt.Errorf("storing recordings: %w", err)
		}
	}
	return nil
}

// Load reads a stored file.
func Load(file string) ([]*Recording, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("loading recordings: %w", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", file, err)
	}
	recordings, err := read(z)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", file, err)
	}
	return recordings, nil
}

func read(from io.Reader) ([]*Recording, error) {
	var all []*Recording
	var lines reader
	in := bufio.NewScanner(from)
	for n := 1; in.Scan(); n++ {
		words := strings.Fields(in.Text())
		var err error
		switch {
		case len(words) >= 2 && words[0] == "case":
			c := &Call{}
			err = c.fields(words[2:])
			all = append(all, &Recording{Case: words[1], Settings: unescape(c.Fields)})
		case len(words) == 2 && words[0] == "process" && len(all) > 0:
			lines = reader{process: newProcess(words[1])}
			all[len(all)-1].Processes = append(all[len(all)-1].Processes, lines.process)
		case lines.process == nil:
			err = fmt.Errorf("%q outside of a process", in.Text())
		default:
			err = lines.line(in.Text())
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return all, in.Err()
}

// Settings may have spaces; lines are split at them.
func unescape(settings map[string]string) map[string]string {
	for k, v := range settings {
		settings[k] = strings.ReplaceAll(v, "_", " ")
	}
	return settings
}

func (r *Recording) write(w *bufio.Writer) {
	fmt.Fprintf(w, "case %s", r.Case)
	for _, k := range slices.Sorted(maps.Keys(r.Settings)) {
		fmt.Fprintf(w, " %s=%s", k, strings.ReplaceAll(r.Settings[k], " ", "_"))
	}
	fmt.Fprintln(w)
	n := numbers{}
	for _, p := range r.Processes {
		p.write(w, n)
	}
}

// numbers gives addresses and communicators small numbers.
type numbers map[string]string

func (n numbers) of(key, value string) string {
	if value == "0x0" {
		return value
	}
	name := key + value
	if n[name] == "" {
		n[name] = fmt.Sprintf("0x%x", len(n)+1)
	}
	return n[name]
}

func (p *Process) write(w *bufio.Writer, n numbers) {
	fmt.Fprintf(w, "process %s\n0 1 open offset=%d\n", p.Name, p.Offset.Microseconds())
	named := map[int]bool{}
	var now int64
	last := 0
	for _, c := range p.Calls {
		if !named[c.Thread] {
			named[c.Thread] = true
			fmt.Fprintf(w, "+0 %d thread %s\n", c.Thread, p.Threads[c.Thread])
		}
		us := c.Time.Microseconds()
		fmt.Fprintf(w, "%+d %d %s", us-now, c.Thread, c.Verb)
		now = us
		if c.Verb == Start {
			last = c.Handle
		}
		c.write(w, n, last)
		fmt.Fprintln(w)
	}
}

// back is a handle as the reader takes it.
func back(handle, last int) string {
	if handle == 0 {
		return "0"
	}
	return "^" + strconv.Itoa(last-handle)
}

func (c *Call) write(w *bufio.Writer, n numbers, last int) {
	switch c.Verb {
	case Finalize:
		fmt.Fprintf(w, " %s", c.Fields["ctx"])
		return
	case Start:
		fmt.Fprintf(w, " . %s", c.Name)
	case State:
		fmt.Fprintf(w, " %s %s %s", back(c.Handle, last), c.Name, c.Value)
	case Again:
		fmt.Fprintf(w, " %s %d", back(c.Handle, last), c.Count)
	case Stop:
		fmt.Fprintf(w, " %s", back(c.Handle, last))
	}
	for _, k := range slices.Sorted(maps.Keys(c.Fields)) {
		v := c.Fields[k]
		switch k {
		case "comm":
			v = n.of("comm", v)
		case "from", "to", "buff", "stream":
			v = n.of("at", v)
		case "parent", "group":
			v = back(c.Num(k), last)
		}
		fmt.Fprintf(w, " %s=%s", k, v)
	}
}
