// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

// All numbers that decide are here. They are natural logarithms, in nats: 2.3 are a factor of ten. None needs a second decimal. Where no
// count is named they are a choice, made on the simulated jobs of seed 1, the drawn ones of seed 7 and the recordings of NCCL 2.28.

// What a letter is worth: how often it is seen where a world predicts it, allows it, or rules it out. A letter that is ruled out is still
// seen, because counters are read one after another and programs do what the model does not know.
const (
	likely   = -0.1     // Nine in ten.
	possible = -1.6     // One in five.
	unlikely = -2.5     // One in twelve.
	wrong    = -4.6     // One in a hundred.
	certain  = -16.0    // A process's state and a rank's calls are recorded where they happen: none in millions is false.
	lossy    = unlikely // Floor at a rank whose source dropped records: a tenth of them, as the harm records-10 of the scorecard does.

	reported   = possible // A host reports the fault that stopped its component in one of five cases,
	unreported = seldom   // and a fault that stopped nothing once in a thousand.
	chance     = rare     // A source falls silent within the very minute in which the job stops, for a reason of its own.
)

// How much rarer than nothing a fault is. A fault has to explain more than that. The order is meant, not the value.
const harmless, usual, seldom, rare, rarest = -5.0, -6.0, -7.0, -8.0, -9.0

var prior = [kinds]float64{
	Absent: usual, Stopped: usual, Gone: usual, GPU: usual, Proxy: rare, NIC: seldom, Wire: rare, OtherCall: seldom, Lost: seldom, Unseen: seldom,
	Ahead: rare, Crossed: rare, Saving: harmless, Starting: harmless, Liar: rarest,
}

const (
	another = rare // Two faults begin at once in one of three thousand jobs that stand still.
	beside  = 13.0 // A NIC that ranks of a host share is one fault: this takes back another, and most of the prior.

	// What an open term takes off between worlds that are near each other. It is no reason to assume one more fault.
	vague = -0.1
	// Worlds within so many nats of the best cannot be told from it: of two that are so far apart, the lesser holds in one of eight cases.
	near = 2.0
	// The same of a fault that nobody could see: the record that is missing could speak against it by one term that is wrong.
	nearUnseen = -wrong
	// A fault is named beside another where the ranks of other hosts show so many nats of it. Its own host alone may report what is false.
	witnessed = -wrong
	// Nobody is named where the best world explains more than this share of the observations badly.
	leftOpen = 0.1
)

// Bounds of the search and of the answer.
const (
	mostFaults = 3   // Faults that are looked for.
	mostPasses = 2   // Over the faults that were found, to put better ones in their place.
	mostRanks  = 8   // A place is named up to so many ranks: the GPUs of a host.
	mostNodes  = 256 // Nodes that are candidates, those first that their neighbours explain least.
	mostRounds = 64  // Rounds of Settle. A chain of waiting takes one for each pipeline stage.
)
