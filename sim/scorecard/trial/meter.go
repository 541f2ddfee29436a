// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"hash/fnv"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// meter measures what analyses cost. Allocation can only be counted for the whole process, so that an analysis of which it is measured
// has that to itself: everything else that allocates holds the lock for reading, and lets go of it now and then.
type meter struct{ alone sync.RWMutex }

// rest lets an analysis that is to be measured go first. The caller holds the lock for reading.
func (m *meter) rest() {
	m.alone.RUnlock()
	m.alone.RLock()
}

// Allocations are measured of one in so many runs from a number of ranks on, and of one in so many smaller ones.
const (
	measuredRanks  = 512
	measuredLarger = 4
	measuredEvery  = 32
)

func measured(o *judge.Outcome) bool {
	h := fnv.New32a()
	h.Write([]byte(o.Name))
	if o.Ranks >= measuredRanks {
		return h.Sum32()%measuredLarger == 0
	}
	return h.Sum32()%measuredEvery == 0
}

// dearest is the analysis of a run that took longest.
type dearest struct {
	ev   rca.Evidence
	opt  rca.Options
	took time.Duration
}

// time asks the engine and adds what that took to the outcome.
func (d *dearest) time(out *judge.Outcome, ev rca.Evidence, opt rca.Options) rca.Verdict {
	// The engine works on one thread; its CPU time is that thread's.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, cpu := time.Now(), threadTime()
	v := engine.Analyze(ev, opt)
	took := time.Since(start)
	out.AnalysisMS += milliseconds(took)
	out.AnalysisCPU += milliseconds(threadTime() - cpu)
	if took > d.took && measured(out) {
		*d = dearest{ev, opt, took}
	}
	return v
}

// measure repeats the dearest analysis of a run, where nothing else runs, and notes what it allocates. The caller holds the lock for reading.
func (m *meter) measure(out *judge.Outcome, d *dearest) {
	if d.took == 0 {
		return
	}
	m.alone.RUnlock()
	m.alone.Lock()
	defer func() {
		m.alone.Unlock()
		m.alone.RLock()
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	engine.Analyze(d.ev, d.opt)
	runtime.ReadMemStats(&after)
	out.AllocMiB = float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20)
	*d = dearest{}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// threadTime is the CPU time that the calling thread has used.
func threadTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// PeakMiB is the largest resident memory that this process has had.
func PeakMiB() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Maxrss) / 1024 // Linux counts KiB.
}
