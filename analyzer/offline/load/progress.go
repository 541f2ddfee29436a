// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress draws a bar on a terminal while many or large files are read.
type Progress struct {
	w     io.Writer
	on    bool
	mu    sync.Mutex
	total int64
	done  int64
	files int
	read  int
	drawn time.Time
	shown bool
}

const (
	barWidth    = 30
	redrawEvery = 100 * time.Millisecond
)

// NewProgress draws to w; with on false it draws nothing.
func NewProgress(w io.Writer, on bool) *Progress { return &Progress{w: w, on: on} }

func (p *Progress) begin(files []input) {
	p.files = len(files)
	for _, f := range files {
		p.total += f.size + 1 // Empty files count too.
	}
	p.drawn = time.Now()
}

func (p *Progress) add(size int64) {
	if !p.on {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += size + 1
	p.read++
	if time.Since(p.drawn) < redrawEvery {
		return
	}
	p.drawn = time.Now()
	p.shown = true
	full := int(barWidth * p.done / max(p.total, 1))
	_, _ = fmt.Fprintf(p.w, "\rreading [%s%s] %d of %d files", strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), p.read, p.files)
}

func (p *Progress) end() {
	if p.shown {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
}
