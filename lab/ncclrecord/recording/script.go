// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Script writes a process's calls for the replayer: one line a call, as the recorder writes them. Pauses longer than the
// longest are cut to it, and the GPU's times with them, so that the order of all times stays.
func (p *Process) Script(to io.Writer, longest time.Duration) error {
	w := bufio.NewWriter(to)
	warp := newWarp(p, longest)
	for _, c := range p.Calls {
		if c.Verb == Unload {
			continue
		}
		fmt.Fprintf(w, "%d %d %s", warp.at(c.Time).Nanoseconds(), c.Thread, c.Verb)
		switch c.Verb {
		case Finalize:
			fmt.Fprintf(w, " %s\n", c.Fields["ctx"])
			continue
		case Start:
			fmt.Fprintf(w, " %d %s", c.Handle, c.Name)
		case State:
			fmt.Fprintf(w, " %d %s %s", c.Handle, c.Name, warp.value(c))
		case Again:
			fmt.Fprintf(w, " %d %d", c.Handle, c.Count)
		case Stop:
			fmt.Fprintf(w, " %d", c.Handle)
		}
		for _, k := range slices.Sorted(maps.Keys(c.Fields)) {
			v := c.Fields[k]
			if k == "timer" && c.Timer() != 0 {
				v = strconv.FormatInt(warp.gpu(c.Timer()), 10)
			}
			fmt.Fprintf(w, " %s=%s", k, v)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// warp maps the recording's time to the replay's.
type warp struct {
	offset time.Duration
	from   []time.Duration // Times of calls.
	to     []time.Duration
}

func newWarp(p *Process, longest time.Duration) *warp {
	w := &warp{offset: p.Offset}
	var last, now time.Duration
	for i, c := range p.Calls {
		if i > 0 {
			now += min(c.Time-last, longest)
		}
		last = c.Time
		w.from, w.to = append(w.from, c.Time), append(w.to, now)
	}
	return w
}

// at is the replay's time; between two calls it is in proportion.
func (w *warp) at(t time.Duration) time.Duration {
	i, found := slices.BinarySearch(w.from, t)
	switch {
	case found:
		return w.to[i]
	case i == 0:
		return w.to[0] + t - w.from[0]
	case i == len(w.from):
		return w.to[i-1] + t - w.from[i-1]
	}
	share := float64(t-w.from[i-1]) / float64(w.from[i]-w.from[i-1])
	return w.to[i-1] + time.Duration(share*float64(w.to[i]-w.to[i-1]))
}

// gpu maps a time of the GPU, which is on the axis of all processes; 0 means that there is none.
func (w *warp) gpu(t time.Duration) int64 {
	return max(w.at(t-w.offset).Nanoseconds(), 1)
}

func (w *warp) value(c *Call) string {
	if t := c.Timer(); t != 0 {
		return strconv.FormatInt(w.gpu(t), 10)
	}
	return c.Value
}
