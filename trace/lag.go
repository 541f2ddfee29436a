// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"slices"
	"time"
)

// EpochNS is the length of an epoch of Flow.Epochs and QP.Epochs, in nanoseconds: 2^15, the power of two nearest to Pulse's 32 µs.
const EpochNS = 1 << 15

const (
	// lagRatio is the share of its sisters' rate below which a queue pair is slow: the half at which Mycroft (Algorithm 1) calls a straggler.
	lagRatio = 0.5
	// lagEpochs is how many epochs a queue pair must have been active for its rate to count: the first and last are seldom whole, and are 6% of so many.
	lagEpochs = 32
	// likeSends is how many times as large the mean send of a sister may be: a rate tells of the path only where the sends are alike.
	likeSends = 2
	// mostSisters bounds how many a queue pair is compared with, and mostLags how many are told of: a file may have tens of thousands.
	mostSisters = 64
	mostLags    = 64
	// StandsAfter is how long a send must be outstanding for a queue pair to stand: less than one ACK timeout at NCCL's default
	// (NCCL_IB_TIMEOUT 20: 4.3 s), so that waiting for a retransmission shows.
	StandsAfter = time.Second
)

// LagKind is in what way a queue pair lags.
type LagKind string

// Kinds of lags.
const (
	LagSlow     LagKind = "slow"     // It moves less than half of what its sisters do while a send is outstanding.
	LagStanding LagKind = "standing" // Its sends do not complete, and those of a sister do.
)

// Lag says how a queue pair lags behind its sisters: those of its process to the same peer of the same communicator with sends of
// about the same size. They do the same work, so what sets one apart is its path.
type Lag struct {
	QPIndex uint32  `json:"qp_index"` // QP.Index.
	Kind    LagKind `json:"kind"`
	Sisters int     `json:"sisters"`
	StuckNS uint64  `json:"stuck_ns,omitempty"` // How long it stands.
	// Bytes per second of active time (epochs with a send outstanding): its own, and the median of its sisters'.
	BytesPerSecond        float64 `json:"bytes_per_second,omitempty"`
	SistersBytesPerSecond float64 `json:"sisters_bytes_per_second,omitempty"`
}

// Outstanding counts sends posted and not known done.
func (q *QP) Outstanding() uint64 { return q.SendsPosted - min(q.SendsPosted, q.SendsCompleted) }

// Standing is how long a send has been outstanding with nothing posted or completed since; 0: none is.
func (q *QP) Standing(nowNS uint64) time.Duration {
	if q.Outstanding() == 0 {
		return 0
	}
	return Since(nowNS, max(q.LastPostNS, q.LastCompletionNS))
}

// Family is the sisterhood of a queue pair: communicator and peer.
type Family struct {
	Comm           int64
	CommGeneration uint32
	Peer           int32
}

// Family gives the queue pair's; ok is false where it is not known to carry a communicator.
func (q *QP) Family() (f Family, ok bool) {
	return Family{q.CommIndex, q.CommGeneration, q.Peer}, q.CommIndex >= 0 && q.Peer >= 0
}

// Lags gives the queue pairs of a process that lag behind their sisters now, in the order of the list. Rates are of the time since before, an
// earlier list; of their whole life where that is empty.
func Lags(before, now []QP, nowNS uint64) []Lag {
	earlier := make(map[uint32]*QP, len(before))
	for i := range before {
		earlier[before[i].Index] = &before[i]
	}
	families := map[Family][]lane{}
	for i := range now {
		if f, ok := now[i].Family(); ok {
			families[f] = append(families[f], laneOf(&now[i], earlier[now[i].Index]))
		}
	}
	var out []Lag
	for _, lanes := range families {
		if len(lanes) < 2 {
			continue
		}
		for i := range lanes {
			if l, lags := lanes[i].behind(lanes[:min(len(lanes), mostSisters)], nowNS); lags {
				out = append(out, l)
			}
		}
	}
	slices.SortFunc(out, func(a, b Lag) int { return cmp.Compare(a.QPIndex, b.QPIndex) })
	return out[:min(len(out), mostLags)]
}

// lane is a queue pair and what it did in a span of time.
type lane struct {
	qp            *QP
	bytes, sends  uint64
	epochs        uint32
	bytesASecond  float64 // Of active time; 0: too little to tell.
	bytesEachSend float64
}

func laneOf(q, before *QP) lane {
	l := lane{qp: q, bytes: q.SendBytes, sends: q.SendsPosted, epochs: q.Epochs}
	if before != nil && before.Generation == q.Generation && before.SendBytes <= q.SendBytes && before.SendsPosted <= q.SendsPosted && before.Epochs <= q.Epochs {
		l.bytes, l.sends, l.epochs = q.SendBytes-before.SendBytes, q.SendsPosted-before.SendsPosted, q.Epochs-before.Epochs
	}
	if l.sends > 0 {
		l.bytesEachSend = float64(l.bytes) / float64(l.sends)
	}
	if l.epochs > 0 {
		l.bytesASecond = float64(l.bytes) / (float64(l.epochs) * EpochNS / 1e9)
	}
	return l
}

func (l *lane) behind(family []lane, nowNS uint64) (Lag, bool) {
	lag := Lag{QPIndex: l.qp.Index}
	flows := 0
	var rates []float64
	for i := range family {
		s := &family[i]
		if s.qp == l.qp {
			continue
		}
		if s.qp.Standing(nowNS) < StandsAfter {
			flows++
		}
		alike := max(s.bytesEachSend, l.bytesEachSend) <= likeSends*min(s.bytesEachSend, l.bytesEachSend)
		if alike && s.bytesASecond > 0 {
			rates = append(rates, s.bytesASecond)
		}
	}
	if stuck := l.qp.Standing(nowNS); stuck >= StandsAfter {
		lag.Kind, lag.StuckNS, lag.Sisters = LagStanding, uint64(stuck), len(family)-1
		return lag, flows > 0
	}
	if len(rates) == 0 || l.epochs < lagEpochs {
		return lag, false
	}
	slices.Sort(rates)
	lag.Kind, lag.Sisters, lag.BytesPerSecond, lag.SistersBytesPerSecond = LagSlow, len(rates), l.bytesASecond, rates[(len(rates)-1)/2]
	return lag, lag.BytesPerSecond < lagRatio*lag.SistersBytesPerSecond
}
