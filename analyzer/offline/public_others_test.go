// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), cmp.Or(name, "job.log"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	inPlace0 = "gpu-a:4000:4100 [0] NCCL INFO ncclCommInitRank comm 0x50 rank 0 nranks 3 cudaDev 0 nvmlDev 0 busId 1000 commId 0x12 - Init COMPLETE\n" +
		"gpu-a:4001:4101 [1] NCCL INFO ncclCommInitRank comm 0x51 rank 1 nranks 3 cudaDev 1 nvmlDev 1 busId 2000 commId 0x12 - Init COMPLETE\n" +
		"gpu-b:4001:4101 [0] NCCL INFO ncclCommInitRank comm 0x52 rank 2 nranks 3 cudaDev 0 nvmlDev 0 busId 1000 commId 0x12 - Init COMPLETE\n"
	timedOut0 = "[rank0]:[E101 10:00:00.000000001 ProcessGroupNCCL.cpp:689] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=14, OpType=ALLREDUCE, NumelIn=5, NumelOut=5, Timeout(ms)=600000) ran for 600093 milliseconds before timing out.\n"
)

// publicOthers are further messages of the same classes, as their programs print them (grammar's rows name the sources).
var publicOthers = []publicCase{
	// Ends of processes, as any launcher tells them.
	{name: "torchrun of 1.x", text: "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) local_rank: 1 (pid: 200) of binary: /usr/bin/python\n", exit: ExitFound, head: []string{"ocal rank 1", "200", "SIGSEGV"}},
	{name: "torchrun, exit code", text: "E0101 10:00:01.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 103) of binary: python\n", exit: ExitUnknown, head: []string{"ocal rank 0", "exit code 1"}},
	{name: "mpirun, process name", text: "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[29973,1],5]\n  Exit code:    1\n", exit: ExitFound, ranks: []int{5}, head: []string{"exit code 1"}},
	{name: "prterun", text: "prterun noticed that process rank 3 with PID 4711 on node gpu-b exited on signal 11 (Segmentation fault).\n", exit: ExitFound, ranks: []int{3}, head: []string{"gpu-b", "signal 11"}},
	{name: "mpirun behind labels", text: "[pod/launcher-0/mpi] mpirun noticed that process rank 7 with PID 4711 on node worker-3 exited on signal 9 (Killed).\n", exit: ExitFound, ranks: []int{7}, head: []string{"worker-3"}},
	{name: "hydra", text: "===\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 66572 RUNNING AT gpu-a\n=   KILLED BY SIGNAL: 9 (Killed)\n===\n", exit: ExitFound, ranks: []int{1}, head: []string{"gpu-a", "signal 9"}},
	{name: "MPI_Abort", text: "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n", exit: ExitFound, ranks: []int{3}},
	{
		name: "spawn, exception", text: "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File \"/x/train.py\", line 8, in step\n    f()\nValueError: mine\n",
		exit: ExitFound, head: []string{"ocal rank 1", "ValueError: mine"},
	},
	{name: "srun, labels and OOM", text: "0: step 1\n1: step 1\n3: slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\nsrun: error: gpu-b: task 3: Out Of Memory\n", exit: ExitFound, ranks: []int{3}, head: []string{"gpu-b", "memory"}},
	{name: "srun, exit code", text: "srun: error: gpu-b: task 3: Exited with exit code 1\n", exit: ExitFound, ranks: []int{3}},
	{name: "slurmstepd alone", text: "slurmstepd: error: Detected 2 oom_kill events in StepId=7.batch. Some of the step tasks have been OOM Killed.\n", exit: ExitFound, head: []string{"memory"}, says: []string{"--mem"}},
	{name: "vLLM, died", text: "ERROR 05-06 16:54:45 [multiproc_executor.py:123] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.\n", exit: ExitFound, ranks: []int{1}, head: []string{"died unexpectedly"}},
	{name: "vLLM with Ray, died", text: "ERROR 01-01 10:00:00 [ray_executor_v2.py:464] RayWorkerProc rank=[3] died unexpectedly, shutting down executor.\n", exit: ExitFound, ranks: []int{3}},
	{name: "DeepSpeed, killed", text: "[2026-01-01 10:00:05,000] [ERROR] [launch.py:324:sigkill_handler] ['python', '-u', 'x.py', '--local_rank=7'] exits with return code = -9\n", exit: ExitUnknown, head: []string{"signal 9"}, never: []string{"rank 7"}},
	{name: "subprocess", text: "subprocess.CalledProcessError: Command '['python', 'x.py']' died with <Signals.SIGKILL: 9>.\n", exit: ExitFound, head: []string{"SIGKILL"}},
	{name: "bash", text: "/var/spool/slurmd/job7/slurm_script: line 12:  4711 Killed                  python train.py\n", exit: ExitFound, head: []string{"4711", "SIGKILL"}},
	{name: "faulthandler, crash", text: "[rank2]: x\nFatal Python error: Segmentation fault\n\nCurrent thread 0x00007f01 (most recent call first):\n  File \"/x/train.py\", line 5 in step\n", exit: ExitFound, head: []string{"crashed"}},
	{name: "kubernetes", text: "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n", exit: ExitFound, head: []string{"OOMKilled"}},
	{name: "mpirun, aborted", text: "mpirun noticed that process rank 7 with PID 4711 on node gpu-b exited on signal 6 (Aborted).\n", exit: ExitUnknown, head: []string{"Rank 7", "gpu-b", "SIGABRT"}, never: []string{"Nothing was seen"}},
	{name: "gloo's victim", text: "Traceback (most recent call last):\n  File \"/x/train.py\", line 10, in main\n    dist.barrier()\nRuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:1234\n", exit: ExitUnknown, head: []string{"Connection closed by peer", "victim"}, never: []string{"Nothing was seen"}},
	{
		name: "a whole log of torchrun", exit: ExitFound, ranks: []int{10}, head: []string{"ank 10", "signal 9"}, never: []string{"101)"},
		text: "W0101 10:00:00.0 77 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 101 closing signal SIGTERM\nE0101 10:00:01.0 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 103) of binary: python\n" +
			"============================================================\ntrain.py FAILED\n------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-01-01_10:00:01\n  host      : gpu-b\n  rank      : 10 (local_rank: 2)\n  exitcode  : -9 (pid: 103)\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 103\n============================================================\n",
	},
	{
		name: "calls of NCCL", exit: ExitUnknown, head: []string{"Process 52 on gpu-a", "AllReduce", "fewer operations"},
		text: "gpu-a:50:60 [0] NCCL INFO AllReduce: opCount 2a sendbuff 0x7f recvbuff 0x7e count 5 datatype 7 op 0 root 0 comm 0x50 [nranks=4] stream 0x5\ngpu-a:51:61 [1] NCCL INFO AllReduce: opCount 2a sendbuff 0x7f recvbuff 0x7e count 5 datatype 7 op 0 root 0 comm 0x51 [nranks=4] stream 0x5\n" +
			"gpu-a:52:62 [2] NCCL INFO AllReduce: opCount 29 sendbuff 0x7f recvbuff 0x7e count 5 datatype 7 op 0 root 0 comm 0x52 [nranks=4] stream 0x5\ngpu-a:53:63 [3] NCCL INFO AllReduce: opCount 2a sendbuff 0x7f recvbuff 0x7e count 5 datatype 7 op 0 root 0 comm 0x53 [nranks=4] stream 0x5\n",
	},
	// Watchdog threads ended by an error.
	{name: "older wording", text: "[E ProcessGroupNCCL.cpp:916] [Rank 3] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n", exit: ExitFound, ranks: []int{3}, head: []string{"illegal memory access", "program"}, says: []string{"CUDA_LAUNCH_BLOCKING=1"}},
	{name: "assertion", text: "[rank6]:[E101 10:00:00.000000001 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank 6] Process group watchdog thread terminated with exception: CUDA error: device-side assert triggered\n", exit: ExitFound, ranks: []int{6}, head: []string{"assert"}},
	{name: "NVLink", text: "[rank6]:[E101 10:00:00.000000001 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank 6] Process group watchdog thread terminated with exception: CUDA error: uncorrectable NVLink error detected during the execution\n", exit: ExitFound, ranks: []int{6}, head: []string{"NVLink"}, says: []string{"Drain"}},
	{
		name: "ECC while others time out", text: inPlace0 + timedOut0 + "[rank2]:[E101 10:00:00.000000001 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered\n",
		exit: ExitFound, ranks: []int{2}, head: []string{"ECC", "gpu-b"},
	},
	// Exceptions of which the log has no rank.
	{name: "no rank", text: "Traceback (most recent call last):\n  File \"/x/train.py\", line 10, in main\n    f()\nKeyError: 'mine'\n", exit: ExitFound, head: []string{"KeyError: 'mine'", "main (/x/train.py:10)"}, never: []string{"Nothing was seen", "py-spy"}},
	{name: "data loader, killed", text: "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. \n", exit: ExitFound, head: []string{"memory"}},
	{name: "shared memory of NCCL", text: "gpu-a:50:60 [1] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-6XsGzh to 9637892 bytes\n", exit: ExitFound, head: []string{"gpu-a", "/dev/shm"}, says: []string{"--shm-size"}},
	{name: "disk full", text: "Traceback (most recent call last):\n  File \"/x/train.py\", line 10, in save\n    f()\nOSError: [Errno 28] No space left on device: '/ckpt/x'\n", exit: ExitFound, head: []string{"no space"}, says: []string{"df -h"}},
	{name: "GPU memory of a rank", text: "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/x/train.py\", line 10, in step\n[rank3]:     f()\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", exit: ExitFound, ranks: []int{3}, head: []string{"memory"}, says: []string{"smaller batch"}},
	// Store and rendezvous.
	{name: "client times out", text: "[rank1]: torch.distributed.DistNetworkError: The client socket has timed out after 900s while trying to connect to (10.0.0.1, 29500).\n", exit: ExitUnknown, head: []string{"Rank 1", "10.0.0.1", "29500"}, says: []string{"nc -vz"}},
	{name: "port taken", text: "[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\nRuntimeError: The server socket has failed to listen on any local network address.\n", exit: ExitFound, head: []string{"29500"}, says: []string{"ss -ltnp"}},
	{name: "leftovers", text: "INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)\n", exit: ExitFound, head: []string{"4 processes", "another run"}},
	{name: "barrier too small", text: "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: store_based_barrier_key:1 (world_size=16, worker_count=15, timeout=0:30:00)\n", exit: ExitUnknown, head: []string{"15 of 16"}},
	{name: "store lost", text: "[rank4]:[W101 10:00:00.1 TCPStore.cpp:115] [c10d] sendBytes failed on SocketImpl(fd=9, addr=[h1]:50402, remote=[h0]:29500): Broken pipe\n", exit: ExitUnknown, head: []string{"Rank 4", "h0", "rank 0"}},
	// Labels of servers' workers.
	{
		name: "SGLang", text: "[2026-01-02 03:04:05 TP14] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/x/scheduler.py\", line 20, in run\n    go()\nValueError: mine\n\n[2026-01-02 03:04:06 TP2] x\n",
		exit: ExitFound, ranks: []int{14}, head: []string{"TP14", "ValueError: mine"},
	},
	{name: "VllmWorker", text: "(VllmWorker rank=3 pid=55723) ERROR 05-06 16:54:44 [multiproc_executor.py:379] Traceback (most recent call last):\n(VllmWorker rank=3 pid=55723) ERROR 05-06 16:54:44 [multiproc_executor.py:379]   File \"/x/w.py\", line 3, in run\n(VllmWorker rank=3 pid=55723) ERROR 05-06 16:54:44 [multiproc_executor.py:379]     go()\n(VllmWorker rank=3 pid=55723) ERROR 05-06 16:54:44 [multiproc_executor.py:379] ValueError: mine\n", exit: ExitFound, ranks: []int{3}, head: []string{"55723", "ValueError"}},
	{name: "several parallelisms", text: "(Worker_DP0_TP1_EP1 pid=13) ERROR 01-01 10:00:00 [x.py:6] Traceback (most recent call last):\n(Worker_DP0_TP1_EP1 pid=13) ERROR 01-01 10:00:00 [x.py:6]   File \"/x/w.py\", line 3, in run\n(Worker_DP0_TP1_EP1 pid=13) ERROR 01-01 10:00:00 [x.py:6] ValueError: mine\n", exit: ExitFound, head: []string{"DP0 TP1 EP1", "13"}},
	// Dumps in logs.
	{
		name: "stacks behind kubectl's labels",
		text: each("[pod/s-0/srv] ", "x y\nProcess 300: VLLM::Worker_TP0\nPython v3.12.3 (/usr/bin/python3.12)\n\nThread 300 (idle): \"MainThread\"\n    all_reduce (torch/distributed/distributed_c10d.py:2810)\n    loop (mine.py:5)\n\n"+
			"Process 301: VLLM::Worker_TP1\nPython v3.12.3 (/usr/bin/python3.12)\n\nThread 301 (active): \"MainThread\"\n    count (sampler.py:7)\n    loop (mine.py:9)\n\n"+
			"Process 302: VLLM::Worker_TP2\nPython v3.12.3 (/usr/bin/python3.12)\n\nThread 302 (idle): \"MainThread\"\n    all_reduce (torch/distributed/distributed_c10d.py:2810)\n    loop (mine.py:5)\n"),
		exit: ExitFound, ranks: []int{1}, head: []string{"count (sampler.py:7)"},
	},
	// Members.
	{name: "--world-size", text: timedOut0 + "[rank1]:[E101 10:00:00.000000001 ProcessGroupNCCL.cpp:689] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=14, OpType=ALLREDUCE, NumelIn=5, NumelOut=5, Timeout(ms)=600000) ran for 600093 milliseconds before timing out.\n", args: []string{"--world-size=3"}, exit: ExitFound, ranks: []int{2}, never: []string{"All 2 members"}},
	// The start of communicators.
	{name: "no route", text: "gpu-a:50:60 [4] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.9<52333> failed : No route to host\n", exit: ExitUnknown, head: []string{"gpu-a", "10.0.0.9", "No route"}},
	{name: "wrong magic of a job", text: "gpu-a:166:1226 [0] misc/socket.cc:484 NCCL WARN socketFinalizeAccept: wrong magic 1b2c3d4e5f607182 != 7970663b906d70b9\n", exit: ExitUnknown, head: []string{"another job"}},
	{name: "a warning with a date", text: "[2026-01-01 10:00:00] gpu-a:50:60 [4] misc/socket.cc:1 NCCL WARN Something of its own\n", exit: ExitUnknown, head: []string{"gpu-a", "Something of its own"}},
	{name: "versions", text: "gpu-a:50:60 [0] init.cc:900 NCCL WARN Mismatched NCCL version detected : rank 3 version 21602 rank 0 version 21800\n", exit: ExitFound, head: []string{"21602", "21800"}},
	{name: "network", text: "node-1:701:911 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB: Got completion from peer 10.1.0.7<38244> with status=12 opcode=0 len=0 vendor err 129\n", exit: ExitUnknown, head: []string{"node-1", "10.1.0.7", "12"}},
	// Ended from outside.
	{name: "SIGTERM", text: "W0101 10:00:00.000000 77 torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGTERM death signal, shutting down workers\n", exit: ExitFound, head: []string{"SIGTERM"}},
	{name: "time limit", text: "slurmstepd: error: *** STEP 7.0 ON gpu-a CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***\n", exit: ExitFound, head: []string{"time limit"}, says: []string{"--time"}},
	{name: "node failure", text: "srun: error: Node failure on gpu-a\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n", exit: ExitFound, head: []string{"gpu-a"}},
	// The kernel's log.
	{name: "OOM killer", text: inPlace0 + timedOut0 + "Jan  1 09:50:00 gpu-b kernel: [1234.5] Out of memory: Killed process 4001 (python3) total-vm:100kB, anon-rss:50kB\n", exit: ExitFound, ranks: []int{2}, head: []string{"gpu-b", "memory"}},
	{name: "NVLink by its bus", text: inPlace0 + "Jan  1 09:50:00 gpu-a kernel: NVRM: Xid (PCI:0000:02:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6\n", exit: ExitFound, ranks: []int{1}, head: []string{"NVLink", "74"}},
	{name: "a bus of two hosts", text: inPlace0 + "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n", exit: ExitFound, head: []string{"0000:01:00", "79"}},
	{name: "AER", text: "[12.5] pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3a:00.0\n", exit: ExitFound, head: []string{"0000:3a:00.0"}},
	{name: "segfault", text: inPlace0 + "[Thu Jan  1 09:50:00 2026] python3[4000]: segfault at 0 ip 00007f2b sp 00007ffd error 4 in libtorch_cuda.so[7f2b+1000]\n", exit: ExitFound, ranks: []int{0}, head: []string{"libtorch_cuda.so"}},
	// Other libraries.
	{
		name: "DeepEP's barrier", exit: ExitFound, ranks: []int{5}, head: []string{"DeepEP"},
		text: "DeepEP timeout check failed: rank = 6, thread = 0, value = 0)\nDeepEP timeout check failed: rank = 6, thread = 5, value = 1024)\nDeepEP timeout check failed: rank = 2, thread = 5, value = 1024)\nDeepEP timeout check failed: rank = 2, thread = 7, value = 0)\n",
	},
	{name: "DeepEP between hosts", text: "DeepEP dispatch NVL receiver timeout, channel: 3, RDMA: 1, nvl: 2, src RDMA: 0, src nvl: 5, start: 0, end: 0\n", exit: ExitUnknown, head: []string{"Rank 10", "DeepEP", "host 0 of the job"}},
	{name: "NVSHMEM", text: "/opt/nvshmem_src/src/modules/transport/ibrc/ibrc.cpp:1433: non-zero status: 7 connect EPS failed \n", exit: ExitUnknown, head: []string{"NVSHMEM"}},
	{name: "XLA", text: "E0101 10:00:00.000000      50 rendezvous.cc:116] This thread has been waiting for `first call to collective operation 5; run_id=7` for 40 seconds and may be stuck. Expected 8 threads to join the rendezvous, but not all of them arrived on time.\n", exit: ExitUnknown, head: []string{"XLA"}},
	{name: "oneCCL", text: "2025:08:14-14:34:47:(19220) |CCL_ERROR| atl_mpi_comm.cpp:94 init_transport: comm_create error\n", exit: ExitUnknown, head: []string{"oneCCL", "19220"}},
	{name: "UCX", text: "[1700000000.123456] [gpu-a:4711 :0]    ib_mlx5_log.c:171  UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB\n", exit: ExitUnknown, head: []string{"gpu-a", "UCX"}},
	{name: "Horovod", text: "[1,0]<stderr>:W /tmp/horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:1: [allreduce.grad_7]\n", exit: ExitFound, ranks: []int{1}, head: []string{"Horovod"}},
	{name: "HCCL, other errors", text: "EI0006: [PID: 29] 2026-01-01-10:00:00 Getting socket times out. Reason: Remote Rank did not send the data in time.\n", exit: ExitUnknown, head: []string{"HCCL", "EI0006"}},
	// Around the lines.
	{name: "journalctl", text: each("Jan 01 10:00:00 gpu-a train.sh[77]: ", "[rank5]:[E101 10:00:00.000000001 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered\nx\n"), exit: ExitFound, ranks: []int{5}},
	{name: "lines in JSON", text: `{"level":"error","msg":"[rank5]: RuntimeError: CUDA error: uncorrectable ECC error encountered"}` + "\n" + `{"level":"info","msg":"x"}` + "\n", exit: ExitFound, ranks: []int{5}},
	{name: "Megatron, not reproducible", text: "ERROR:megatron.core.rerun_state_machine:Rank 3, node gpu-c, device 3, iteration #9: First rerun: unexpected result is not reproducible within the tolerance (nan != 1.0)\n", exit: ExitFound, ranks: []int{3}, head: []string{"gpu-c", "transient"}, says: []string{"dcgmi"}},
	// Ends of processes, further launchers.
	{name: "mpirun, improper exit", text: "mpirun has exited due to process rank 6 with PID 0 on\nnode gpu-b exiting improperly. There are three reasons this could occur:\n", exit: ExitFound, ranks: []int{6}, head: []string{"gpu-b", "before it ended MPI"}},
	{name: "Open MPI's signal handler", text: "[gpu-c:4711] *** Process received signal ***\n[gpu-c:4711] Signal: Segmentation fault (11)\n[gpu-c:4711] Failing at address: 0x18\n", exit: ExitFound, head: []string{"4711", "gpu-c", "SIGSEGV"}},
	{name: "kubectl describe", text: "    State:          Terminated\n      Reason:       Error\n      Exit Code:    139\n", exit: ExitFound, head: []string{"SIGSEGV"}},
	{name: "Kubernetes' events", text: "2m   Warning   NodeNotReady   pod/train-worker-5   Node is not ready\n", exit: ExitFound, head: []string{"train-worker-5", "NodeNotReady"}},
	{name: "Ray, lost worker", text: "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.0.0.7 Worker port: 10046 Worker PID: 4711 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) x\n", exit: ExitFound, head: []string{"4711", "10.0.0.7"}, never: []string{"Nothing was seen"}},
	{name: "dlrover, pod out of memory", text: `[2026-01-01 10:00:00,000] [INFO] [reporter.py:68:report] [2026-01-01, 10:00:00][warn][job-worker-3][status_update][Running to Failed][{"from_state": "Running", "to_state": "Failed", "node": "job-worker-3", "exit reason": "OOMKilled"}]` + "\n", exit: ExitFound, head: []string{"job-worker-3", "memory"}},
	{name: "vLLM's engine", text: "ERROR 01-01 10:00:00 [core_client.py:564] Engine core proc EngineCore_DP1 died unexpectedly, shutting down client.\nTraceback (most recent call last):\n  File \"/x/core_client.py\", line 540, in ensure_alive\n    raise EngineDeadError()\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n", exit: ExitFound, head: []string{"EngineCore DP1", "died unexpectedly"}},
	{name: "JAX, heartbeats", text: "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n/job:jax_worker/replica:0/task:3\nThe tasks have crashed.\n", exit: ExitFound, head: []string{"task:3", "heartbeats"}},
	{name: "JAX, another's heartbeats", text: "absl::Status: UNAVAILABLE: Task /job:jax_worker/task:7 heartbeat timeout. The task has been disconnected.\n", exit: ExitFound, head: []string{"task:7", "heartbeats"}},
	{name: "JAX, barrier", text: "Barrier timed out. Id: PjRT_Client_Connect::0. Number of tasks at barrier: 7/8. The first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out task names:\n/job:jax_worker/replica:0/task:5\n", exit: ExitUnknown, head: []string{"task:5", "7 of 8"}},
	// What torchrun keeps of exceptions.
	{name: "torchrun of 1.9", text: "Root Cause:\n[0]:\n  time: x\n  rank: 2 (local_rank: 0)\n  exitcode: 1 (pid: 8045)\n  error_file: /tmp/error.json\n  msg: \"ValueError: mine\"\n====\n", exit: ExitFound, ranks: []int{2}, head: []string{"ValueError: mine"}},
	{
		name: "torchrun, with the traceback", exit: ExitFound, ranks: []int{11}, head: []string{"ValueError: mine", "step (/x/train.py:8)"},
		text: "Root Cause (first observed failure):\n[0]:\n  time      : x\n  host      : gpu-b\n  rank      : 11 (local_rank: 3)\n  exitcode  : 1 (pid: 103)\n  error_file: /tmp/error.json\n  traceback :\n  Traceback (most recent call last):\n    File \"/x/train.py\", line 8, in step\n      f()\n  ValueError: mine\n  \n====\n",
	},
	{
		name: "TorchElastic's file", exit: ExitFound, head: []string{"ValueError: mine", "step (/x/train.py:8)"}, log: "error.json",
		text: `{"message": {"message": "ValueError: mine", "extraInfo": {"py_callstack": "Traceback (most recent call last):\n  File \"/x/train.py\", line 8, in step\n    f()\nValueError: mine\n", "timestamp": "1"}}}`,
	},
	{name: "a paste without indentation", text: "Traceback (most recent call last):\nFile \"/x/train.py\", line 8, in step\nf()\nValueError: mine\n", exit: ExitFound, head: []string{"ValueError: mine", "step (/x/train.py:8)"}},
	// Victims that name a rank, or themselves.
	{name: "SGLang's loader", text: "[2026-01-02 03:04:05 TP1] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/x/model_runner.py\", line 417, in load_model\n    raise ValueError(\nValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading.\n", exit: ExitUnknown, head: []string{"victim"}},
	{name: "vLLM's engine waits", text: "ERROR 01-01 10:00:00 [core.py:1177] Traceback (most recent call last):\nERROR 01-01 10:00:00 [core.py:1177]   File \"/x/multiproc_executor.py\", line 386, in get_response\nERROR 01-01 10:00:00 [core.py:1177] TimeoutError: RPC call to sample_tokens timed out.\n", exit: ExitUnknown, head: []string{"victim"}},
	// Watchdogs.
	{name: "stuck", text: "[rank1]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.\n[rank: 1] Child process with PID 8273 terminated with code -6. Forcefully terminating all other processes\n", exit: ExitUnknown, head: []string{"Rank 1", "watchdog", "stuck"}},
	{name: "stuck, older", text: "[rank0]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 0] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=84\n[rank2]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 2] Heartbeat monitor timed out! Process will be terminated after dumping debug info.\n", exit: ExitUnknown, head: []string{"anks 0, 2"}},
	{name: "a timeout of nobody", text: "[E ProcessGroupNCCL.cpp:523] Watchdog caught collective operation timeout:\nWorkNCCL(OpType=ALLREDUCE, SeqNum=458) ran for 1800600 ms before timing out.\n", exit: ExitUnknown, head: []string{"all_reduce #458", "does not say which rank"}},
	{name: "comparison of shapes", text: "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=_ALLGATHER_BASE, TensorShape=[3, 5], TensorDtypes=BFloat16, TensorDeviceTypes=x), but Rank 2 is running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=_ALLGATHER_BASE, TensorShape=[3, 6], TensorDtypes=BFloat16, TensorDeviceTypes=x).\n", exit: ExitFound, ranks: []int{1, 2}, head: []string{"15 elements", "18 elements"}},
	{name: "comparison, one side", text: "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running inconsistent collective: CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[34112], TensorDtypes=Float, TensorDeviceTypes=x)\n", exit: ExitUnknown, head: []string{"Rank 0 called broadcast"}},
	{name: "NVRx, one rank mute", text: "[2026-01-01 10:00:00,000] [WARNING] [RankMonServer4711@node-1:3] Did not get subsequent heartbeat. Waited 60.00 seconds.\n", exit: ExitUnknown, head: []string{"Rank 3", "heartbeat"}},
	// The store.
	{name: "a key of the store", text: "[rank6]: torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//0//worker0/0\n", exit: ExitUnknown, head: []string{"Rank 6", "worker0/0"}},
	{name: "id not to be had", text: "[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer\n", exit: ExitUnknown, head: []string{"Rank 3 lost the job's store", "victim"}},
	{name: "rendezvous, keep-alive", text: "W0101 10:00:00.000 12 torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1267] The node 'gpu-c_1234_0' has failed to send a keep-alive heartbeat to the rendezvous 'job1' due to an error of type RendezvousConnectionError.\n", exit: ExitUnknown, head: []string{"gpu-c", "keep-alive"}},
	// NCCL and what stands on it.
	{name: "network, by name", text: "gpu-c:88:120 [5] transport/net_ib.cc:2140 NCCL WARN NET/IB: Got completion from peer 10.2.0.9<45912> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 hca mlx5_3\n", exit: ExitUnknown, head: []string{"gpu-c", "10.2.0.9", "mlx5_3"}},
	{name: "returned codes", text: "gpu-c:50:60 [0] NCCL INFO misc/socket.cc:564 -> 2\ngpu-c:50:60 [0] NCCL INFO bootstrap.cc:270 -> 2\n", exit: ExitUnknown, head: []string{"Process 50 on gpu-c", "system error"}},
	{name: "vLLM's binding", text: "(VllmWorker rank=7 pid=410) ERROR 01-01 10:00:00 [multiproc_executor.py:487] RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n", exit: ExitUnknown, head: []string{"Rank 7", "unhandled cuda error"}},
	{name: "NCCL EP", text: "NCCL EP timeout check failed: rank = 6, thread = 5, value = 1024)\n", exit: ExitFound, ranks: []int{5}, head: []string{"NCCL EP"}},
	{name: "NCCL EP, the trap after it", text: "Warning: NCCL EP timeout for dispatch receive, rank 2, local_expert_idx 0, src_rank 5\n[rank2]: RuntimeError: CUDA error: unspecified launch failure\n", exit: ExitFound, ranks: []int{5}, head: []string{"Rank 5", "NCCL EP"}},
	{
		name: "DeepEP inside a host, several", exit: ExitUnknown, head: []string{"anks 12, 14", "DeepEP", "their host"},
		text: "DeepEP dispatch NVL receiver timeout, channel: 1, RDMA: 1, nvl: 4, src RDMA: 1, src nvl: 7, start: 0, end: 0\nDeepEP dispatch NVL receiver timeout, channel: 2, RDMA: 1, nvl: 6, src RDMA: 1, src nvl: 2, start: 0, end: 0\n",
	},
	{
		name: "torchrun of 1.9 to 1.12, no error file", exit: ExitUnknown, head: []string{"ocal rank 0", "exit code 1"},
		text: "CHILD PROCESS FAILED WITH NO ERROR_FILE\nChild process 17 (local_rank 0) FAILED (exitcode 1)\nError msg: Process failed with exitcode 1\nWithout writing an error file to <N/A>.\n",
	},
	{name: "DeepEP between hosts", text: "DeepEP dispatch forwarder timeout (RDMA meta), channel: 4, RDMA: 1, nvl: 4, src RDMA lane: 0, dst NVL: 5, meta: 0, 0, 0, 0\nDeepEP dispatch NVL receiver timeout, channel: 9, RDMA: 1, nvl: 3, src RDMA: 0, src nvl: 3, start: 0, end: 0\n", exit: ExitUnknown, head: []string{"anks 11, 12", "host 0 of the job"}},
	// Hardware.
	{name: "GPU lost", text: "[rank2]: RuntimeError: CUDA error: GPU is lost. Reboot the system to recover this GPU\n", exit: ExitFound, ranks: []int{2}, head: []string{"lost"}, says: []string{"Drain"}},
	{name: "nvidia-smi", text: "Unable to determine the device handle for GPU0000:4E:00.0: Unknown Error\n", exit: ExitFound, head: []string{"4E:00.0"}},
	{name: "GSP", text: "[   24.302465] NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 812751949 heartbeat 1899482\n", exit: ExitFound, head: []string{"GPU 6", "GSP"}},
	{name: "AMD, page fault", text: "[19277.9] amdgpu 0000:3d:00.0: amdgpu:  for process python3.12 pid 6071 thread python3.12 pid 6071)\n", exit: ExitFound, head: []string{"6071", "program"}},
	{name: "AMD, GPU hang", text: "HW Exception by GPU node-5 (Agent handle: 0x55) reason :GPU Hang\n", exit: ExitFound, head: []string{"GPU node 5"}, says: []string{"Drain"}},
	{name: "NVSwitch, not fatal", text: "gpu-c kernel: nvidia-nvswitch0: SXid (PCI:0000:83:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)\ngpu-c kernel: NVRM: Xid (PCI:0000:1b:00): 74, pid=4711, name=python3, NVLink: fatal error detected on link 3\n", exit: ExitFound, head: []string{"Xid 74"}},
	{name: "driver", text: "gpu-c:77:90 [2] misc/nvmlwrap.cc:156 NCCL WARN nvmlInit_v2() failed: Driver/library version mismatch\n", exit: ExitFound, head: []string{"gpu-c", "mismatch"}},
	// Pastes of the last lines alone, and further messages of the same classes.
	{name: "last line, of a rank", text: "[rank9]: RuntimeError: Loss is NaN at step 1200\n", exit: ExitFound, ranks: []int{9}, head: []string{"Loss is NaN"}},
	{name: "last line, of nobody", text: "RuntimeError: mine\n", exit: ExitFound, head: []string{"mine", "does not say which rank"}},
	{name: "last line, of a victim", text: "[rank2]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete\n", exit: ExitUnknown, head: []string{"Rank 2", "Timed out waiting", "victim"}, never: []string{"is a suspect too"}},
	{name: "last line, and who waits", text: "[rank0]: ValueError: mine\n[rank1]:[E101 10:00:00.0 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600071 milliseconds before timing out.\n", exit: ExitFound, ranks: []int{0}, head: []string{"ValueError: mine"}},
	{name: "a message in another's traceback", text: "[2026-01-02 03:04:05 DP0 TP3] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/x/s.py\", line 10, in forward\n    go()\ntorch.AcceleratorError: CUDA error: an illegal memory access was encountered\n\n[2026-01-02 03:04:06 DP0 TP2] x\n", exit: ExitFound, head: []string{"DP0 TP3", "illegal memory access"}},
	{name: "srun, aborted by its watchdog", text: "srun: error: gpu-b: task 9: Exited with exit code 134\nslurmstepd: error: *** STEP 123.0 ON gpu-a CANCELLED AT 2026-01-01T10:00:00 ***\n", exit: ExitUnknown, head: []string{"Rank 9", "SIGABRT"}},
	{name: "DeepSpeed, exit code", text: "[2026-01-01 10:00:00,000] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 'train.py', '--local_rank=7'] exits with return code = 1\n", exit: ExitUnknown, head: []string{"exit code 1"}, never: []string{"rank 7"}},
	{name: "subprocess, exit code", text: "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.\n", exit: ExitUnknown, head: []string{"exit code 1"}},
	{name: "Kubernetes, again and again", text: "  Warning  BackOff    2m (x5 over 5m)   kubelet  Back-off restarting failed container pytorch in pod train-worker-1_ml(abcd)\n", exit: ExitUnknown, head: []string{"train-worker-1"}},
	{name: "Ray, memory of a node", text: "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node (IP: 10.0.0.7, ID: abc) where the task (actor ID: def, name=W.__init__, pid=4711, memory used=112.38GB) was running was 477.89GB / 503.00GB\n", exit: ExitFound, head: []string{"4711", "10.0.0.7", "memory"}},
	{name: "fabric manager", text: "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 10 port 33\n", exit: ExitFound, head: []string{"86:00.0", "20034"}},
	{name: "queue pairs", text: "gpu-c:200:250 [4] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110\n", exit: ExitUnknown, head: []string{"gpu-c", "Connection timed out"}, says: []string{"ibstat"}},
	{name: "CUDA's failure in NCCL", text: "gpu-c:200:250 [4] proxy.cc:1500 NCCL WARN Cuda failure 719 'unspecified launch failure'\n", exit: ExitFound, head: []string{"gpu-c", "its GPU reported"}},
	// Text that no row knows, and who says it.
	{name: "an error of its launcher", text: "srun: error: Task launch for 36.0 failed on node n1: Job credential expired\n", exit: ExitUnknown, head: []string{"node n1", "credential expired"}, never: []string{"Nothing was seen"}},
	{name: "an error of a rank", text: "[rank2]: loading data\n[rank2]: page table of shard 7 is corrupt, error 12\n[rank3]: done\n", exit: ExitUnknown, head: []string{"Rank 2", "page table of shard 7"}},
	{name: "an assertion of C++", text: "terminate called after throwing an instance of 'a::MyException'\n  what():  [x][ERROR] Assertion failed: MPI error mpiUtils.cpp:211 '6'\n", exit: ExitUnknown, head: []string{"mpiUtils.cpp:211"}},
	{name: "why a process exited", text: "[ERROR] shard 7 of the index is corrupt at 12\nERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 7 (pid: 153932) of binary: python\n", exit: ExitUnknown, head: []string{"ocal rank 7", "exit code 1", "shard 7"}},
	{name: "a victim of HCCL", text: "[rank1]:   File \"/x/distributed_c10d.py\", line 2501, in all_reduce\n[rank1]:     work = group.allreduce([tensor], opts)\n[rank1]: RuntimeError: InnerRunOpApi:x.cpp:281 OPS function error: HcclAllreduce, error code is 6\n", exit: ExitUnknown, head: []string{"Rank 1", "victim"}},
	{name: "a victim of a library that nobody knows", text: "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/x/torch/distributed/distributed_c10d.py\", line 2501, in all_reduce\n[rank1]:     work = group.allreduce([tensor], opts)\n[rank1]: RuntimeError: MyccL call returned 6\n", exit: ExitUnknown, head: []string{"Rank 1 waits in all_reduce"}},
	{name: "a server that waits for its workers", text: "(EngineCore_DP0 pid=559)   File \"/x/shm_broadcast.py\", line 464, in acquire_read\n(EngineCore_DP0 pid=559)     raise RuntimeError(\"cancelled\")\n(EngineCore_DP0 pid=559) RuntimeError: cancelled\n", exit: ExitUnknown, head: []string{"EngineCore DP0", "victim"}},
	{name: "NCCL refuses a call", text: "RuntimeError: NCCL error in: x/NCCLUtils.hpp:82, invalid argument, NCCL version 2.4.8\nsrun: error: n0: tasks 2-7: Exited with exit code 1\nsrun: error: n1: tasks 8-15: Exited with exit code 1\n", exit: ExitUnknown, head: []string{"invalid argument", "no machine"}},
	{name: "two launchers, one after the other", text: elasticOf("22:45:52", 0, 19414) + elasticOf("22:45:01", 4, 19401), exit: ExitFound, ranks: []int{4}},
	{name: "ranks apart", text: "[E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=96117, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25625613 milliseconds before timing out.\n[E ProcessGroupNCCL.cpp:458] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=64088, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25625251 milliseconds before timing out.\n", exit: ExitUnknown, head: []string{"rank 7 at all_reduce #64088", "rank 0 at all_reduce #96117"}},
	{name: "who waits", text: "[rank2]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=5, NumelOut=5, Timeout(ms)=600000) ran for 600061 milliseconds before timing out.\n[rank2]:[E101 10:00:00.2 ProcessGroupNCCL.cpp:2268] [PG ID 1 PG GUID 1 Rank 2]  failure detected by watchdog at work sequence id: 9 PG status: last enqueued work: 12, last completed work: 8\n", exit: ExitUnknown, head: []string{"Rank 2 waits in all_reduce #9", "Nothing was seen of ranks 0, 1"}},
	{name: "Ray's call", text: "ray::W.f() (pid=124798, ip=10.0.0.9, actor_id=b, repr=x)\n  File \"/x/memory.py\", line 170, in empty_cache\n    f()\nRuntimeError: CUDA error: an illegal memory access was encountered\n", exit: ExitFound, head: []string{"124798", "10.0.0.9", "illegal memory access"}},
	{name: "a port in use, at its start", text: "-- Process 0 terminated with the following error:\nTraceback (most recent call last):\n  File \"/x/torch/distributed/rendezvous.py\", line 143, in _env_rendezvous_handler\n    store = TCPStore(a, b)\nRuntimeError: Address already in use\n", exit: ExitFound, head: []string{"another process uses it"}},
	{name: "Horovod, the rank that tells is the one awaited", text: "[1,0]<stderr>:Stalled ranks:\n\n[1,0]<stderr>:0: [HorovodAllreduce]\n", exit: ExitUnknown, head: []string{"Rank 0 did not come"}},
	{name: "torchrun's list without its head", text: "  rank      : 2 (local_rank: 0)\n  exitcode  : -11 (pid: 6421)\n  error_file: <N/A>\n", exit: ExitFound, ranks: []int{2}, head: []string{"signal 11"}},
	{name: "torchrun's list, traceback on the line of its field", text: "Root Cause (first observed failure):\n[0]:\n  time      : x\n  host      : gpu-b\n  rank      : 304 (local_rank: 0)\n  exitcode  : 1 (pid: 103)\n  error_file: /tmp/error.json\n  traceback : Traceback (most recent call last):\n    File \"/x/train.py\", line 8, in step\n      die\n  NameError: mine\n  \n====\n", exit: ExitFound, ranks: []int{304}, head: []string{"NameError: mine"}},
	{name: "hydra, signal in its last line", text: "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 9665 RUNNING AT gpu-a\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n====\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n", exit: ExitFound, head: []string{"9665", "gpu-a", "SIGKILL"}},
	{name: "why a process aborted", text: "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at pair.cc:498] optval == 0. SO_ERROR: Connection refused\nmpirun noticed that process rank 1 with PID 29013 on node n1 exited on signal 6 (Aborted).\n", exit: ExitUnknown, head: []string{"Rank 1", "SIGABRT", "Connection refused"}},
	{name: "a GPU program that NCCL ended", text: "n5:917:994 [0] transport/net_ib.cu:788 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129\nn5:917:917 [1] init.cu:194 NCCL WARN Cuda failure 'an illegal memory access was encountered'\n", exit: ExitUnknown, head: []string{"917 on n5", "lost the network"}},
	{name: "a cancelled step", text: "slurmstepd: error: *** STEP 6053.0 ON n1 CANCELLED AT 2026-04-23T12:18:08 ***\nsrun: error: n1: task 0: Terminated\n", exit: ExitUnknown, head: []string{"cancelled in Slurm"}},
	{name: "a command that failed", text: "subprocess.CalledProcessError: Command 'ssh -o x 10.0.0.9 hostname' returned non-zero exit status 255.\n", exit: ExitUnknown, head: []string{"ssh -o x 10.0.0.9", "255"}},
	{name: "words of failure alone", text: "W ops.cc:1318] OP_REQUIRES failed at mpi_ops.cc:422 : Aborted: Horovod has been shut down.\n", exit: ExitUnknown, head: []string{"Horovod has been shut down"}},
	{name: "broken inside the words of a message", text: "[rank1]:[E307 05:30:20.0 ProcessGroupNCCL.cpp:2057] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: [Rank 1] Watchdog caught collectiv\ne operation timeout: WorkNCCL(SeqNum=13, OpType=SCATTER, NumelIn=384, NumelOut=0, Timeout(ms)=1800000) ran for 1800085 milliseconds before timing out.\n", exit: ExitUnknown, head: []string{"Rank 1 waits in scatter #13"}},
	{name: "a traceback that is cut off", text: "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/x/train.py\", line 68, in setup\n[rank1]:     args = f()\n[rank1]:   File \"/y/state.py\", line 301, in\n", exit: ExitUnknown, head: []string{"Rank 1", "setup (/x/train.py:68)", "lacks what it says"}},
	{name: "a launcher's own traceback, cut off", text: "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 326) of binary: python\nTraceback (most recent call last):\n  File \"/x/lib/python3.9/runpy.py\", line 197, in _run_module_as_main\n    return f()\n", exit: ExitUnknown, head: []string{"ocal rank 0", "exit code 1"}, never: []string{"runpy"}},
	{name: "a wait status of SGLang", text: "[2026-04-26 20:55:32] Child process unexpectedly failed with an exit code 11. pid=293198\n", exit: ExitFound, head: []string{"293198", "SIGSEGV"}},
	{name: "spawn, without a traceback", text: "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\nAssertionError\n", exit: ExitUnknown, head: []string{"ocal rank 1", "exception"}},
	{name: "an errno without its exception", text: "ERROR: x.filesystem_async: Local process 0 encountered an error: [Errno 5] Input/output error\n", exit: ExitFound, head: []string{"Input/output error"}, says: []string{"file system"}},
	{name: "an assertion in a kernel", text: "../aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: [22,0,0], thread: [64,0,0] Assertion `index < sizes[i]` failed.\n", exit: ExitFound, head: []string{"IndexKernel.cu", "index < sizes[i]", "program"}},
	{name: "UCX's signal handler", text: "[gpu-a:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)\n", exit: ExitFound, head: []string{"3039", "gpu-a", "SIGBUS"}},
	{name: "a bus error of all", text: elasticOf("10:00:00", 0, 11) + strings.ReplaceAll(elasticOf("10:00:00", 1, 12), "exitcode  : 1", "exitcode  : -7") + strings.ReplaceAll(elasticOf("10:00:00", 2, 13), "exitcode  : 1", "exitcode  : -7"), exit: ExitUnknown, head: []string{"SIGBUS", "/dev/shm"}},
	{name: "Ray passes on an exception", text: "Traceback (most recent call last):\n  File \"/x/ray/_private/worker.py\", line 919, in get_objects\n    raise value\nray.exceptions.RayTaskError(ValueError): ray::W.f() (pid=881, ip=10.0.0.9)\n  File \"/x/train.py\", line 8, in step\n    f()\nValueError: mine\n", exit: ExitFound, head: []string{"881", "ValueError: mine", "step (/x/train.py:8)"}},
	{name: "an exception without a name of its own", text: "[rank4]: Traceback (most recent call last):\n[rank4]:   File \"/x/train.py\", line 8, in step\n[rank4]:     f()\n[rank4]: Exception: mine\n", exit: ExitFound, ranks: []int{4}, head: []string{"Exception: mine"}},
	{name: "what NCCL says in PyTorch's exception", text: "torch.distributed.DistBackendError: NCCL error in: x/NCCLUtils.cpp:93, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.29.3 \nncclUnhandledCudaError: Call to CUDA function failed. \nLast error: \nFailed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'. \n", exit: ExitUnknown, head: []string{"bind NVLink SHARP", "401"}},
	{name: "a peer that closed its connection, above a watchdog's line", text: "gpu-a:4288:4521 [1] misc/socket.cc:30 NCCL WARN socketProgressOpt: Call to recv from 10.0.0.9<49901> failed : Broken pipe\n[rank5]:[E207 19:37:04.7 ProcessGroupNCCL.cpp:552] [Rank 5] Collective WorkNCCL(SeqNum=7718, OpType=_ALLGATHER_BASE, NumelIn=68124672, NumelOut=544997376\n", exit: ExitUnknown, head: []string{"gpu-a", "10.0.0.9", "victim"}, never: []string{"WorkNCCL"}},
	{name: "frames alone", text: "  File \"/x/train.py\", line 135, in train\n    self.step()\n  File \"/x/comm.py\", line 117, in wrapper\n    return f()\n  File \"/x/co", exit: ExitUnknown, head: []string{"/x/comm.py:117", "lacks what it says"}},
	{name: "a crash's frames alone", text: "[n7:1447852] [ 8] /lib/libopen-pal.so.40(ompi_sync_wait_mt+0xbd)[0x7fc1ff24c38d]\n[n7:1447852] [ 9] /lib/libmpi.so.40(MPI_Bcast+0x121)[0x7fc1ff32d881]\n", exit: ExitUnknown, head: []string{"1447852", "n7", "ompi_sync_wait_mt"}},
	{name: "Horovod's list of several ranks", text: "[0] Missing ranks:\n[0] 2: [broadcast.a, broadcast.b ...]\n[0] 5: [broadcast.a, broadcast.b ...]\n[0] done\n", exit: ExitUnknown, head: []string{"anks 2, 5"}},
	{name: "pods", text: "NAME    READY   STATUS    RESTARTS   AGE\njob-master-0    0/2     CrashLoopBackOff   8    2m32s\njob-worker-0    0/1     Init:1/2     0     2m31s\n", exit: ExitUnknown, head: []string{"job-master-0", "started again"}},
	{name: "torchrun's list without its end", text: "Failures:\n[1]:\n  time      : x\n  host      : gpu-b\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 227062)\n  error_file: <N/A>\n[2]:\n  time      : x\n  ho", exit: ExitUnknown, head: []string{"Rank 1", "exit code 1", "another fail first"}},
	{name: "settings with timeouts", text: "  rdzv_configs     : {'timeout': 900}\n[ERROR] 2021-09-13 22:18:26,678 error_handler: {\n  \"message\": {\n    \"message\": \"RendezvousConnectionError: The connection to the C10d store has failed.\",\n", exit: ExitUnknown, head: []string{"C10d store"}, never: []string{"rdzv_configs", "error_handler"}},
	{name: "an agent that lost the store", text: "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'n4_3882442_0' has failed to shutdown the rendezvous '99' due to an error of type RendezvousConnectionError.\nTraceback (most recent call last):\n  File \"/x/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py\", line 113, in _call_store\n    return f()\nRuntimeError: Broken pipe\n", exit: ExitUnknown, head: []string{"n4", "RendezvousConnectionError"}},
	{name: "HCCL's codes in brackets", text: "[PID: 749] 2025-12-29-03:16:15.787.356 Get_Socket_Timeout(EI0006): Getting socket times out. Reason: 1. The remote does not initiate a connect request.\n        Solution: 1. Check the rank service processes with other errors or no errors in the cluster.\n", exit: ExitUnknown, head: []string{"EI0006", "connect request"}, never: []string{"Solution"}},
	{name: "preempted, says submitit", text: "submitit WARNING (2022-08-12 02:06:11,453) - Caught signal SIGUSR2 on n1: this job is preempted.\nslurmstepd: error: *** JOB 608 ON n1 CANCELLED AT 2022-08-12T02:06:12 DUE TO JOB REQUEUE ***\nsrun: error: n1: tasks 2-3: Exited with exit code 1\n", exit: ExitFound, head: []string{"preempted", "No rank"}},
	{name: "Ray before 2, a worker that died", text: "WARNING worker.py:1245 -- A worker died or was killed while executing a task by an unexpected system error. Node ID: 92 Worker IP address: 10.0.0.2 Worker port: 42079 Worker PID: 8537\n", exit: ExitFound, head: []string{"8537", "10.0.0.2"}},
	{name: "Determined's command line", text: "> [] [rank=3] RuntimeError: CUDA out of memory. Tried to allocate 824.00 MiB (GPU 0; 7.93 GiB total capacity)\n", exit: ExitFound, ranks: []int{3}, head: []string{"CUDA out of memory"}},
	{name: "Ray, an actor whose address is cut off", text: "(TaskRunner pid=8) Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): ray::A.wake_up() (pid=9, ip=10.0.0.3)\n(TaskRunner pid=8) ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n(TaskRunner pid=8) \tclass_name: W\n(TaskRunner pid=8) \tpid: 909447\n(TaskRunner pid=8) \tname: W_0:1\n", exit: ExitFound, head: []string{"909447"}, never: []string{"RAY_IGNORE"}},
	{name: "Huawei's HCCP", text: "  File \"/x/torch/distributed/distributed_c10d.py\", line 3439, in barrier\n    work = default_pg.barrier(opts=opts)\nRuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64\nEJ0001: 2024-05-21-11:57:54.167.645 Failed to initialize the HCCP process. Reason: Maybe the last training process is running.\n", exit: ExitUnknown, head: []string{"HCCP", "last training process"}, never: []string{"victim"}},
	{name: "a label that begins as a pickle does", text: "(train pid=84) RuntimeError: npuSynchronizeDevice: NPU function error: AclrtSynchronizeDeviceWithTimeout, error code is 507048\n(train pid=84) [ERROR] 2025-06-25-10:45:23 (PID:130, Device:0, RankID:8) ERR00100 PTA call acl api failed\n(train pid=84) EI0002: [PID: 130] 2025-06-25-10:45:23.586.187 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank: [unknown]. base information\n", exit: ExitUnknown, head: []string{"Rank 8", "Notify record"}},
	{name: "HCCL, a number in a group", text: "[ERROR] 2025-10-11-15:09:34 (PID:296, Device:0, RankID:101) ERR00100 PTA call acl api failed.\nEI0002: [PID: 296] 2025-10-11-15:09:34.713.335 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank: [24]. task information: [stage:[0]]. group information: [group:[group_name_1654], rankSize[32], rankId[25 24]]\n", exit: ExitUnknown, head: []string{"Rank 101", "number 24 of group group_name_1654"}, never: []string{"suspects: rank 24"}},
	{name: "CANN's inner errors", text: "Traceback (most recent call last):\n  File \"/x/agent.py\", line 404, in broadcast\n    dist.broadcast_object_list(inputs)\n  File \"/x/torch/distributed/distributed_c10d.py\", line 2615, in broadcast_object_list\n    torch.sum(sizes).item()\nRuntimeError: ACL stream synchronize failed.\nEI9999: Inner Error!\nEI9999: 2024-10-21-10:42:00.358.410  The error from device(chipId:3, dieId:0), serial number is 9, hccl fftsplus task timeout occurred[FUNC:x][FILE:y][LINE:1]\n", exit: ExitUnknown, head: []string{"CANN failed", "chipId:3", "hccl fftsplus task timeout"}},
	{name: "Horovod, ranks in different operations", text: "Stalled ops: loss_Mean_0 [ready ranks: 3], gradients_a_0 [ready ranks: 2, 0, 1], gradients_b_0 [ready ranks: 2, 0, 1\n]\n", exit: ExitUnknown, head: []string{"rank 3 in loss_Mean_0", "ranks 0-2 in gradients_a_0"}, never: []string{"did not come"}},
	{name: "torchrun's list, the head cut off", text: "[3]:\n  time      : 2026-06-03_22:45:52\n  host      : gpu-a\n  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 19)\n  error_file: <N/A>\n" + elasticOf("22:45:52", 0, 18) + elasticOf("22:45:01", 4, 20), exit: ExitFound, ranks: []int{4}, head: []string{"Rank 4"}},
	{name: "Ray's stacks of old", log: "dump11.log", text: "Stack dump for u     20768  0.1  0.1 1751908 151888 pts/0  Sl   12:48   0:01 ray_worker\nThread 0x7F4AA36D9700 (active)\n\t get_next_task (ray/worker.py:988)\n\t main_loop (ray/worker.py:1005)\n\t <module> (ray/workers/default_worker.py:105)\n\nStack dump for u     20769  0.1  0.1 1751908 151760 pts/0  Sl   12:48   0:01 ray_worker\nThread 0x7FB6D283A700 (active)\n\t get_next_task (ray/worker.py:988)\n\t main_loop (ray/worker.py:1005)\n\t <module> (ray/workers/default_worker.py:105)\n", exit: ExitUnknown, says: []string{"20768", "20769"}, never: []string{"rank 11"}},
	{name: "one stack in a file with a number", log: "dump11.log", text: "Thread 7 (active): \"MainThread\"\n    step (train.py:9)\n    <module> (train.py:20)\n", exit: ExitUnknown, never: []string{"rank 11", "Rank 11"}},
	{name: "Ray, why an actor died", text: "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: W\n\tactor_id: d9\n\tpid: 201\n\tname: W_0:1\n\tnamespace: de\n\tip: 10.0.0.6\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.\n", exit: ExitFound, head: []string{"Process 201 on 10.0.0.6", "(SYSTEM_ERROR: Worker unexpectedly exits"}},
	{name: "side threads alone", text: "Thread 7 (Thread 0x7f272e99a640 (LWP 4554) \"python3\"):\n#0  0x00007f281f718d7f in __GI___poll (fds=0x7f273eeca000, nfds=65, timeout=500) at ../sysdeps/unix/sysv/linux/poll.c:29\n#1  0x00007f27a267dee7 in ?? () from /lib/x86_64-linux-gnu/libnccl.so.2\n#2  0x00007f281f694b43 in start_thread (arg=<optimized out>) at ./nptl/pthread_create.c:442\n", exit: ExitUnknown, head: []string{"side threads"}, never: []string{"code of its own", "Nothing was seen"}},
	{name: "amdgpu's page fault", text: "[ 2746.403998] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_i\n", exit: ExitFound, head: []string{"0000:03:00.0", "page fault", "program"}},
	{name: "an old kernel kills a child", text: "[Thu Dec  7 00:05:15 2017] Memory cgroup out of memory: Kill process 24572 (python) score 0 or sacrifice child\n[Thu Dec  7 00:05:15 2017] Killed process 21438 (python) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB\n", exit: ExitFound, head: []string{"21438"}, never: []string{"24572"}},
	{name: "an Xid that follows from another", text: "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149\n", exit: ExitFound, head: []string{"0000:dc:00", "NVLink", "149"}},
	{name: "NVLink, not fatal beside fatal", text: "NVRM: Xid (PCI:0000:01:00): 144, SAW_MVB Nonfatal XC0 i0 Link 0 (0x00000001 0x00000008)\nNVRM: Xid (PCI:0000:02:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000)\n", exit: ExitFound, head: []string{"0000:02:00", "149"}},
	{name: "talosctl's kernel log", text: "10.0.0.9: kern: warning: [2026-04-22T21:25:20.458Z]: NVRM: GPU at PCI:0000:48:00: GPU-5f\n10.0.0.9: kern:     err: [2026-04-22T21:25:20.466Z]: nvidia-nvswitch1: SXid (PCI:0000:aa:00.0): 24007, Severity 1 Engine instance 12 Sub-engine instance 00\n", exit: ExitFound, head: []string{"10.0.0.9", "NVSwitch 0000:aa:00.0", "24007"}},
	{name: "a log that ends in a rank's words", text: "[rank1]:[E617 08:47:15.0 ProcessGroupNCCL.cpp:572] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=79, OpType=_ALLGATHER_BASE, NumelIn=2, NumelOut=8, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n[rank1]:[E617 08:47:15.0 ProcessGroupNCCL.cpp:1587] [PG 0 (default_pg) Rank 1] Exception (either an error or timeout) detected by watchdog at work: 79, last enqueued NCCL work: 80, last completed NCCL work: 78.\n[rank2]:[E617 08:47:15.0 ProcessGroupNCCL.cpp:572] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=79, OpType=_ALLGATHER_BASE, NumelIn=2, NumelOut=8, Timeout(ms)=600000) ran for 600073 milliseconds before timing out.\n[rank2]:[E617 08:47:15.0 ProcessGroupNCCL.cpp:1587] [PG 0 (default_pg) Rank 2] Exception (either an error or timeout) detected by watchdog at work: 79, last enqueued NCCL work: 80, last completed NCCL work: 78.\n[rank0]:[E617 0", exit: ExitUnknown, head: []string{"anks 1, 2 wait in all_gather #79"}, never: []string{"reported nothing"}},
	{name: "Ray, several lost at once", text: "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.0.0.3 Worker port: 10005 Worker PID: 833 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) x [repeated 8x across cluster]\n", exit: ExitUnknown, head: []string{"Process 833 on 10.0.0.3 and 8 others"}},
	{name: "a failure above a traceback that is cut off", text: each("(EngineCore_DP1 pid=3256) ERROR 10-27 13:45:16 [core.py:710] ", "EngineCore encountered a fatal error.\nTraceback (most recent call last):\n  File \"/x/executor.py\", line 264, in collective_rpc\n    result = get_response(w, t,\n  File \"/x/executor.py\", line 244, in get_response\n    status, result = w.mq.dequeue(\n") + "(EngineCore_DP1 pid=3256) ERROR 10-27 13:45:\n", exit: ExitUnknown, head: []string{"DP1", "fatal error", "/x/executor.py:244"}},
	{name: "advice of RCCL's, and what failed", text: "box:2048:2048 [0] /x/init.cc:125 NCCL WARN Missing \"amd_iommu=on\" from kernel command line which can lead to system instablity or hang!\n\nbox:2048:2083 [1] /x/p2p.cc:220 NCCL WARN hipIpcGetMemHandle failed : invalid argument\n", exit: ExitUnknown, head: []string{"hipIpcGetMemHandle failed", "box"}},
	{name: "the name of the store's host", text: "> -- Process 0 terminated with the following error:\n> Traceback (most recent call last):\n> File \"/x/demo.py\", line 115, in main_worker\n> dist.init_process_group(backend=\"nccl\")\n> File \"/x/torch/distributed/rendezvous.py\", line 126, in _tcp_rendezvous_handler\n> store = TCPStore(a, b, c, d)\n> ValueError: host not found: Name or service not known\n", exit: ExitUnknown, head: []string{"look up the name of the store's host", "Name or service not known"}},
	{name: "PMIx", text: "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    gpu-c\n  Remote host:   gpu-d\n", exit: ExitUnknown, head: []string{"gpu-c", "gpu-d"}},
}

// elasticOf is what torchrun's agent says of the only rank that it saw fail.
func elasticOf(at string, rank, pid int) string {
	return fmt.Sprintf("Root Cause (first observed failure):\n[0]:\n  time      : 2026-06-03_%s\n  host      : gpu-a\n  rank      : %d (local_rank: 0)\n  exitcode  : 1 (pid: %d)\n  error_file: <N/A>\n====\n", at, rank, pid)
}

// each puts a label before every line.
func each(label, text string) string {
	var out []byte
	start := true
	for i := range len(text) {
		if start {
			out = append(out, label...)
		}
		out = append(out, text[i])
		start = text[i] == '\n'
	}
	return string(out)
}
