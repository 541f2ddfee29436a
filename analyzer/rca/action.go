// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

// ActionFor suggests what to do.
func ActionFor(class Class, cause Cause) string {
	if class == Benign {
		return "Nothing to do: wait."
	}
	if a, ok := actions[cause]; ok {
		return a
	}
	return "Find out why the sources listed as not seen do not answer, then ask again."
}

var actions = map[Cause]string{
	CauseProcessStopped:   "Resume the process (kill -CONT PID), or find who stopped it. If nobody did, restart the job without this host.",
	CauseProcessGone:      "Read the last output of the process and the kernel log (dmesg -T | grep -i -e oom -e xid -e segfault) for why it died. Restart the job from its checkpoint.",
	CauseException:        "Read the whole traceback of this rank: the exceptions of the others follow from it.",
	CauseHostLost:         "Check the power and the management network of the host (ping, ipmitool power status). Restart the job without it.",
	CauseNotCalled:        "Dump the Python stack of the process (py-spy dump --pid PID). Look for the data loader, a lock, an exception handler, or a branch that the others did not take.",
	CauseStorage:          "Check the file system that the process reads or writes (mount, server, quota). The process cannot be killed while it is blocked there.",
	CauseKernelNotRunning: "Check the GPU (nvidia-smi, Xid in the kernel log) and the kernel that runs before the operation on the same stream.",
	CauseOtherOp:          "Compare the code paths of the named ranks: they called different operations at the same place.",
	CauseDeadlock:         "Make all ranks call the operations of these groups in one order, or put them on one stream.",
	CauseGPU:              "Check the GPU (Xid, ECC, clocks, NVLink errors); drain the host and restart the job without it.",
	CauseNetworkSend:      "Check NIC, cable and switch port of the sending rank (ibstat, perfquery, ethtool -S). Drain the host if error counters grow.",
	CauseReceiver:         "Check the CPU use of the receiving process (top -H -p PID) and its NIC: its proxy thread does not post buffers.",
	CausePCIe:             "Check width and speed of the PCIe links of that GPU and NIC (lspci -vv, line LnkSta) and the peer-memory driver (lsmod | grep peermem).",
	CauseProxy:            "Check CPU use (top -H -p PID) and affinity (taskset -acp PID) of the process: its NCCL proxy thread does not get CPU time.",
	CauseCPU:              "Check CPU pressure (cat /proc/pressure/cpu), affinity (taskset -acp PID) and the stack of the process (py-spy dump --pid PID).",
	CauseStage:            "Move layers from this stage to others: the model is cut unevenly, and no machine is bad.",
	CauseRouting:          "Balance the experts (capacity factor, auxiliary loss): routing is uneven, no machine is bad.",
	CauseData:             "Balance sequence lengths between ranks: the data is uneven, no machine is bad.",
}
