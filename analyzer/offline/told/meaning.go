// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package told

import (
	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// meaning is what follows from messages of a kind.
type meaning struct {
	kind grammar.Kind
	// strength orders what was seen: hardware that reports its own failure goes before a process that ended, that before the word of
	// another, and that before a connection that broke. It is the confidence of a verdict, too.
	strength float64
	// names: whom the message is about is to blame. suspects: he may be. Neither: the message is about a victim, or about nobody.
	names, suspects bool
	cause           rca.Cause // Empty: unknown.
	// unknown: the message is no verdict, only the best that was seen.
	unknown bool
	// why: it does not say why it came to that, so that the first failure that the log names belongs beside it.
	why    bool
	then   string // Sentences after the headline's first.
	action string
}

// Strengths of what else is known, to which those of messages compare.
const (
	ofMismatch   = 0.88  // Ranks called different operations.
	ofEnd        = 0.8   // A rank's process ended by itself.
	ofStandstill = 0.65  // A rank did not come.
	ofTogether   = 0.795 // All ended at once.
	ofWaiting    = 0.45  // Ranks wait, and nothing shows for whom.
	ofHealth     = 0.25
	ofNothing    = 0.05
)

var meanings = []meaning{
	{
		kind: grammar.GPUHardware, strength: 0.92, names: true, cause: rca.CauseGPU,
		action: "Drain the host and check the GPU: nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT; dmesg -T | grep -i xid. Reset the GPU, and replace it if the error comes again.",
	},
	{
		kind: grammar.LinkHardware, strength: 0.91, names: true, cause: rca.CauseNetworkSend,
		action: "Drain the host and check its links: nvidia-smi nvlink --status, nvidia-smi nvlink --errorcounters, ibstat; then the fabric manager, cables and switch ports.",
	},
	{
		kind: grammar.HostHardware, strength: 0.86, names: true, cause: rca.CauseHostLost,
		action: "Drain the host and read its kernel log and system event log (ipmitool sel list): it reported a hardware error.",
	},
	{
		kind: grammar.HostMemory, strength: 0.9, names: true, cause: rca.CauseProcessGone,
		action: "Give the job more host memory (sbatch --mem, the container's limit), or let it use less: fewer data loader workers, smaller prefetch, no copy of the model in host memory on each rank.",
	},
	{
		kind: grammar.SharedMemory, strength: 0.85, names: true, cause: rca.CauseException,
		action: "Give the container more shared memory (docker run --shm-size=16g or --ipc=host; in Kubernetes an emptyDir with medium: Memory at /dev/shm), or use fewer data loader workers.",
	},
	{
		kind: grammar.SameGPU, strength: 0.89, names: true, cause: rca.CauseException,
		then:   "The launch is misconfigured; no machine is bad.",
		action: "Give each rank a GPU of its own: torch.cuda.set_device(LOCAL_RANK) before the first operation, one process a GPU, and CUDA_VISIBLE_DEVICES as the launcher expects it.",
	},
	{
		kind: grammar.VersionMismatch, strength: 0.89, cause: rca.CauseException,
		then: "The environments differ; no machine is bad.", action: "Install one version of NCCL on all hosts: compare torch.cuda.nccl.version(), LD_LIBRARY_PATH and the container images.",
	},
	{
		kind: grammar.GPUProgram, strength: 0.82, names: true, cause: rca.CauseException,
		then:   "That is an error of the program, as a rule, and not of the GPU.",
		action: "Run with CUDA_LAUNCH_BLOCKING=1, so that the traceback shows the kernel, or under compute-sanitizer. Check indices and labels of this rank's data.",
	},
	{
		kind: grammar.GPUUnknown, strength: 0.81, names: true, cause: rca.CauseGPU,
		then:   "The program or the GPU may be the cause.",
		action: "Look for an Xid in the kernel log (dmesg -T | grep -i xid): with one, drain the host; without one, run with CUDA_LAUNCH_BLOCKING=1.",
	},
	{
		kind: grammar.NaNTransient, strength: 0.87, names: true, cause: rca.CauseGPU,
		action: "Drain the host and test the GPU (dcgmi diag -r 3): the same work gave another result.",
	},
	{
		kind: grammar.NotANumber, strength: 0.83, names: true, cause: rca.CauseException,
		action: "Look at this rank's data and learning rate at that iteration first. Run the step again on another GPU: if the result differs, test the GPU (dcgmi diag -r 3).",
	},
	{kind: grammar.GPUSetup, strength: 0.81, names: true, cause: rca.CauseException, action: "Compare CUDA_VISIBLE_DEVICES and the number of processes with nvidia-smi -L on this host; check the fabric manager (systemctl status nvidia-fabricmanager)."},
	{kind: grammar.Locked, strength: 0.74, names: true, cause: rca.CauseException, action: "Raise the limit of locked memory: ulimit -l unlimited, for Slurm and containers too (docker run --ulimit memlock=-1)."},
	{kind: grammar.DiskFull, strength: 0.84, names: true, cause: rca.CauseStorage, action: "Free space or raise the quota of the file system (df -h, df -i, quota), then restart the job from its checkpoint."},
	{kind: grammar.Storage, strength: 0.82, names: true, cause: rca.CauseStorage, action: "Check the file system that the process uses (mount, server, kernel log)."},
	{kind: grammar.GPUMemory, strength: 0.78, names: true, cause: rca.CauseException, action: "Use less GPU memory (smaller batch, activation checkpointing), or look for another process on this GPU (nvidia-smi)."},
	{
		kind: grammar.Crashed, strength: 0.79, names: true, cause: rca.CauseProcessGone,
		action: "Read the core dump or the native stack (coredumpctl, faulthandler), and the kernel log of its host: dmesg -T | grep -i -e segfault -e xid.",
	},
	{
		kind: grammar.Killed, strength: 0.77, names: true, cause: rca.CauseProcessGone,
		then:   "The process cannot have sent that signal itself.",
		action: "Look for who killed it: the kernel log of its host (dmesg -T | grep -i -e oom -e xid), the memory limit of its container or cgroup, the scheduler's record of the job.",
	},
	{kind: grammar.Raised, strength: 0.72, names: true, cause: rca.CauseException, action: "Read the whole traceback of this process: the exceptions of the others follow from it."},
	{kind: grammar.LauncherSignal, strength: 0.76, cause: rca.CauseProcessGone, then: "No rank is to blame.", action: "Start the job where its terminal's end does not reach it (tmux, setsid, nohup, sbatch), or find who sent the signal: the scheduler's record of the job, its time limit, preemption."},
	{kind: grammar.TimeLimit, strength: 0.76, cause: rca.CauseProcessGone, then: "No rank is to blame.", action: "Raise the time limit (sbatch --time), or save a checkpoint before it (sbatch --signal)."},
	{kind: grammar.Preempted, strength: 0.76, cause: rca.CauseProcessGone, then: "No rank is to blame.", action: "Restart the job from its checkpoint; see the scheduler's record (scontrol show job, sacct)."},
	{kind: grammar.Cancelled, why: true, strength: 0.37, unknown: true, then: "Somebody or the launcher cancelled it; the cause stands before that, if the log has it.", action: "See who cancelled the job: sacct -j JOB --format=State,ExitCode,Reason, and the log before this line."},
	{kind: grammar.Evicted, strength: 0.86, names: true, cause: rca.CauseProcessGone, action: "Give the pod requests and limits that fit, or the node more of what it lacked (kubectl describe pod, kubectl describe node)."},
	{kind: grammar.HostLost, strength: 0.87, names: true, cause: rca.CauseHostLost, action: "Check the power and the network of the host (ping, ipmitool power status, scontrol show node). Restart the job without it."},
	{kind: grammar.PortTaken, strength: 0.75, cause: rca.CauseException, then: "No rank is to blame.", action: "Find the process that has the port (ss -ltnp), which may be left over from an earlier run, or take another one (--master-port, --rdzv-endpoint)."},
	{kind: grammar.Leftovers, strength: 0.75, cause: rca.CauseException, then: "No rank is to blame.", action: "End the processes of the other run (pgrep -af train.py on all hosts), or take another port and another run id (--rdzv-id)."},
	{kind: grammar.Setup, strength: 0.74, names: true, cause: rca.CauseException, action: "Set NCCL_SOCKET_IFNAME to the network that all hosts share (ip -br addr)."},
	{
		kind: grammar.ClientsMissing, strength: 0.7, unknown: true,
		then:   "This is the start of the job, before NCCL: a process was not started, ended before, or cannot reach the store's host.",
		action: "Compare the number of processes started on each host with the world size, look for hosts whose log is empty, and try the store's port from each host (nc -vz MASTER_ADDR MASTER_PORT).",
	},
	{
		kind: grammar.StoreUnreached, strength: 0.62, unknown: true,
		then:   "The process that hosts the store has not started, has ended, or the network does not let connections through.",
		action: "Look at the log of the store's host first (rank 0 or the first node). Try its port from this host: nc -vz HOST PORT; check MASTER_ADDR, MASTER_PORT and firewalls.",
	},
	{
		kind: grammar.StoreGone, strength: 0.6, unknown: true,
		then:   "The process that hosts the store (rank 0, as a rule) ended before them, and is a suspect; whoever lost the store is a victim.",
		action: "Read the log of the process that hosts the store: rank 0, or torchrun's agent on the first node.",
	},
	{kind: grammar.Rendezvous, why: true, strength: 0.58, unknown: true, then: "The job did not start, or an agent left it.", action: "Compare --nnodes, --rdzv-id and --rdzv-endpoint of all hosts, and look for a host whose agent ended first."},
	{kind: grammar.WorkerDied, why: true, strength: 0.73, names: true, cause: rca.CauseProcessGone, action: "Read this worker's last lines and the kernel log of its host (dmesg -T | grep -i -e oom -e xid -e segfault)."},
	{kind: grammar.OneOfHost, why: true, strength: 0.57, unknown: true, action: "Start with `deepspeed --enable_each_rank_log DIR`, or see the kernel log of the host (dmesg -T | grep -i -e oom -e segfault -e xid): it has the pid of the process that ended."},
	{kind: grammar.Aborted, why: true, strength: 0.38, unknown: true, then: "A process aborts itself, as a rule after an error that stands before that.", action: "Read the lines of this process before it aborted: the error that made it do so."},
	{kind: grammar.Terminated, why: true, strength: 0.36, unknown: true, then: "Somebody ended it: the launcher because of another process, the scheduler or an operator.", action: "Find which process ended first, and see the scheduler's record of the job."},
	{kind: grammar.Exited, why: true, strength: 0.4, unknown: true, suspects: true, then: "The log does not say why.", action: "Read the output of this process (torchrun --tee 3 --log-dir DIR keeps it; @record makes torchrun show the exception)."},
	{
		kind: grammar.RemoteError, strength: 0.5, unknown: true, then: "It is a victim: the process on the other side ended, or the network between them failed.",
		action: "Look at the log of the other side's host first, and at what ended there. If all processes there lived on, check the network between the two (ibstat, ethtool -S).",
	},
	{
		kind: grammar.NetworkError, strength: 0.52, unknown: true, then: "The network between them failed, or the process on the other side ended.",
		action: "Look at what ended on the other side first; then check NIC, cable and switch port of both (ibstat, perfquery, ethtool -S).",
	},
	{
		kind: grammar.Connect, strength: 0.51, unknown: true, then: "Refused: no process listens there any more. Timed out or no route: the network or a firewall.",
		action: "Look at what ran on the other side and whether it ended; try it from this host (nc -vz HOST PORT), and set NCCL_SOCKET_IFNAME to the network that all hosts share.",
	},
	{kind: grammar.ForeignClient, strength: 0.52, unknown: true, then: "It disturbs the start of a communicator.", action: "Keep scanners and scrapers off these ports: bind NCCL to a network of its own (NCCL_SOCKET_IFNAME), or exclude its port range from the scan."},
	{kind: grammar.NCCLError, strength: 0.48, unknown: true, action: "Run with NCCL_DEBUG=INFO: the first warning of NCCL (NCCL WARN) says what failed, and on which host."},
	{
		kind: grammar.NCCLUsage, strength: 0.55, unknown: true, then: "NCCL refused the call: the program or its launch is wrong, as a rule, and no machine.",
		action: "Run with NCCL_DEBUG=WARN: NCCL says which argument it refuses. Look for two processes on one GPU (torch.cuda.set_device(LOCAL_RANK)), more processes than GPUs, and a world size that is not the number of processes.",
	},
	{
		kind: grammar.FirstFailed, strength: 0.32, unknown: true, then: "This line of the log names a failure best; it does not say whose fault it is.",
		action: "Read the log around this line, and the lines of other ranks before it.",
	},
	{
		kind: grammar.CutTraceback, strength: 0.315, unknown: true, then: "The last line of a traceback says what was wrong.",
		action: "Read the lines after this traceback in the log.",
	},
	{
		kind: grammar.SideThreads, strength: 0.21, unknown: true, then: "They wait for work in any job.",
		action: "Take the stacks of all threads of each rank again, with the first one: gdb -p PID -batch -ex 'thread apply all bt', or py-spy dump --native --pid PID.",
	},
	{kind: grammar.Disagree, strength: 0.56, unknown: true, action: "Compare the code paths of these ranks: they called different operations. Newer versions of PyTorch print numbers; TORCH_DISTRIBUTED_DEBUG=DETAIL compares each call."},
	{
		kind: grammar.Apart, strength: 0.46, unknown: true, then: "The messages do not name groups: if it is one group, the rank with the lowest number is behind.",
		action: "Take the stack and the log of the rank with the lowest number first. Flight Recorder dumps (TORCH_NCCL_TRACE_BUFFER_SIZE) and newer versions of PyTorch name the group.",
	},
	{kind: grammar.HungTask, strength: 0.54, suspects: true, unknown: true, cause: rca.CauseStorage, action: "Read the kernel stack of the process (cat /proc/PID/stack): a file system or a driver does not answer."},
	{kind: grammar.LibraryWaits, strength: 0.46, unknown: true, then: "It waits for others, which the message does not name.", action: "Take stacks of all ranks, and look for one outside this library."},
	{kind: grammar.OtherLibrary, strength: 0.44, unknown: true, action: "Look at the library's first error on each host."},
	{kind: grammar.ServerWatchdog, why: true, strength: 0.43, unknown: true, then: "It waits, or does not get on; the message does not say for whom.", action: "Take stacks of all workers of the server (py-spy dump --pid PID): one outside communication holds up the others."},
	{kind: grammar.ClosedFirst, strength: 0.35, suspects: true, unknown: true, then: "It may have ended first, or only closed first because of an error before.", action: "Read the log and the exit status of that process first."},
	{kind: grammar.Starting, strength: 0.41, unknown: true, action: "Take stacks of the ranks that it waits for, and look whether their processes run and reach this host (NCCL_SOCKET_IFNAME, firewalls)."},
	{
		kind: grammar.WatchdogStuck, why: true, strength: 0.42, unknown: true, then: "In a hang of the job that is a consequence, as a rule.",
		action: "Take stacks of all ranks while the job hangs (py-spy dump --native --pid PID), and look for a rank outside communication. Where only one rank's watchdog is stuck, read the kernel log of its host: dmesg -T | grep -i xid.",
	},
	{kind: grammar.Returned, why: true, strength: 0.19, unknown: true, action: "Run with NCCL_DEBUG=INFO and give the logs of all ranks: the first warning is nearest to the cause."},
	{kind: grammar.Awaited, strength: 0.53, suspects: true, unknown: true, then: "It may itself wait for another.", action: "Take the stack of that rank, and read its log and the exit status of its process."},
	{kind: grammar.Behind, strength: 0.47, suspects: true, unknown: true, then: "A running job looks like this for a moment, too.", action: "If the job hangs, take the stack of this process; if it ran on, its log ends earlier than the others'."},
	{kind: grammar.Slower, strength: 0.47, suspects: true, unknown: true, then: "A detector compared it with the others; it does not say why.", action: "Look at this GPU first (nvidia-smi -q -d CLOCK,TEMPERATURE,PERFORMANCE; dcgmi diag -r 3), then at what its rank does between operations (py-spy dump)."},
	{kind: grammar.BrokenOff, strength: 0.33, unknown: true, then: "It is a victim, as a rule: its communication broke off because of another process.", action: "Look for the process that ended first or never came: its log, its exit status, the kernel log of its host."},
	{kind: grammar.Elsewhere, strength: 0.3, unknown: true, action: "Give the lines with \"Watchdog caught\" of all ranks, or Flight Recorder dumps: they show the operation and its group."},
	{kind: grammar.Warning, strength: 0.2, unknown: true, action: "Run with NCCL_DEBUG=INFO and give the logs of all ranks: the first warning is nearest to the cause."},
}

// Decides reports whether messages of a kind say what is wrong, and why.
func Decides(k grammar.Kind) bool {
	m := meaningOf(k)
	return m != nil && !m.why && m.strength > ofWaiting
}

func meaningOf(k grammar.Kind) *meaning {
	for i := range meanings {
		if meanings[i].kind == k {
			return &meanings[i]
		}
	}
	return nil
}
