// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

// ActionFor suggests what to do.
func ActionFor(class Class, cause Cause) string {
	if class == Benign {
		return "Nothing: wait."
	}
	if a, ok := actions[cause]; ok {
		return a
	}
	return "Look at what was not seen, then ask again."
}

var actions = map[Cause]string{
	CauseProcessStopped:   "Resume the process (kill -CONT) or find who stopped it; if nobody did, restart the job without this host.",
	CauseProcessGone:      "Read the process's last output and the kernel log for why it died (OOM, Xid); restart the job from its checkpoint.",
	CauseException:        "Read the whole traceback of the rank named: what the others raised follows from it.",
	CauseHostLost:         "Check the host's power and management network; restart the job without it.",
	CauseNotCalled:        "Dump the Python stack of the process (py-spy dump): data loader, lock, exception handler or a branch the others did not take.",
	CauseStorage:          "Check the file system that the process reads or writes (mount, server, quota); the process cannot be killed while it is blocked there.",
	CauseKernelNotRunning: "Check the GPU (nvidia-smi, Xid in the kernel log) and the kernel that runs before the operation on the same stream.",
	CauseOtherOp:          "Compare the code paths of the named ranks: they called different operations at the same place.",
	CauseDeadlock:         "Make all ranks enter these groups in one order, or put them on one stream.",
	CauseGPU:              "Check the GPU (Xid, ECC, clocks, NVLink errors); drain the host and restart the job without it.",
	CauseNetworkSend:      "Check NIC, cable and switch port of the sending rank (link state, error counters); drain the host if the counters grow.",
	CauseReceiver:         "Check the receiving process: its proxy thread does not post buffers (CPU starvation, stuck thread, NIC error).",
	CausePCIe:             "Check PCIe link width and speed and the peer-memory driver of that GPU and NIC.",
	CauseProxy:            "Check CPU use and affinity of the process: its NCCL proxy thread does not get to run.",
	CauseCPU:              "Check CPU pressure, affinity and the stack of the process.",
	CauseStage:            "Move layers from this stage to others: the cut of the model is uneven, no machine is bad.",
	CauseRouting:          "Balance the experts (capacity factor, auxiliary loss): routing is uneven, no machine is bad.",
	CauseData:             "Balance sequence lengths between ranks: the data is uneven, no machine is bad.",
}
