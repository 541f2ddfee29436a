// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// Terminals, launchers and collectors of logs put their own around each line, and break long ones. plain takes that off, so that
// what a process wrote is read as it wrote it. Labels that tell the rank become PyTorch's own.

var (
	colour = regexp.MustCompile("(?:\x1b|\\^\\[|#033|#x1[Bb])\\[[0-9;?]*[A-Za-z]")

	criLine     = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) ([FP]) ?`)
	stampLine   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(?:Z|[+-]\d\d:\d\d) `)
	podLine     = regexp.MustCompile(`^\[pod/[^\]\s]+\] ?`)
	composeLine = regexp.MustCompile(`^[\w.-]+\s+\| `)
	rayLine     = regexp.MustCompile(`^\((?:[\w.:<>-]+ )?pid=\d+(?:, ip=[\d.]+)?\) ?`)
	taskLine    = regexp.MustCompile(`^\s*(\d+): `)
	mpiLine     = regexp.MustCompile(`^\s*\[\d+,(\d+)\]<std(?:out|err)>: ?`)
	teeLine     = regexp.MustCompile(`^\[[A-Za-z]\w*?(\d+)\]:(?: )?`)
	repeated    = regexp.MustCompile(`\[repeated (\d+)x across cluster\]`)
)

const dockerStart = `{"log":"`

// plain gives the log without what others put around its lines.
func plain(text []byte) []byte {
	if bytes.IndexByte(text, '\r') >= 0 {
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n")) // Progress bars.
	}
	if bytes.IndexByte(text, 0x1b) >= 0 || bytes.Contains(text, []byte("[0m")) {
		text = colour.ReplaceAll(text, nil)
	}
	if bytes.HasPrefix(bytes.TrimLeft(text, " \n"), []byte(dockerStart)) {
		text = docker(text)
	}
	for range 4 { // A collector within another.
		peel := wrapper(text)
		if peel == nil {
			break
		}
		text = peeled(text, peel)
	}
	return unbroken(text)
}

// docker takes the lines out of the JSON that Docker keeps logs in. A line without an end goes on in the next.
func docker(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		var entry struct {
			Log string `json:"log"`
		}
		if bytes.HasPrefix(line, []byte(dockerStart)) && json.Unmarshal(line, &entry) == nil {
			out = append(out, entry.Log...)
			continue
		}
		out = append(out, line...)
	}
	return out
}

// peeler takes off what stands before a line; goesOn says that its end is on the next. Of rank -1 nothing is known.
type peeler func(line []byte) (rest []byte, rank int, goesOn bool)

// wrapper finds out what stands before most of the log's lines; nil for nothing.
func wrapper(text []byte) peeler {
	const sample = 64 << 10
	forms := []struct {
		re    *regexp.Regexp
		share float64 // Of the lines that must have it.
		ranks bool
	}{
		{criLine, 0.9, false}, {podLine, 0.5, false}, {rayLine, 0.1, false}, {mpiLine, 0.5, true}, {taskLine, 0.9, true}, {composeLine, 0.9, false}, {stampLine, 0.9, false}, {teeLine, 0.3, true},
	}
	lines := 0
	hits := make([]int, len(forms))
	for line := range bytes.Lines(text[:min(len(text), sample)]) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		lines++
		for i := range forms {
			if forms[i].re.Match(line) {
				hits[i]++
			}
		}
	}
	for i, f := range forms {
		if hits[i] == 0 || float64(hits[i]) < f.share*float64(lines) {
			continue
		}
		ranks := f.ranks && !contradicts(text, f.re)
		return func(line []byte) ([]byte, int, bool) {
			m := f.re.FindSubmatchIndex(line)
			if m == nil {
				return line, -1, false
			}
			rank := -1
			if ranks {
				rank = int(number(line[m[2]:m[3]]))
			}
			return line[m[1]:], rank, len(m) > 3 && m[2] >= 0 && string(line[m[2]:m[3]]) == "P"
		}
	}
	return nil
}

// contradicts says that a label's number is not the rank: lines that have PyTorch's own name another one.
func contradicts(text []byte, label *regexp.Regexp) bool {
	for line := range bytes.Lines(text) {
		m := label.FindSubmatch(line)
		if m == nil {
			continue
		}
		if own := rankPrefix.FindSubmatch(line); own != nil && !bytes.Equal(own[1], m[1]) {
			return true
		}
	}
	return false
}

func peeled(text []byte, peel peeler) []byte {
	out := make([]byte, 0, len(text))
	within := false
	for line := range bytes.Lines(text) {
		rest, rank, goesOn := peel(line)
		if rank >= 0 && rank < maxRank && !within && !rankPrefix.Match(rest) {
			out = fmt.Appendf(out, "[rank%d]: ", rank)
		}
		if within = goesOn; within {
			rest = bytes.TrimRight(rest, "\n")
		}
		out = append(out, rest...)
	}
	return out
}

// unbroken joins what was broken at a fixed width, inside words too: many lines are then exactly as long as the longest.
func unbroken(text []byte) []byte {
	const (
		narrowest = 60
		few       = 4
	)
	widest, lines, long := 0, 0, 0
	for line := range bytes.Lines(text) {
		lines++
		switch n := len(bytes.TrimRight(line, "\n")); {
		case n > widest:
			widest, long = n, 1
		case n == widest:
			long++
		}
	}
	const share = 20 // A twentieth of all lines.
	if widest < narrowest || long < few || share*long < lines {
		return text
	}
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		if body := bytes.TrimRight(line, "\n"); len(body) == widest {
			out = append(out, body...)
			continue
		}
		out = append(out, line...)
	}
	return out
}

// repeats is how many lines of other processes a collector left out as the same.
func repeats(text []byte) int {
	n := 0
	const most = 1 << 16
	for _, m := range repeated.FindAllSubmatch(text, most) {
		if k, err := strconv.Atoi(string(m[1])); err == nil && k > 0 && k < maxRank {
			n += k
		}
	}
	return n
}
