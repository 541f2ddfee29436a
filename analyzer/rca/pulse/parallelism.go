// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pulse

// Parallelism is what a communicator serves.
type Parallelism int

// Kinds of parallelism (P8).
const (
	None Parallelism = iota // Small operations: gathering a loss, barriers.
	Data
	Tensor
	Pipeline
	Expert
	Context // Blocks of keys and values go round a ring.
)

func (p Parallelism) String() string {
	return [...]string{"none", "data", "tensor", "pipeline", "expert", "context"}[p]
}

// Traffic is what one communicator carries in one iteration.
type Traffic struct {
	Collectives     int   // Collective operations.
	CollectiveBytes int64 // In all.
	P2P             int   // Sends.
	P2PBytes        int64
	Pairs           int  // Ordered pairs of ranks that exchange anything.
	Size            int  // Ranks.
	Around          bool // The last of the row sends to the first.
}

// Infer tells what a communicator serves by figure 5's tree: send and receive mean a pipeline when ranks talk to their
// neighbours in a row, experts when everybody talks to everybody, context when it goes round in one direction; collectives mean tensor parallelism when they are
// many, data parallelism when few and large; what carries little serves none.
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
		// Round a ring in one direction only; a pipeline comes back with gradients, interleaved or not.
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
