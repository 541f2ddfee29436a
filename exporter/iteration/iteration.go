// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package iteration finds training iterations in the sequence of a rank's finished operations (Holmes' iteration
// monitor), without being told where one ends.
//
// A training loop repeats itself: some kind of operation, such as the reduction of one gradient bucket, happens a fixed
// number of times in each iteration, at regular places of the sequence. The rarest regular kind marks the iteration, as
// kinds that repeat within it (layers, micro-batches) are more frequent. Barriers and tiny operations (loss, logging,
// checkpoints) follow rhythms of their own and are left out unless there is nothing else.
package iteration

import (
	"math"
	"slices"
	"time"
)

const (
	// window is how many operations are looked at to find the mark.
	window = 8192
	// firstLook is after how many operations the mark is sought first; then each time their number has grown by half.
	firstLook = 8
	// minRepeats is how often the mark must have been seen.
	minRepeats = 4
	// maxMultiple bounds how many marks make up one iteration.
	maxMultiple = 64
	// maxPlaces bounds at how many places of an iteration its mark may occur unnoticed by the first look at spacings.
	maxPlaces = 8
	// tinyBytes is the size below which operations are ignored when there are larger ones.
	tinyBytes = 4096
	// lostAfter is how many iterations' worth of operations may pass without the mark before it is given up.
	lostAfter = 4
)

// Op is a finished operation. Operations are to be observed in the order in which they finished.
type Op struct {
	Comm    uint64 // Anything that tells communicators of the process apart.
	Func    uint16
	Peer    int32
	Bytes   uint64
	EndNS   uint64
	Barrier bool
}

// kind is what operations at the same place of different iterations have in common. Sizes vary in some jobs (expert
// parallelism): then bytes is left out.
type kind struct {
	comm  uint64
	fn    uint16
	peer  int32
	bytes uint64
}

// usualKinds is how many kinds are found without the map. A power of two.
const usualKinds = 128

// numbered is a kind with its number plus one; 0 for none.
type numbered struct {
	kind
	number uint32
}

// place is where a kind is among the usual ones. What tells kinds of one job apart are the communicator, whose number is in
// the upper half, the peer, and the size, which is a multiple of something.
func (k *kind) place() uint64 {
	h := k.comm ^ k.comm>>32 ^ uint64(k.fn)<<4 ^ uint64(uint32(k.peer))<<8 ^ k.bytes ^ k.bytes>>10 ^ k.bytes>>20
	return h * 0x9E3779B97F4A7C15 >> 57
}

type entry struct {
	kind  uint32
	tiny  bool
	endNS uint64
}

// Detector follows one rank. The zero value is not usable; call New. It is not safe for concurrent use.
type Detector struct {
	sized    bool // Kinds include sizes.
	kinds    map[kind]uint32
	usual    [usualKinds]numbered // Kinds seen lately, to find most without the map.
	log      []entry              // The last operations, a ring once full.
	ordered  []entry              // Scratch: the log from the oldest on.
	next     int
	seen     int
	nextLook int

	mark     uint32 // Kind that marks iterations; valid when multiple > 0.
	multiple int    // Marks in an iteration; 0: none found.
	spacing  float64
	marks    int // Since the last boundary.
	boundary uint64
	since    int // Operations since the last mark.
}

// New makes a Detector.
func New() *Detector {
	d := &Detector{sized: true}
	d.reset()
	return d
}

func (d *Detector) reset() {
	d.kinds = map[kind]uint32{}
	clear(d.usual[:])
	d.log = d.log[:0]
	d.next, d.seen, d.nextLook = 0, 0, firstLook
	d.multiple, d.marks, d.boundary = 0, 0, 0
}

// Lost tells the detector that operations are missing: the iteration under way is not counted.
func (d *Detector) Lost() {
	d.marks, d.boundary = 0, 0
}

// Observe takes in an operation. When it ends an iteration, it gives that iteration's duration.
func (d *Detector) Observe(op Op) (time.Duration, bool) {
	if op.Barrier || op.EndNS == 0 {
		return 0, false
	}
	e := entry{kind: d.kindOf(op), tiny: op.Bytes < tinyBytes, endNS: op.EndNS}
	d.append(e)
	duration, ended := d.track(e)
	if d.seen >= d.nextLook {
		d.look()
		d.nextLook = d.seen + min(max(d.seen/2, firstLook), window)
	}
	return duration, ended
}

func (d *Detector) kindOf(op Op) uint32 {
	k := kind{comm: op.Comm, fn: op.Func, peer: op.Peer}
	if d.sized {
		k.bytes = op.Bytes
	}
	last := &d.usual[k.place()]
	if last.number > 0 && last.kind == k {
		return last.number - 1
	}
	n, ok := d.kinds[k]
	if !ok {
		if len(d.kinds) >= window {
			// Sizes hardly ever repeat: do without them.
			d.reset()
			d.sized = false
			k.bytes = 0
			last = &d.usual[k.place()]
		}
		n = uint32(len(d.kinds))
		d.kinds[k] = n
	}
	*last = numbered{k, n + 1}
	return n
}

func (d *Detector) append(e entry) {
	d.seen++
	if len(d.log) < window {
		d.log = append(d.log, e)
		return
	}
	d.log[d.next] = e
	d.next = (d.next + 1) % window
}

// track counts marks.
func (d *Detector) track(e entry) (time.Duration, bool) {
	if d.multiple == 0 {
		return 0, false
	}
	d.since++
	if e.kind != d.mark {
		if float64(d.since) > lostAfter*d.spacing+lostAfter {
			d.multiple, d.nextLook = 0, d.seen
		}
		return 0, false
	}
	d.since = 0
	d.marks++
	if d.boundary != 0 && d.marks < d.multiple {
		return 0, false
	}
	start := d.boundary
	d.marks, d.boundary = 0, e.endNS
	if start == 0 || e.endNS <= start {
		return 0, false
	}
	return time.Duration(e.endNS - start), true
}

// look seeks the mark among the last operations.
func (d *Detector) look() {
	d.ordered = append(append(d.ordered[:0], d.log[d.next:]...), d.log[:d.next]...)
	ordered := d.ordered
	occurrences := d.group(ordered)
	// The rarest regular kind marks the iteration.
	slices.SortFunc(occurrences, func(a, b []int) int { return len(a) - len(b) })
	if at, multiple := best(occurrences); multiple > 0 {
		index := differences(at, func(i int) float64 { return float64(i) })
		multiple *= pattern(index, multiple, 0.02, maxPlaces)
		multiple *= pattern(differences(at, func(i int) float64 { return float64(ordered[i].endNS) }), multiple, 0.5, maxMultiple)
		d.adopt(ordered[at[0]].kind, multiple, float64(at[len(at)-1]-at[0])/float64(len(at)-1))
		return
	}
	if d.sized && d.seen >= window && repeated(occurrences) < len(ordered)/2 {
		d.reset()
		d.sized = false
	}
}

// group lists where each kind occurs. Tiny operations are left out when others are frequent enough to go by.
func (d *Detector) group(ordered []entry) [][]int {
	// Kinds are few and numbered from 0. Their lists lie one behind the other in one piece of memory.
	all, large := make([]int, len(d.kinds)), make([]int, len(d.kinds))
	for _, e := range ordered {
		all[e.kind]++
		if !e.tiny {
			large[e.kind]++
		}
	}
	counts, every := all, true
	if slices.Max(large) >= minRepeats {
		counts, every = large, false
	}
	memory := make([]int, 0, len(ordered))
	byKind := make([][]int, len(counts))
	for kind, n := range counts {
		byKind[kind] = memory[len(memory) : len(memory) : len(memory)+n]
		memory = memory[:len(memory)+n]
	}
	for i, e := range ordered {
		if every || !e.tiny {
			byKind[e.kind] = append(byKind[e.kind], i)
		}
	}
	lists := slices.DeleteFunc(byKind, func(at []int) bool { return len(at) == 0 })
	// Equally rare kinds are taken in the order of the sequence.
	slices.SortFunc(lists, func(a, b []int) int { return a[0] - b[0] })
	return lists
}

func repeated(occurrences [][]int) int {
	n := 0
	for _, at := range occurrences {
		if len(at) >= minRepeats {
			n += len(at)
		}
	}
	return n
}

func (d *Detector) adopt(mark uint32, multiple int, spacing float64) {
	if d.multiple == multiple && d.mark == mark {
		return
	}
	d.mark, d.multiple, d.spacing = mark, multiple, spacing
	d.marks, d.boundary, d.since = 0, 0, 0
}

func differences(at []int, value func(int) float64) []float64 {
	d := make([]float64, len(at)-1)
	for i := range d {
		d[i] = value(at[i+1]) - value(at[i])
	}
	return d
}

// regular finds the smallest number of consecutive values whose sums vary by at most limit (standard deviation over
// mean).
func regular(values []float64, limit float64) (int, bool) {
	for k := 1; k <= maxMultiple && (minRepeats-1)*k <= len(values); k++ {
		rest := whole(values, k)
		if variation(rest, k) > limit {
			continue
		}
		// Sums of k leave the odd first values out. Without them fewer may do as well.
		for less := 1; less < k; less++ {
			if k%less == 0 && variation(rest, less) <= limit {
				return less, true
			}
		}
		return k, true
	}
	return 0, false
}

// whole gives the last values, as many as make up groups of k.
func whole(values []float64, k int) []float64 { return values[len(values)%k:] }

// best picks the mark: of the rarest regular kinds the one that marks most directly. With operations that overlap, some
// kinds move about in the sequence and are only regular over several iterations.
func best(occurrences [][]int) (at []int, multiple int) {
	rarest := 0
	for _, candidate := range occurrences {
		if len(candidate) < minRepeats || rarest > 0 && len(candidate)*3 > rarest*4 {
			continue
		}
		k, ok := regular(differences(candidate, func(i int) float64 { return float64(i) }), 0.15)
		if !ok {
			continue
		}
		if rarest == 0 {
			rarest = len(candidate)
		}
		if multiple == 0 || k < multiple {
			at, multiple = candidate, k
		}
	}
	return at, multiple
}

// pattern finds out whether values that vary by more than least repeat themselves: by what to multiply the multiple found
// so far, 1 when nothing shows. Applied to the time between marks it finds iterations that the order of operations does
// not show, such as the same operation over and over with a pause for computation after every so many. Sums over
// an iteration vary far less than chance alone would have it.
func pattern(values []float64, multiple int, least float64, most int) int {
	for k := 2; k <= most && k*multiple <= maxMultiple && (minRepeats-1)*k*multiple <= len(values); k++ {
		// The odd first values, of the job's start perhaps, are left out on both sides.
		rest := whole(values, k*multiple)
		base := variation(rest, multiple)
		if base >= least && variation(rest, k*multiple) <= 0.3*base/math.Sqrt(float64(k)) {
			return k
		}
	}
	return 1
}

// variation is the standard deviation over the mean of the sums of k consecutive values.
func variation(values []float64, k int) float64 {
	n := len(values) / k
	if n < 2 {
		return math.Inf(1)
	}
	var sum, squares float64
	for i := range n {
		s := 0.0
		for _, v := range values[i*k : (i+1)*k] {
			s += v
		}
		sum += s
		squares += s * s
	}
	mean := sum / float64(n)
	if mean <= 0 {
		return math.Inf(1)
	}
	return math.Sqrt(max(0, squares/float64(n)-mean*mean)) / mean
}
