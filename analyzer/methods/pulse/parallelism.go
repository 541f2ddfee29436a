// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pulse

// Parallelism is the kind of parallelism that a communicator serves.
type Parallelism int

// Kinds of parallelism (P8).
const (
	None Parallelism = iota // Small operations: gathering a loss, barriers.
	Data
	Tensor
	Pipeline
	Expert
	Context // Blocks of keys and values move around a ring.
)

func (p Parallelism) String() string {
	return [...]string{"none", "data", "tensor", "pipeline", "expert", "context"}[p]
}

// Traffic is what one communicator carries in one iteration.
type Traffic struct {
	Collectives     int   // Collective operations.
	CollectiveBytes int64 // Total of all collectives.
	P2P             int   // Sends.
	P2PBytes        int64
	Pairs           int  // Ordered pairs of ranks that exchange anything.
	Size            int  // Ranks.
	Around          bool // The last rank of the row sends to the first.
}

// Infer gives what a communicator serves, by the tree of figure 5. With sends and receives it is a pipeline when ranks talk to
// their neighbours in a row, experts when every rank talks to every other, and context when data moves around a ring in one
// direction. With collectives it is tensor parallelism when they are many, and data parallelism when they are few and large. A
// communicator that carries little serves none.
func Infer(t Traffic) Parallelism {
	const (
		small = 1 << 20 // Bytes an iteration.
		many  = 8       // Operations an iteration: tensor parallelism synchronises at every layer.
	)
	if t.P2P > 0 && t.P2PBytes >= t.CollectiveBytes {
		if t.P2PBytes < small {
			return None
		}
		// A row 1->…->N->…->1 has 2(N-1) ordered pairs, a full mesh N(N-1).
		if mesh := t.Size * (t.Size - 1); t.Size > 2 && 2*t.Pairs > mesh+2*(t.Size-1) {
			return Expert
		}
		// Data moves around a ring in one direction only; in a pipeline gradients come back, interleaved or not.
		if t.Around && t.Size > 2 && t.Pairs == t.Size {
			return Context
		}
		return Pipeline
	}
	if t.Collectives == 0 || t.CollectiveBytes < small {
		return None
	}
	if t.Collectives >= many {
		return Tensor
	}
	return Data
}
