// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

const (
	ofElastic = "torchrun, accelerate and what else uses torch.distributed.elastic"
	atElastic = "github.com/pytorch/pytorch torch/distributed/elastic"
)

// endRows are ends of processes with the rank, as launchers list them.
var endRows = []Row{
	{
		Kind: ListedEnd, Prints: ofElastic + " of 1.9", Source: atElastic + "/multiprocessing/errors", Anchors: []string{"Root Cause:\n[0]:"},
		Test: "Root Cause:\n[0]:\n  time: x\n  rank: 3 (local_rank: 3)",
	},
	{
		Kind: ListedEnd, Prints: ofElastic + ", 1.10 and newer", Source: atElastic + "/multiprocessing/errors",
		Anchors: []string{"Root Cause (first observed failure):"}, Test: "Root Cause (first observed failure):\n[0]:\n  time : x\n  rank      : 3 (local_rank: 3)",
	},
	{
		Kind: RankEnd, Prints: ofElastic + ", where the list's head is missing", Source: atElastic + "/multiprocessing/errors", Anchors: []string{" (local_rank: "},
		Pattern: re(`rank +: (?P<rank>\d+) \(local_rank: \d+\)\s*\n\W*exitcode +: (?P<code>-?\d+) +\(pid: (?P<pid>\d+)\)`),
		Test:    "  rank      : 3 (local_rank: 3)\n  exitcode  : -11 (pid: 6421)\n  error_file: <N/A>",
	},
	{
		Kind: TaskEnd, Prints: "srun", Source: "github.com/SchedMD/slurm src/srun/libsrun/launch.c",
		Anchors: []string{"srun: error: "},
		Pattern: re(`srun: error: (?P<host>\S+): tasks? (?P<ranks>[\d,\- ]+): (?P<what>Out Of Memory|Killed|Segmentation fault|Bus error|Illegal instruction|Aborted|Terminated|Floating point exception|Exited with exit code \d+)(?: \(core dumped\))?`),
		Test:    "srun: error: gpu-a: tasks 1-3: Out Of Memory",
	},
	{
		Kind: RankEnd, Prints: "horovodrun", Source: "github.com/horovod/horovod horovod/runner/gloo_run.py",
		Anchors: []string{"exit with status code "},
		Pattern: re(`Process (?P<rank>\d+) exit with status code (?P<code>\d+)`), Test: "Process 3 exit with status code 1.",
	},
	{
		Kind: RankEnd, Prints: "mpirun, prterun and prun (Open MPI 1.7 to 5)", Source: "github.com/openpmix/prrte src/tools/prun/help-prun.txt",
		Anchors: []string{"noticed that process rank"}, Flat: true,
		Pattern: re(`noticed that process rank (?P<rank>\d+) with PID (?:(?P<pid>\d+)|\w+) on node (?P<host>\S+) exited on signal (?P<signal>\d+)`),
		Test:    "mpirun noticed that process rank 7 with PID 4711 on node gpu-b exited on signal 9 (Killed).",
	},
	{
		Kind: RankEnd, Prints: "mpirun, prterun and prun (Open MPI 1.7 to 5)", Source: "github.com/openpmix/prrte src/tools/prun/help-prun.txt",
		Anchors: []string{"has exited due to process rank"}, Flat: true,
		Pattern: re(`has exited due to process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) (?P<how>exiting improperly|exiting without calling "?\w+"?)`),
		Test:    "mpirun has exited due to process rank 6 with PID 0 on\nnode gpu-b exiting improperly. There are three reasons this could occur:",
	},
	{
		Kind: RankEnd, Prints: "mpirun, prterun and prun (Open MPI)", Source: "github.com/openpmix/prrte src/tools/prun/help-prun.txt",
		Anchors: []string{"Process name: [["}, Flat: true,
		Pattern: re(`Process name: \[\[\d+,\d+\],(?P<rank>\d+)\] Exit code: (?P<code>\d+)`),
		Test:    "  Process name: [[29973,1],5]\n  Exit code:    1",
	},
	{
		Kind: RankEnd, Prints: "prterun (Open MPI 5.0.3 and newer)", Source: "github.com/openpmix/prrte src/docs/show-help-files",
		Anchors: []string{"process(es) returned a non-zero exit code", "Process name: [prterun-", "Process name: [mpirun-"}, Flat: true,
		Pattern: re(`Process name: \[(?:prterun|mpirun)-[^\]]*@\d+,(?P<rank>\d+)\] Exit code: (?P<code>\d+)`),
		Test:    "   Process name: [prterun-gpu-a-4000@1,5]\n   Exit code:    1",
	},
	{
		Kind: RankEnd, Prints: "Hydra's mpiexec (MPICH, Intel MPI)", Source: "github.com/pmodels/mpich src/pm/hydra",
		Anchors: []string{"APPLICATION PROCESSES"}, Flat: true,
		Pattern: re(`APPLICATION PROCESSES = RANK (?P<rank>\d+) PID (?P<pid>\d+) RUNNING AT (?P<host>\S+) = (?:KILLED BY SIGNAL: (?P<signal>\d+)|EXIT (?:CODE|STATUS): (?P<code>\d+))`),
		Test:    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 66572 RUNNING AT gpu-a\n=   KILLED BY SIGNAL: 9 (Killed)",
	},
	{
		Kind: RankEnd, Prints: "MPI_Abort (Open MPI)", Source: "github.com/open-mpi/ompi ompi/mpi/help-mpi-api.txt",
		Anchors: []string{"MPI_ABORT was invoked on rank"}, Flat: true,
		Pattern: re(`MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator \S+(?: \S+){0,8}? (?:with errorcode|Errorcode:) (?P<code>-?\d+)`),
		Test:    "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.",
	},
	{
		Kind: RankEnd, Prints: "MPI_Abort (MPICH)", Source: "github.com/pmodels/mpich src/mpi/errhan",
		Anchors: []string{"called MPI_Abort("},
		Pattern: re(`called MPI_Abort\(\w+, (?P<code>-?\d+)\) - process (?P<rank>\d+)`), Test: "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3",
	},
	{
		Kind: RankEnd, Prints: "MPICH and Intel MPI", Source: "github.com/pmodels/mpich src/mpi/errhan",
		Anchors: []string{"): Fatal error in "},
		Pattern: re(`Abort\((?P<code>\d+)\) on node \d+ \(rank (?P<rank>\d+) in comm 0\): Fatal error in \w+`),
		Test:    "Abort(1014056975) on node 3 (rank 3 in comm 0): Fatal error in PMPI_Allreduce: Other MPI error",
	},
	{
		Kind: Lost, Prints: "Ray's raylet", Source: "github.com/ray-project/ray src/ray/raylet",
		Anchors: []string{"Worker IP address: "},
		Pattern: re(`(?s)Worker IP address: (?P<host>\S+).{0,80}?Worker PID: (?P<pid>\d+)(?: Worker exit type: (?P<type>\w+) Worker exit detail: (?P<what>[^\n]+))?`),
		Test:    "Worker IP address: 10.0.0.7 Worker port: 10002 Worker PID: 4711 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits",
	},
	{
		Kind: Lost, Prints: "Ray's ActorDiedError", Source: "github.com/ray-project/ray python/ray/exceptions.py",
		Anchors: []string{"The actor died unexpectedly before finishing this task"},
		Pattern: re(`(?s)The actor died unexpectedly before finishing this task\..{0,400}?\bpid: (?P<pid>\d+)(?:.{0,200}?\bip: (?P<host>\S+)\s*(?:[^\n]*?Worker exit type: (?P<type>\w+)(?: Worker exit detail: (?P<detail>[^\n]+))?|(?P<what>[^\n]*)))?`),
		Test:    "The actor died unexpectedly before finishing this task.\n\tclass_name: W\n\tpid: 4711\n\tip: 10.0.0.7\nThe actor is dead because",
	},
	{
		Kind: Lost, Prints: "Ray, without the process", Source: "github.com/ray-project/ray python/ray/exceptions.py; github.com/Unakar/Logic-RL issue 18",
		Anchors: []string{"actor is dead because its worker process has died"},
		Pattern: re(`actor is dead because its worker process has died\. Worker exit type: (?P<type>\w+) Worker exit detail: (?P<what>[^\n]+)`),
		Test:    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits",
	},
	{
		Kind: Lost, Prints: "Ray's GCS", Source: "github.com/ray-project/ray src/ray/gcs",
		Anchors: []string{"has been marked dead because"},
		Pattern: re(`The node with (?:node id|client ID):? \S+?(?: and (?:address|ip): (?P<host>\S+?))?(?: and node name: \S+)? has been marked dead because (?:the )?(?P<what>[^.\n]+)`),
		Test:    "The node with node id: ab12 and address: 10.0.0.7 and node name: 10.0.0.7 has been marked dead because the detector has missed too many heartbeats from it.",
	},
	{
		Kind: Watched, Prints: "NVRx rank monitors", Source: "github.com/NVIDIA/nvidia-resiliency-ext src/nvidia_resiliency_ext/fault_tolerance",
		Anchors: []string{"RankMonServer", "[workload:"},
		Pattern: re(`(?:RankMonServer\d+@[^\]:]+:|\[workload:)(?P<rank>\d+)[\]\(][^\n]*?(?:(?P<mute>Did not get (?:initial|subsequent) heartbeat)|Section '(?P<section>[^'\n]+)' has been open for|(?P<out>Was out of section) for)`),
		Test:    "[RankMonServer4711@node-1:3] Section 'step' has been open for 60s",
	},
	{
		Kind: Slower, Prints: "NVRx straggler detection", Says: "is slower than the others, as NVRx measures (${what})", Source: "github.com/NVIDIA/nvidia-resiliency-ext src/nvidia_resiliency_ext/straggler",
		Anchors: []string{"STRAGGLER DETECTION WARNING: "},
		Pattern: re(`STRAGGLER DETECTION WARNING: (?P<what>[^.\n]+)\. Affected ranks: (?P<who>[^\n]+)`),
		Test:    "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [rank=3]",
	},
	{
		Kind: Placed, Prints: "Ray Train", Source: "github.com/ray-project/ray python/ray/train",
		Anchors: []string{") world_rank="},
		Pattern: re(`\((?:node_id=\w+, )?ip=(?P<host>[\w.:]+), pid=(?P<pid>\d+)\) world_rank=(?P<rank>\d+)`),
		Test:    "- (node_id=ab, ip=10.0.0.7, pid=4711) world_rank=3, local_rank=1, node_rank=0",
	},
}

// launcherRows are ends of processes of which the rank has to be found, and what launchers say of themselves.
var launcherRows = []Row{
	{
		Kind: ProcessEnd, Prints: ofElastic, Source: atElastic + "/multiprocessing/api.py",
		Anchors: []string{"failed (exitcode: "},
		Pattern: re(`failed \(exitcode: (?P<code>-?\d+)\)(?: local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\))?`),
		Test:    "E0101 10:00:01.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 103) of binary: /opt/bin/python",
	},
	{
		Kind: ProcessEnd, Prints: ofElastic + ", 1.9 to 1.12, of a process without an error file", Source: atElastic + "/multiprocessing/errors",
		Anchors: []string{") FAILED (exitcode "},
		Pattern: re(`Child process (?P<pid>\d+) \(local_rank (?P<local>\d+)\) FAILED \(exitcode (?P<code>-?\d+)\)`),
		Test:    "Child process 103 (local_rank 2) FAILED (exitcode -9)",
	},
	{
		Kind: Ending, Prints: ofElastic, Source: atElastic + "/multiprocessing/api.py",
		Anchors: []string{" closing signal SIG"},
		Pattern: re(`Sending process (?P<pid>\d+) closing signal (?P<signame>SIG\w+)`), Test: "Sending process 101 closing signal SIGTERM",
	},
	{
		Kind: LauncherSignal, Prints: ofElastic, Source: atElastic + "/agent/server/api.py",
		Anchors: []string{" death signal, shutting down workers", "SignalException: Process"},
		Pattern: re(`(?:Received (?:Signals\.)?(?P<signal>\w+) death signal|SignalException: Process \d+ got signal: (?P<signal2>\w+))`),
		Test:    "Received 1 death signal, shutting down workers",
	},
	{
		Kind: Rendezvous, Prints: ofElastic, Source: atElastic + "/rendezvous", Says: "could not meet its peers: ${what}",
		Anchors: []string{"RendezvousTimeoutError", "RendezvousConnectionError", "RendezvousClosedError", "rendezvous_handler: The node"},
		Pattern: re(`(?P<what>Rendezvous(?:Timeout|Connection|Closed)Error[^\n"]*)`),
		Test:    "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
	},
	{
		Kind: Ending, Prints: "DeepSpeed's launcher", Source: "github.com/deepspeedai/DeepSpeed deepspeed/launcher/launch.py",
		Anchors: []string{"] Killing subprocess "}, Pattern: re(`\] Killing subprocess (?P<pid>\d+)`), Test: "[INFO] [launch.py:318:sigkill_handler] Killing subprocess 501",
	},
	{
		Kind: OneOfHost, Prints: "DeepSpeed's launcher; the command is that of the process that it started last", Source: "github.com/deepspeedai/DeepSpeed deepspeed/launcher/launch.py",
		Anchors: []string{"exits with return code = "}, Pattern: re(`exits with return code = (?P<code>-?\d+)`),
		Test: "[2026-01-01 10:00:05,000] [ERROR] [launch.py:324:sigkill_handler] ['/opt/bin/python', '--local_rank=1'] exits with return code = -11",
	},
	{
		Kind: ProcessEnd, Prints: "torch.multiprocessing.spawn", Source: "github.com/pytorch/pytorch torch/multiprocessing/spawn.py",
		Anchors: []string{"terminated with signal ", "terminated with exit code "},
		Pattern: re(`[Pp]rocess (?P<local>\d+) terminated with (?:signal (?P<signame>SIG\w+)|exit code (?P<code>\d+))`),
		Test:    "torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL",
	},
	{
		Kind: ProcessEnd, Prints: "paddle.distributed.launch, 2.3 and newer, which numbers the processes of a host", Source: "github.com/PaddlePaddle/Paddle python/paddle/distributed/launch/job/container.py; github.com/PaddlePaddle/PaddleOCR issue 11773",
		Anchors: []string{"Container rank "}, Pattern: re(`Container rank (?P<local>\d+) status failed cmd \[[^\n]*?\] code (?P<code>-?\d+) log`),
		Test: "Container rank 0 status failed cmd ['/usr/bin/python', '-u', 'train.py'] code -9 log ./debug/workerlog.0",
	},
	{
		Kind: Exited, Prints: "paddle.distributed.launch before 2.3", Source: "github.com/PaddlePaddle/Paddle python/paddle/distributed/utils.py, issue 27081", Says: "was aborted, says Paddle's launcher",
		Anchors: []string{"the trainer process with rank=["}, Pattern: re(`the trainer process with rank=\[(?P<ranks>[\d, ]+)\] was aborted`),
		Test: "ABORT!!! Out of all 4 trainers, the trainer process with rank=[0, 3] was aborted. Please check its log",
	},
	{
		Kind: Exited, Prints: "torch.multiprocessing.spawn", Source: "github.com/pytorch/pytorch torch/multiprocessing/spawn.py", Says: "ended with an exception",
		Anchors: []string{" terminated with the following error"}, Pattern: re(`-- Process (?P<local>\d+) terminated with the following error`),
		Test: "-- Process 1 terminated with the following error:",
	},
	{
		Kind: ProcessEnd, Prints: "Open MPI's handler of signals", Source: "github.com/open-mpi/ompi opal/util/stacktrace.c",
		Anchors: []string{"] Signal: "}, Pattern: re(`\[(?P<host>[\w.-]+):(?P<pid>\d+)\] Signal: [\w ]+ \((?P<signal>\d+)\)`), Test: "[gpu-a:4711] Signal: Segmentation fault (11)",
	},
	{
		Kind: ProcessEnd, Prints: "UCX's handler of signals", Source: "github.com/openucx/ucx src/ucs/debug/debug.c",
		Anchors: []string{"] Caught signal "}, Pattern: re(`\[(?P<host>[\w.-]+):(?P<pid>\d+) *:\d+:\d+\] Caught signal (?P<signal>\d+)`), Test: "[gpu-a:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)",
	},
	{
		Kind: ProcessEnd, Prints: "Hydra's mpiexec before 3.3, without the process", Source: "github.com/pmodels/mpich src/pm/hydra; github.com/openai/mlsh issue 17",
		Anchors: []string{"WITH THE EXIT STRING: "}, Pattern: re(`^APPLICATION TERMINATED WITH THE EXIT STRING: [\w ]+ \(signal (?P<signal>\d+)\)`), Test: "APPLICATION TERMINATED WITH THE EXIT STRING: Bus error (signal 7)",
	},
	{
		Kind: ProcessEnd, Prints: "kubectl describe", Source: "github.com/kubernetes/kubectl pkg/describe/describe.go",
		Anchors: []string{"Exit Code: "}, Pattern: re(`Exit Code: +(?P<code>[1-9]\d*)`), Test: "      Exit Code:    139",
	},
	{
		Kind: ProcessEnd, Prints: "PyTorch Lightning", Source: "github.com/Lightning-AI/pytorch-lightning strategies/launchers/subprocess_script.py",
		Anchors: []string{"Child process with PID "},
		Pattern: re(`Child process with PID (?P<pid>\d+) terminated with code (?P<code>-?\d+)`), Test: "[rank: 0] Child process with PID 49 terminated with code 1. Forcefully terminating all other processes",
	},
	{
		Kind: ProcessEnd, Prints: "shells", Source: "gnu.org bash",
		Anchors: []string{" Segmentation fault ", " Bus error  ", " Killed     ", " Aborted    ", " Illegal instruction "},
		Pattern: re(`line \d+: +(?P<pid>\d+) (?P<what>Segmentation fault|Bus error|Killed|Aborted|Illegal instruction) +(?:\(core dumped\) )?\S+`),
		Test:    "/var/spool/slurmd/job7/slurm_script: line 12:  4711 Killed                  python train.py",
	},
	{
		Kind: ProcessEnd, Prints: "Python's subprocess (accelerate, launch scripts)", Source: "docs.python.org library/subprocess",
		Anchors: []string{"returned non-zero exit status "},
		Pattern: re(`(?:Command '(?P<command>[^\['\n][^'\n]*))?' returned non-zero exit status (?P<code>\d+)`), Test: "subprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit status 1.",
	},
	{
		Kind: ProcessEnd, Prints: "Python's subprocess (accelerate, launch scripts)", Source: "docs.python.org library/subprocess",
		Anchors: []string{"' died with <Signals."},
		Pattern: re(`' died with <Signals\.(?P<signame>SIG\w+): \d+>`), Test: "subprocess.CalledProcessError: Command '['python', 'x.py']' died with <Signals.SIGKILL: 9>.",
	},
	{
		Kind: ProcessEnd, Prints: "Hydra's mpiexec before 3.3", Source: "github.com/pmodels/mpich src/pm/hydra",
		Anchors: []string{"APPLICATION PROCESSES"}, Flat: true,
		Pattern: re(`APPLICATION PROCESSES = PID (?P<pid>\d+) RUNNING AT (?P<host>\S+) = EXIT CODE: (?P<code>\d+)(?:.{0,500}?EXIT STRING: [\w ]+ \(signal (?P<signal>\d+)\))?`),
		Test:    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 16063 RUNNING AT gpu-a\n=   EXIT CODE: 139",
	},
	{
		Kind: WorkerDied, Prints: "vLLM's multiprocessing executor and client of its engine", Source: "github.com/vllm-project/vllm vllm/v1/executor/multiproc_executor.py, vllm/v1/engine/core_client.py", Says: "died unexpectedly",
		Anchors: []string{"died unexpectedly, shutting down"}, Pattern: re(`(?:Worker|Engine core) proc (?P<worker>\S+) died unexpectedly`),
		Test: "ERROR 05-06 16:54:45 [multiproc_executor.py:123] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
	},
	{
		Kind: WorkerDied, Prints: "vLLM's Ray executor", Source: "github.com/vllm-project/vllm vllm/v1/executor/ray_executor_v2.py", Says: "died unexpectedly",
		Anchors: []string{"died unexpectedly, shutting down"}, Pattern: re(`RayWorkerProc rank=\[(?P<ranks>[\d, ]+)\] died unexpectedly`),
		Test: "[ray_executor_v2.py:464] RayWorkerProc rank=[3] died unexpectedly, shutting down executor.",
	},
	{
		Kind: WorkerDied, Prints: "vLLM before its V1 engine", Source: "github.com/vllm-project/vllm vllm/executor/multiproc_worker_utils.py", Says: "died (exit code ${code})",
		Anchors: []string{"VllmWorkerProcess pid"}, Pattern: re(`Worker VllmWorkerProcess pid (?P<pid>\d+) died, exit code: (?P<code>-?\d+)`),
		Test: "ERROR 01-01 10:00:00 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 4711 died, exit code: -9",
	},
	{
		Kind: ProcessEnd, Prints: "SGLang's engine", Source: "github.com/sgl-project/sglang python/sglang/srt/entrypoints/engine.py",
		Anchors: []string{"hild process unexpectedly failed with "},
		Pattern: re(`[Cc]hild process unexpectedly failed with (?:an )?exit(?:_| )?code[= ](?P<status>\d+)\.? pid=(?P<pid>\d+)`),
		Test:    "Child process unexpectedly failed with an exit code 9. pid=4711",
	},
	{
		Kind: ProcessEnd, Prints: "SGLang's subprocess watchdog", Source: "github.com/sgl-project/sglang python/sglang/srt/utils/watchdog.py",
		Anchors: []string{" crashed with exit code "},
		Pattern: re(`(?P<worker>\S+) \(pid=(?P<pid>\d+)\) crashed with exit code (?P<code>-?\d+)`),
		Test:    "Subprocess scheduler_TP3 (pid=4711) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
	},
	{
		Kind: ServerWatchdog, Prints: "SGLang's scheduler", Source: "github.com/sgl-project/sglang python/sglang/srt/managers/scheduler.py", Says: "made no progress for the time that the server's watchdog allows",
		Anchors: []string{"Watchdog timeout (self", "cheduler watchdog timeout"}, Pattern: re(`(?:Watchdog timeout \(self|[Ss]cheduler watchdog timeout)[^\n]*`),
		Test: "[2025-08-02 19:24:30 TP3] Watchdog timeout (self.watchdog_timeout=300)",
	},
	{
		Kind: ServerWatchdog, Prints: "vLLM's shared memory queue", Source: "github.com/vllm-project/vllm vllm/distributed/device_communicators/shm_broadcast.py", Says: "waits for another process of the server: no message came through the shared memory",
		Anchors: []string{"o available shared memory broadcast block"}, Pattern: re(`[Nn]o available shared memory broadcast block found[^\n]*`),
		Test: "INFO 01-01 10:00:00 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.",
	},
	{
		Kind: WorkerDied, Prints: "JAX's and TensorFlow's coordination service", Source: "github.com/openxla/xla xla/tsl/distributed_runtime/coordination/coordination_service.cc", Says: "stopped its heartbeats",
		Anchors: []string{"stopped sending heartbeats", " heartbeat timeout."}, Flat: true,
		Pattern: re(`(?:\(stopped sending heartbeats\): |Task )/job:\w+/(?:replica:\d+/)?(?P<worker>task:\d+)(?: heartbeat timeout)?`),
		Test:    "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n/job:jax_worker/replica:0/task:3\nThe tasks have crashed.",
	},
	{
		Kind: Awaited, Prints: "JAX's and TensorFlow's coordination service", Source: "github.com/openxla/xla xla/tsl/distributed_runtime/coordination/coordination_service.cc", Says: "did not come to the barrier ${id}",
		Anchors: []string{"Barrier timed out. "}, Flat: true,
		Pattern: re(`Barrier timed out\. (?:Id: (?P<id>[\w:.-]+?)\. Number of tasks at barrier: (?P<have>\d+)/(?P<of>\d+)\..*?timed|Barrier_id: (?P<id2>[\w:.-]+?)\. Timed) out task names: (?P<tasks>(?:/job:\w+/replica:\d+/task:\d+ ?)+)`),
		Test:    "Barrier timed out. Id: PjRT_Client_Connect::0. Number of tasks at barrier: 7/8. The first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out task names:\n/job:jax_worker/replica:0/task:5",
	},
	{
		Kind: HostMemory, Prints: "dlrover's job master", Source: "github.com/intelligent-machine-learning/dlrover dlrover/python/master/monitor, issue 1690", Says: "ran out of the memory that its pod may use, says dlrover",
		Anchors: []string{"][status_update]["}, Pattern: re(`\[(?P<worker>[\w.-]+)\]\[status_update\]\[\w+ to Failed\][^\n]*"exit reason": "OOM`),
		Test: `[2026-01-01, 10:00:00][warn][job-worker-3][status_update][Running to Failed][{"from_state": "Running", "to_state": "Failed", "node": "job-worker-3", "exit reason": "OOMKilled"}]`,
	},
	{
		Kind: WorkerDied, Prints: "dlrover's job master", Source: "github.com/intelligent-machine-learning/dlrover dlrover/python/master/monitor, issue 1690", Says: "failed, says dlrover (${what})",
		Anchors: []string{"][status_update]["}, Pattern: re(`\[(?P<worker>[\w.-]+)\]\[status_update\]\[\w+ to Failed\][^\n]*"exit reason": "(?P<what>[^O"][^"]*)"`),
		Test: `[2026-01-01, 10:00:00][warn][job-worker-3][status_update][Running to Failed][{"from_state": "Running", "to_state": "Failed", "node": "job-worker-3", "exit reason": "Deleted"}]`,
	},
	{
		Kind: Aborted, Prints: "Python's faulthandler", Source: "docs.python.org library/faulthandler", Says: "aborted",
		Anchors: []string{"Fatal Python error: Aborted"}, Test: "Fatal Python error: Aborted",
	},
	{
		Kind: Crashed, Prints: "Python's faulthandler", Source: "docs.python.org library/faulthandler", Says: "crashed: ${what}",
		Anchors: []string{"Fatal Python error: "}, Pattern: re(`Fatal Python error: (?P<what>Segmentation fault|Bus error|Illegal instruction|Floating point exception)`),
		Test: "Fatal Python error: Segmentation fault",
	},
}
