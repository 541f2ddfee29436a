// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/culprit-project/culprit/exporter/nvml"
)

// gpuPatience is how long a GPU's answer is waited for, from when it was asked.
const gpuPatience = 2 * time.Second

var errNoAnswer = errors.New("the driver does not answer")

// gpuReader reads the GPUs, each by itself. The driver may hang for one of them: that one is not asked again until it has answered,
// and nobody waits for it twice.
type gpuReader struct {
	mu    sync.Mutex
	slots map[int]*gpuSlot
}

type gpuSlot struct {
	running chan struct{} // Closed when the question that runs is answered; nil: none runs.
	asked   time.Time
	last    gpuLook // The latest answer.
}

// gpuLook is what was found out about a GPU.
type gpuLook struct {
	info  nvml.Info // As last seen; only the index of a GPU that never answered.
	r     nvml.Reading
	err   error
	asked time.Time // When the question was put that this answers, or that is not answered.
}

// read asks all GPUs. The error is for what is wrong with all of them.
func (g *gpuReader) read(ctx context.Context, lib nvml.Library) ([]gpuLook, error) {
	n, err := lib.Count()
	if err != nil {
		return nil, err
	}
	patience := gpuPatience
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)*3/4) // What the others said must still go out.
	}
	running := make([]chan struct{}, n)
	for i := range n {
		running[i] = g.ask(lib, i)
	}
	looks := make([]gpuLook, n)
	for i := range n {
		looks[i] = g.answer(ctx, i, running[i], patience)
	}
	return looks, ctx.Err()
}

// ask puts the question to a GPU, unless one runs already, and gives what is closed when it is answered.
func (g *gpuReader) ask(lib nvml.Library, index int) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slots[index]
	if s == nil {
		if g.slots == nil {
			g.slots = map[int]*gpuSlot{}
		}
		s = &gpuSlot{last: gpuLook{info: nvml.Info{Index: index}}}
		g.slots[index] = s
	}
	if s.running != nil {
		return s.running
	}
	running := make(chan struct{})
	s.running, s.asked = running, time.Now()
	go func() {
		info, r, err := readGPU(lib, index)
		g.mu.Lock()
		defer g.mu.Unlock()
		if err != nil {
			info = s.last.info
		}
		s.last = gpuLook{info: info, r: r, err: err, asked: s.asked}
		s.running = nil
		close(running)
	}()
	return running
}

func readGPU(lib nvml.Library, index int) (info nvml.Info, r nvml.Reading, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading GPU %d: panic: %v\n%s", index, p, debug.Stack())
		}
	}()
	d, err := lib.Device(index)
	if err != nil {
		return info, r, err
	}
	r, err = d.Read()
	return d.Info(), r, err
}

// answer waits for a GPU's answer: at most patience from when it was asked, which may lie long back.
func (g *gpuReader) answer(ctx context.Context, index int, running chan struct{}, patience time.Duration) gpuLook {
	g.mu.Lock()
	s := g.slots[index]
	asked := s.asked
	g.mu.Unlock()
	timer := time.NewTimer(max(0, patience-time.Since(asked)))
	defer timer.Stop()
	select {
	case <-running:
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-running:
		return s.last
	default:
		return gpuLook{info: s.last.info, err: fmt.Errorf("reading GPU %d: %w", index, errNoAnswer), asked: asked}
	}
}
