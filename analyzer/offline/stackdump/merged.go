// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stackdump

import (
	"bytes"
	"html"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Stacks of all ranks in one, as dlrover merges them: folded, or a flame graph of that. Each frame is a function, its file, and the
// ranks that are in it and those that are not: "wait@comm.py@0-2/4|3".

var (
	mergedFrame = regexp.MustCompile(`^(.+)@([^@]*)@([\d/-]*)\|[\d/-]*$`)
	flameBox    = regexp.MustCompile(`(?s)<title>([^<]*?) \([\d,.]+ samples[^<]*</title>\s*<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"`)
)

// What merged stacks may hold at most: ranks, stacks of one and of all of them together, and frames of a flame graph.
const (
	mostMerged       = 1 << 17
	mostOfRank       = 1 << 11
	mostMergedStacks = 1 << 21
	mostBoxes        = 1 << 14
)

func mergedLike(head []byte) bool {
	first, _, _ := bytes.Cut(bytes.TrimLeft(head, " \r\n"), []byte("\n"))
	word, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(string(first)), " 1"), ";")
	return strings.HasSuffix(strings.TrimSpace(string(first)), " 1") && (mergedFrame.MatchString(word) || strings.HasPrefix(word, "State@"))
}

func flameLike(data []byte) bool {
	head := data[:min(len(data), 64<<10)]
	return bytes.Contains(head, []byte("<svg")) && bytes.Contains(data, []byte("|")) && slices.ContainsFunc(flameBox.FindAllSubmatch(data, 64), func(m [][]byte) bool {
		return mergedFrame.MatchString(html.UnescapeString(string(m[1])))
	})
}

// parseMerged reads folded stacks with the ranks in them.
func parseMerged(file string, data []byte) ([]Process, error) {
	var paths [][]string
	for raw := range bytes.Lines(data) {
		if line, ok := strings.CutSuffix(strings.TrimSpace(string(raw)), " 1"); ok {
			paths = append(paths, strings.Split(line, ";"))
		}
	}
	return ranksOfPaths(file, paths)
}

// parseFlame reads a flame graph: a frame stands on the one that it lies above.
func parseFlame(file string, data []byte) ([]Process, error) {
	type box struct {
		name        string
		x, y, width float64
		path        []string
	}
	var boxes []box
	for _, m := range flameBox.FindAllSubmatch(data, mostBoxes) {
		b := box{name: html.UnescapeString(string(m[1]))}
		b.x, _ = strconv.ParseFloat(string(m[2]), 64)
		b.y, _ = strconv.ParseFloat(string(m[3]), 64)
		b.width, _ = strconv.ParseFloat(string(m[4]), 64)
		boxes = append(boxes, b)
	}
	slices.SortStableFunc(boxes, func(a, b box) int { // From the ground up.
		switch {
		case a.y > b.y:
			return -1
		case a.y < b.y:
			return 1
		}
		return 0
	})
	var paths [][]string
	level, below := []int{}, []int{}
	for i := range boxes {
		b := &boxes[i]
		if len(level) > 0 && boxes[level[0]].y != b.y {
			level, below = nil, level
		}
		level = append(level, i)
		const slack = 0.2 // Numbers are rounded.
		at := slices.IndexFunc(below, func(k int) bool {
			o := &boxes[k]
			return o.x <= b.x+slack && b.x+b.width <= o.x+o.width+slack
		})
		if mergedFrame.MatchString(b.name) {
			if at >= 0 {
				b.path = slices.Clone(boxes[below[at]].path)
			}
			if b.path = append(b.path, b.name); len(b.path) < maxFrames {
				paths = append(paths, b.path)
			}
		}
	}
	return ranksOfPaths(file, paths)
}

// ranksOfPaths gives each rank its stacks: of paths of which one goes on with the other the longer one.
func ranksOfPaths(file string, paths [][]string) ([]Process, error) {
	stacks := map[int][][]string{}
	n := 0
	for _, path := range paths {
		m := mergedFrame.FindStringSubmatch(path[len(path)-1])
		if m == nil || len(path) > maxFrames || strings.HasPrefix(path[0], "State@") { // That of the process, which is no frame.
			continue
		}
		var stack []string
		for _, f := range path {
			if m := mergedFrame.FindStringSubmatch(f); m != nil {
				stack = append(stack, frame(m[1], m[2], ""))
			}
		}
		ranks := mergedRanks(m[3])
		if n += len(ranks); n > mostMergedStacks {
			break
		}
		for _, r := range ranks {
			if len(stacks[r]) < mostOfRank {
				stacks[r] = append(stacks[r], stack)
			}
		}
	}
	var out []Process
	for _, r := range slices.Sorted(maps.Keys(stacks)) {
		p := Process{File: file, Rank: r}
		all := stacks[r]
		for _, s := range all {
			goesOn := slices.ContainsFunc(all, func(o []string) bool { return len(o) > len(s) && slices.Equal(o[:len(s)], s) })
			if !goesOn && len(p.Threads) < maxThreads {
				p.Threads = append(p.Threads, Thread{Weight: 1, Active: true, Stack: s})
			}
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, ErrNotStacks
	}
	return out, nil
}

// mergedRanks reads "0-2/4".
func mergedRanks(s string) []int {
	var out []int
	for part := range strings.SplitSeq(s, "/") {
		a, b, span := strings.Cut(part, "-")
		lo, err := strconv.Atoi(a)
		hi := lo
		if span {
			var err2 error
			if hi, err2 = strconv.Atoi(b); err2 != nil {
				hi = math.MaxInt
			}
		}
		if err != nil || hi >= mostMerged || hi-lo+len(out) > mostMerged {
			continue
		}
		for r := lo; r <= hi; r++ {
			out = append(out, r)
		}
	}
	return out
}
