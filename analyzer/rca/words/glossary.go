// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package words

import (
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Class says what a class means, empty for one that verdicts do not have.
func Class(c rca.Class) string { return classes[c] }

// Cause says what a cause means, empty for one that verdicts do not have.
func Cause(c rca.Cause) string { return causes[c] }

// Classes gives all classes, in the order of their names.
func Classes() []rca.Class { return slices.Sorted(maps.Keys(classes)) }

// Causes gives all causes, in the order of their names.
func Causes() []rca.Cause { return slices.Sorted(maps.Keys(causes)) }

var classes = map[rca.Class]string{
	rca.NotEntered:   "The job stands still. A rank has not entered the operation that its peers wait in.",
	rca.Inconsistent: "The job stands still. Ranks called different operations, or called them in a different order.",
	rca.Fault:        "The job stands still. All ranks entered the operation, and a component inside it failed.",
	rca.SlowCompute:  "The job is slow. One rank computes for longer than its peers.",
	rca.SlowComm:     "The job is slow. A transfer takes longer than on the peers.",
	rca.SlowMixed:    "The job is slow. Both computation and transfers take longer.",
	rca.Imbalance:    "The job is slow. The work is cut unevenly, and no machine is bad.",
	rca.GlobalSlow:   "The job is slow. All ranks are slower alike, and no machine is bad.",
	rca.Benign:       "The job waits for something legitimate. Nothing is broken.",
	rca.Healthy:      "Nothing wrong is seen.",
	rca.Unknown:      "There is not enough evidence to name anybody.",
}

var causes = map[rca.Cause]string{
	rca.CauseProcessStopped:   "The process is stopped, by a signal or by a debugger.",
	rca.CauseProcessGone:      "The process exited without orderly shutdown.",
	rca.CauseException:        "The program raised an exception that nothing caught.",
	rca.CauseHostLost:         "The host, or the exporter on it, does not answer.",
	rca.CauseNotCalled:        "The process runs outside NCCL: user code, the data loader, or a lock of the interpreter.",
	rca.CauseStorage:          "The process is blocked in storage.",
	rca.CauseKernelNotRunning: "The operation was called, but its kernel never started on the GPU.",
	rca.CauseOtherOp:          "The rank called another operation, size, type or root than its peers.",
	rca.CauseDeadlock:         "Groups were entered in opposite orders, and each side waits for the other.",
	rca.CauseGPU:              "The GPU, or its kernel, stopped or is slow.",
	rca.CauseNetworkSend:      "The local NIC or link does not deliver what was sent.",
	rca.CauseReceiver:         "The receiver posts no buffers.",
	rca.CausePCIe:             "The PCIe path between NIC and GPU is slow or stuck.",
	rca.CauseProxy:            "NCCL's proxy thread, which moves data over the network, is late.",
	rca.CauseCPU:              "The process does not get enough CPU time.",
	rca.CauseCheckpoint:       "A checkpoint is written or read.",
	rca.CauseFirstStep:        "The job is in its first step: it connects, compiles and fills caches.",
	rca.CauseJobEnd:           "The job is ending.",
	rca.CauseStage:            "A pipeline stage has more work than the others.",
	rca.CauseRouting:          "Some experts get more tokens than others.",
	rca.CauseData:             "Some ranks get more data than others.",
	rca.CauseUnknown:          "The cause is not visible in this evidence.",
}
