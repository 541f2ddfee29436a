// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"time"

	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// Options are the engine's thresholds. A zero field means its default, so the zero Options is ready to use.
type Options struct {
	// HangAfter is how long an operation must be without progress before it counts as stuck (default 2 s). Anything
	// younger may be a healthy operation that the snapshot happened to catch.
	HangAfter time.Duration
	// StorageBytesPerSec is the storage traffic from which a rank outside communication counts as busy with storage
	// (default 1 MiB/s).
	StorageBytesPerSec float64
	// FirstOps is the number of completed operations on a communicator up to which the job counts as in its first
	// step (default 1).
	FirstOps int64
	// FirstJobOps is the number of completed operations on any communicator of a rank from which its job is past its
	// first step (default 64).
	FirstJobOps int64
	// FirstStepLimit is how long a busy rank may keep others waiting in the first step (default 20 min), FirstStepIdle
	// how long one that shows no activity may (default 5 min).
	FirstStepLimit, FirstStepIdle time.Duration
	// UnexplainedAfter is how long a job may stand still before it pages even when nobody can be named (default 300 s,
	// the age from which CCL-D calls an operation hung, C4).
	UnexplainedAfter time.Duration
	// BusyCores is the CPU use in cores from which a process counts as busy (default 0.5).
	BusyCores float64
	// IrregularFactor is Holmes' delta: an iteration is irregular when longer than the window's mean times this
	// (default 1.1, H2).
	IrregularFactor float64
	// Alpha and Beta bound CCL-D's P = (Tmax-Tmin)/(Tmax-Tbase): above Beta computation is slow (S1), below Alpha
	// communication (S2), between both (S3) (defaults 0.4 and 0.6, C6).
	Alpha, Beta float64
	// Theta is CCL-D's bound on R = (Tmax-Tbase)/Tbase (default 3, C5).
	Theta float64
	// LateAfter is Mycroft's "constantly late" threshold (default 1 s, M7).
	LateAfter time.Duration
	// NameConfidence is the weight of evidence below which no verdict pages. Below it, evidence that others' waiting could
	// explain, or that was only partly seen, makes suspects and not culprits (default 0.5).
	NameConfidence float64
	// PageConfidence is the confidence from which a verdict that accuses somebody pages (default 0.5).
	PageConfidence float64
	// Incident: the evidence was kept because ranks waited, as dumps are. If no seen rank waits, that does not prove health while
	// ranks were not seen, or only in part.
	Incident bool
	// Without is a row of the tables, by name, that the engine leaves out: what changes is what it is good for.
	Without string `json:"-"`
	// Topology has the NICs, links and switches between ranks; nil unknown.
	Topology *topology.Topology
}

// WithDefaults fills in the fields that are zero.
func (o Options) WithDefaults() Options {
	setDefault(&o.HangAfter, 2*time.Second)
	setDefault(&o.StorageBytesPerSec, 1<<20)
	setDefault(&o.FirstOps, 1)
	setDefault(&o.FirstJobOps, 64)
	setDefault(&o.FirstStepLimit, 20*time.Minute)
	setDefault(&o.FirstStepIdle, 5*time.Minute)
	setDefault(&o.UnexplainedAfter, 300*time.Second)
	setDefault(&o.BusyCores, 0.5)
	setDefault(&o.IrregularFactor, 1.1)
	setDefault(&o.Alpha, 0.4)
	setDefault(&o.Beta, 0.6)
	setDefault(&o.Theta, 3)
	setDefault(&o.LateAfter, time.Second)
	setDefault(&o.NameConfidence, 0.5)
	setDefault(&o.PageConfidence, 0.5)
	return o
}

func setDefault[T time.Duration | float64 | int64 | int](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
