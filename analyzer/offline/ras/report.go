// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package ras reads reports of NCCL's RAS subsystem, as ncclras prints them: text of NCCL 2.24 to 2.30 (whole or
// excerpts, also inside other logs), JSON of 2.28.7 and newer (also of the releases that forgot commas), and the lines
// of its monitoring mode. RAS counts operations that ranks launched. It does not see whether they complete.
package ras

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"
)

// ErrNotReport is given for input that is no RAS report.
var ErrNotReport = errors.New("not a RAS report")

// Report is what RAS said at one moment.
type Report struct {
	File    string
	Version string    // NCCL's.
	At      time.Time // Zero unknown (text).
	// JobProcesses and JobGPUs are the job's size; 0 unknown.
	JobProcesses int
	JobGPUs      int
	Comms        []*Comm
	Events       []Event // Processes that are missing, dead, or that changed (monitoring mode).
	Timeouts     int
	// AllOK: the summary table is there and names no error.
	AllOK bool
}

// Comm is a communicator in a report.
type Comm struct {
	Hash      string // Hexadecimal, as NCCL logs it.
	Secondary string
	Size      int // 0 unknown.
	Ranks     map[int]*Rank
	// Unlisted are groups of ranks that the text counts but does not list.
	Unlisted []Unlisted
	// Functions whose counts differ, as the text says.
	Functions []string
	// Unsettled are functions whose counts the text says differ without its saying whose: its end, or lines, are lacking.
	Unsettled []string
}

// Unlisted is a number of ranks with something in common, not named one by one.
type Unlisted struct {
	Count    int
	Function string // Counted: launched Launched operations of it. Empty: Status is common.
	Launched int64
	Status   string
}

// Rank is a communicator's rank.
type Rank struct {
	Rank          int
	Place         Process
	Launched      map[string]int64 // Per function.
	Status        string           // INIT, RUNNING, FINALIZE, ABORT, NOCOMM; empty unknown.
	InitError     string
	AsyncError    string
	Missing       bool // RAS has no data from it.
	Unresponsive  bool
	Dead          bool
	Finalizing    bool
	Aborted       bool
	Initializing  bool
	ReportedWords string
}

// Process is where a rank runs.
type Process struct {
	Host string
	PID  int
	GPU  string
}

// Event is something said of a process as a whole.
type Event struct {
	Process
	Kind string // missing, dead, unresponsive, recovered.
}

func (c *Comm) rank(n int) *Rank {
	if c.Ranks == nil {
		c.Ranks = map[int]*Rank{}
	}
	r := c.Ranks[n]
	if r == nil {
		r = &Rank{Rank: n, Launched: map[string]int64{}}
		c.Ranks[n] = r
	}
	return r
}

// maxImplied bounds the ranks that a report may imply without listing them.
const maxImplied = 1 << 18

// settle gives each unlisted group its ranks where that is certain: all ranks that nothing else was said of, when one
// group is unlisted. left is how many ranks may still be implied.
func (c *Comm) settle(left *int) {
	byFunction := map[string][]Unlisted{}
	for _, u := range c.Unlisted {
		byFunction[u.Function] = append(byFunction[u.Function], u)
	}
	if c.Size == 0 { // No table: the groups of one function make up the communicator.
		for _, f := range slices.Sorted(maps.Keys(byFunction)) {
			n := c.counted(f)
			for _, u := range byFunction[f] {
				n += u.Count
			}
			c.Size = max(c.Size, n)
		}
		for n := range c.Ranks {
			c.Size = max(c.Size, n+1)
		}
	}
	if c.Size > *left {
		c.Size = 0 // Nonsense, or too large to be worth it: only listed ranks count.
		return
	}
	*left -= c.Size
	for f, us := range byFunction {
		if len(us) != 1 || c.counted(f)+us[0].Count > c.Size {
			continue
		}
		for n := range c.Size {
			r := c.rank(n)
			switch {
			case r.Missing:
			case f == "":
				if r.Status == "" {
					r.Status = us[0].Status
				}
			default:
				if _, ok := r.Launched[f]; !ok {
					r.Launched[f] = us[0].Launched
				}
			}
		}
	}
}

// unsettled finds the functions whose counts are said to differ while those of the ranks that are known do not.
func (c *Comm) unsettled() {
	for _, f := range c.Functions {
		lo, hi := int64(math.MaxInt64), int64(-1)
		for _, r := range c.Ranks {
			if n, ok := r.Launched[f]; ok {
				lo, hi = min(lo, n), max(hi, n)
			}
		}
		if lo >= hi {
			c.Unsettled = append(c.Unsettled, f)
		}
	}
}

// counted is the number of ranks of which something was said in a function's block.
func (c *Comm) counted(function string) int {
	n := 0
	for _, r := range c.Ranks {
		_, launched := r.Launched[function]
		if (function == "" && r.Status != "") || launched || r.Missing {
			n++
		}
	}
	return n
}
