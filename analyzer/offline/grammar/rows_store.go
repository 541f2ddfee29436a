// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

const (
	ofStore = "PyTorch's TCPStore"
	atStore = "github.com/pytorch/pytorch torch/csrc/distributed/c10d/TCPStore.cpp, socket.cpp"
)

// storeRows are what the start of a job and its store say.
var storeRows = []Row{
	{
		Kind: ClientsMissing, Prints: ofStore, Source: atStore, Says: "waited ${seconds} s for all processes to reach the store: ${have} of ${of} came",
		Anchors: []string{"waiting for clients. "}, Flat: true,
		Pattern: re(`Timed out after (?P<seconds>\d+) seconds waiting for clients\. (?P<have>\d+)/(?P<of>\d+) clients joined`),
		Test:    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.",
	},
	{
		Kind: Leftovers, Prints: "PyTorch's store based barrier, 1.8 and newer", Source: "github.com/pytorch/pytorch torch/distributed/distributed_c10d.py",
		Anchors: []string{"in store based barrier"}, Flat: true,
		Pattern: re(`in store based barrier (?:to initialize process group for |on )rank: (?P<rank>\d+).*?\(world_size=(?P<of>\d+), worker_count=(?P<have>\d+)`),
		Test:    "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)",
	},
	{
		Kind: StoreUnreached, Prints: ofStore, Source: atStore, Says: "cannot reach the store at ${peer} port ${port} (${why})",
		Anchors: []string{"client socket has timed out after", "client socket has failed to connect to"}, Flat: true,
		Pattern: re(`client socket has (?P<why>timed out|failed to connect)(?: after \w+ while trying to connect)? to \(?\[?(?P<peer>[\w.:%-]+?)\]?[,:] ?(?P<port>\d+)\)?`),
		Test:    "The client socket has timed out after 900s while trying to connect to (10.0.0.1, 29500).",
	},
	{
		Kind: StoreUnreached, Prints: ofStore + ", before it tried again", Source: atStore + "; github.com/kubeflow/pytorch-operator issue 125", Says: "cannot look up the name of the store's host (${why})",
		Anchors: []string{"host not found: "}, Pattern: re(`host not found: (?P<why>[\w ]+)`), Test: "ValueError: host not found: Name or service not known",
	},
	{
		Kind: PortTaken, Prints: ofStore, Source: atStore, Says: "cannot open the store's port ${port}: another process uses it",
		Anchors: []string{"socket has failed to bind to", "EADDRINUSE", "errno: 98"}, Flat: true,
		Pattern: re(`(?:server socket has failed to (?:bind|listen)[^()]*?:(?P<port>\d+)[^()]*\(errno: 98[^)]*\)|EADDRINUSE(?:[^\n]*?port:? ?(?P<port2>\d+))?|errno: 98[^\n]{0,40}ddress already in use)`),
		Test:    "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
	},
	{
		Kind: LibraryWaits, Prints: ofStore + ", 2.5 and newer", Source: atStore + "; github.com/sgl-project/sglang issue 3398", Says: "waited in vain for the job's store on ${peer} port ${port}: nobody set what it wants",
		Anchors: []string{"waitForInput: "}, Flat: true,
		Pattern: re(`waitForInput: (?:poll for )?socket SocketImpl\([^)]*?remote=\[?(?:::ffff:)?(?P<peer>[^\]:)]+(?::[^\]):]+)*?)\]?:(?P<port>\d+)\) (?:timed out|returned 0, likely a timeout)`),
		Test:    "[rank3]:[W208 00:55:32.444220068 socket.cpp:487] [c10d] waitForInput: socket SocketImpl(fd=103, addr=[::ffff:10.0.0.2]:52362, remote=[::ffff:10.0.0.1]:5000) timed out after 1800000ms",
	},
	{
		Kind: PortTaken, Prints: "Python, PyTorch before 1.10, and Windows", Source: "github.com/Lightning-AI/pytorch-lightning issues 485, 2081; github.com/Adi-iitd/AI-Art issue 10", Says: "cannot open a port: another process uses it",
		Anchors: []string{"rror: Address already in use", "Only one usage of each socket address", "] Address already in use", "] address already in use"},
		Pattern: re(`(?:Error: (?:\[Errno \d+\] )?[Aa]ddress already in use|Only one usage of each socket address)`), Test: "RuntimeError: Address already in use",
	},
	{
		Kind: StoreGone, Prints: ofStore + ", 2.1 and newer", Source: atStore, Says: "lost the job's store",
		Anchors: []string{`flag on TCPStore`},
		Pattern: re(`Failed to (?:check|set|get)[^\n]{0,80}flag on TCPStore[^\n]*`),
		Test:    `Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe`,
	},
	{
		Kind: StoreGone, Prints: ofWatchdog + " at the first operation", Source: atWatchdog, Says: "lost the job's store, from which it wanted the id of an NCCL communicator",
		Anchors: []string{"is setting up NCCL communicator"}, Flat: true,
		Pattern: re(`is setting up NCCL communicator and retrieving ncclUniqueId from \[\d+\] via c10d key-value store by key '[^']*', but (?:store->get\('[^']*'\) )?got error: (?:Connection reset|Connection was|Connection refused|Broken pipe|Failed to recv|failed to recv)`),
		Test:    "[3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer",
	},
	{
		Kind: Rendezvous, Prints: ofElastic, Source: atElastic + "/rendezvous/dynamic_rendezvous.py", Says: "could not meet its peers: its agent ${what}",
		Anchors: []string{"' has failed to "}, Pattern: re(`The node '(?P<host>[^'\n]+?)_(?P<pid>\d+)_\d+' has (?P<what>failed to (?:send a keep-alive heartbeat|shutdown|join)[^\n.]*)`),
		Test: "The node 'gpu-3_1234_0' has failed to send a keep-alive heartbeat to the rendezvous 'job1' due to an error of type RendezvousConnectionError.",
	},
	{
		Kind: StoreGone, Prints: ofStore, Source: atStore, Says: "lost the job's store on ${peer}",
		Anchors: []string{"Value failed on SocketImpl", "Bytes failed on SocketImpl", "ytes failed on SocketImpl", "Vector failed on SocketImpl"}, Flat: true,
		Pattern: re(`\w+ failed on SocketImpl\([^)]*?remote=\[?(?P<peer>[^\]:)]+(?::[^\]):]+)*?)\]?:(?P<port>\d+)\)`),
		Test:    "[c10d] recvValue failed on SocketImpl(fd=9, addr=[h1]:50402, remote=[h0]:40027): Failed to recv, got 0 bytes. Connection was likely closed.",
	},
}

// schedulerRows are what schedulers and operators do to a job.
var schedulerRows = []Row{
	{
		Kind: TimeLimit, Prints: "Slurm", Source: "github.com/SchedMD/slurm src/slurmd/slurmstepd", Says: "reached the time limit of its Slurm job",
		Anchors: []string{"DUE TO TIME LIMIT"}, Pattern: re(`(?:ON (?P<host>\S+) )?CANCELLED AT \S+ DUE TO TIME LIMIT`),
		Test: "slurmstepd: error: *** JOB 7 ON gpu-a CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***",
	},
	{
		Kind: Preempted, Prints: "Slurm", Source: "github.com/SchedMD/slurm src/slurmd/slurmstepd", Says: "was preempted by Slurm",
		Anchors: []string{"DUE TO PREEMPTION"}, Pattern: re(`CANCELLED AT \S+ DUE TO PREEMPTION`), Test: "slurmstepd: error: *** JOB 7 ON gpu-a CANCELLED AT 2026-01-01T10:00:00 DUE TO PREEMPTION ***",
	},
	{
		Kind: Preempted, Prints: "submitit and Ray", Source: "github.com/facebookincubator/submitit issue 1708; github.com/ray-project/ray pull 63807", Says: "was preempted",
		Anchors: []string{"this job is preempted", "node was preempted"}, Pattern: re(`(?:this job is preempted|(?:pid: (?P<pid>\d+).*?)?the actor's node was preempted)`), Test: "submitit WARNING (2022-08-12 02:06:11,453) - Caught signal SIGUSR2 on n1: this job is preempted.",
	},
	{
		Kind: HostLost, Prints: "Slurm", Source: "github.com/SchedMD/slurm src/slurmd/slurmstepd", Says: "failed, says Slurm",
		Anchors: []string{"DUE TO NODE FAILURE", "error: Node failure on "},
		Pattern: re(`(?:CANCELLED AT \S+ DUE TO NODE FAILURE|Node failure on (?P<host>[^\s.]+))`), Test: "srun: error: Node failure on gpu-a",
	},
	{
		Kind: Cancelled, Prints: "Slurm", Source: "github.com/SchedMD/slurm src/slurmd/slurmstepd", Says: "was cancelled in Slurm",
		Anchors: []string{" CANCELLED AT "}, Pattern: re(`\*\*\* (?:JOB|STEP) \S+ (?:ON \S+ )?CANCELLED AT \S+ (?:\*\*\*|DUE TO (?:JOB )?(?:REQUEUE|SIGNAL))`),
		Test: "slurmstepd: error: *** STEP 7.0 ON gpu-a CANCELLED AT 2026-01-01T10:00:00 ***",
	},
	{
		Kind: HostMemory, Prints: "slurmstepd", Source: "github.com/SchedMD/slurm src/plugins/task/cgroup", Says: "ran out of the memory that its Slurm job may use",
		Anchors: []string{" oom_kill event", " oom-kill event", "exceeded memory limit"}, Pattern: re(`(?:Detected \d+ oom[_-]kill event|exceeded memory limit)[^\n]*`),
		Test: "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
	},
	{
		Kind: HostMemory, Prints: "srun", Source: "github.com/SchedMD/slurm src/srun/libsrun/launch.c", Says: "ran out of host memory; Slurm's cgroup ended the task",
		Anchors: []string{": Out Of Memory"}, Pattern: re(`srun: error: (?P<host>\S+): tasks? (?P<task>[\d,\- ]+): Out Of Memory`),
		Test: "srun: error: gpu-a: tasks 1-3: Out Of Memory",
	},
	{
		Kind: HostMemory, Prints: "Kubernetes", Source: "kubernetes.io docs/tasks/configure-pod-container/assign-memory-resource", Says: "ran out of the memory that its container may use (OOMKilled)",
		Anchors: []string{"OOMKilled"}, Pattern: re(`OOMKilled`), Test: "    Reason:       OOMKilled",
	},
	{
		Kind: Evicted, Prints: "Kubernetes", Source: "kubernetes.io docs/concepts/scheduling-eviction", Says: "was evicted: the node was low on ${what}",
		Anchors: []string{"The node was low on resource: "}, Pattern: re(`The node was low on resource: (?P<what>[\w-]+)`), Test: "The node was low on resource: ephemeral-storage.",
	},
	{
		Kind: Evicted, Prints: "Kubeflow's MPI operator", Source: "github.com/kubeflow/mpi-operator issue 647", Says: "lost workers to Kubernetes: ${what}",
		Anchors: []string{" workers are evicted"}, Pattern: re(`(?P<what>\d+/\d+ workers are evicted)`), Test: "    message: 1/8 workers are evicted",
	},
	{
		Kind: HostMemory, Prints: "Ray's memory monitor", Source: "github.com/ray-project/ray src/ray/common/memory_monitor.cc", Says: "ran out of host memory: Ray killed workers",
		Anchors: []string{"killed due to the node running low on memory", "OutOfMemoryError: Task was killed"}, Pattern: re(`(?s)killed due to the node running low on memory(?:.{0,40}?\(IP: (?P<host>[\w.:]+?),.{0,160}?pid=(?P<pid>\d+))?`),
		Test: "Task was killed due to the node running low on memory.",
	},
	{
		Kind: TimeLimit, Prints: "PBS and LSF", Source: "github.com/openpbs/openpbs src/resmom", Says: "reached the time limit of its job",
		Anchors: []string{"exceeded limit", "TERM_RUNLIMIT"}, Pattern: re(`(?:walltime \d+ exceeded limit|TERM_RUNLIMIT)`), Test: "=>> PBS: job killed: walltime 3610 exceeded limit 3600",
	},
	{
		Kind: HostMemory, Prints: "LSF", Source: "ibm.com docs spectrum-lsf", Says: "ran out of the memory that its job may use",
		Anchors: []string{"TERM_MEMLIMIT"}, Pattern: re(`TERM_MEMLIMIT[^\n]*`), Test: "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
	},
	{
		Kind: Exited, Prints: "kubectl get pods", Source: "kubernetes.io docs/concepts/workloads/pods/pod-lifecycle; github.com/kubeflow/katib issue 1112", Says: "fails and is started again, says Kubernetes",
		Anchors: []string{"CrashLoopBackOff "}, Pattern: re(`(?P<worker>[a-z0-9][\w.-]*) +\d+/\d+ +CrashLoopBackOff +\d`), Test: "train-worker-1    0/1     CrashLoopBackOff   8     2m32s",
	},
	{
		Kind: Exited, Prints: "Kubernetes", Source: "github.com/kubernetes/kubernetes pkg/kubelet", Says: "fails and is started again, says Kubernetes",
		Anchors: []string{"Back-off restarting failed container"}, Pattern: re(`Back-off restarting failed container \S+ in pod (?P<worker>[\w.-]+?)_`), Test: "Back-off restarting failed container pytorch in pod train-worker-1_ml(abcd)",
	},
	{
		Kind: HostLost, Prints: "Kubernetes", Source: "github.com/kubernetes/kubernetes pkg/controller/nodelifecycle", Says: "lost its node, says Kubernetes (${what})",
		Anchors: []string{"NodeNotReady", "NodeLost"}, Pattern: re(`(?P<what>NodeNotReady|NodeLost) +pod/(?P<worker>[\w.-]+)`), Test: "2m   Warning   NodeNotReady   pod/train-worker-5   Node is not ready",
	},
	{
		Kind: HostLost, Prints: "mpirun and prterun", Source: "github.com/openpmix/prrte src/runtime/help-prte-runtime.txt", Says: "lost its connection to the launcher",
		Anchors: []string{"has lost communication with a remote daemon"}, Flat: true,
		Pattern: re(`has lost communication with a remote daemon(?:.{0,160}?Remote daemon: \S+ on node (?P<host>\S+))?`),
		Test:    "PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-a-1@0,0] on node a\n  Remote daemon: [prterun-a-1@0,1] on node gpu-b",
	},
}
