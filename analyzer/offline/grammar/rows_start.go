// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

const (
	ofNCCL = "NCCL and RCCL"
	atNCCL = "github.com/NVIDIA/nccl src/init.cc, src/misc/socket.cc"
)

// startRows are what NCCL says: who joins a communicator, and what goes wrong there.
var startRows = []Row{
	{
		Kind: Joined, Prints: ofNCCL + " with NCCL_DEBUG=INFO, 2.3 and newer", Source: atNCCL,
		Anchors: []string{" - Init START", " - Init COMPLETE", " - Abort START", " - Abort COMPLETE", " - Destroy START", " - Destroy COMPLETE"},
		Pattern: re(ncclHead + `NCCL INFO (?:\[Rank \d+\] )?(?:ncclComm\w+ )?comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) n[rR]anks (?P<size>\d+) cudaDev \d+(?: nvmlDev \d+)? busId (?P<bus>[0-9a-fA-F]+)(?: commId 0x(?P<id>[0-9a-f]+))?[^\n]*? - (?P<what>Init|Abort|Destroy) (?P<how>START|COMPLETE)`),
		Test:    "m:50:60 [3] NCCL INFO comm 0x9bc5a80 rank 11 nranks 16 cudaDev 3 busId 4e000 - Abort COMPLETE",
	},
	{
		Kind: Launched, Prints: ofNCCL + " with NCCL_DEBUG_SUBSYS=COLL", Source: "github.com/NVIDIA/nccl src/enqueue.cc",
		Anchors: []string{": opCount "},
		Pattern: re(ncclHead + `NCCL INFO (?P<op>\w+): opCount (?P<count>[0-9a-f]+) sendbuff \S+ recvbuff \S+ (?:acc \S+ )?count (?P<n>\d+) datatype (?P<type>\d+) op \d+ root (?P<root>-?\d+) comm (?P<comm>0x[0-9a-f]+)(?: \[nranks=(?P<size>\d+)\])?`),
		Test:    "gpu-a:50:60 [4] NCCL INFO AllReduce: opCount 2a sendbuff 0x7f recvbuff 0x7e count 5 datatype 7 op 0 root 0 comm 0x50 [nranks=8] stream 0x5",
	},
	{
		Kind: Warning, Prints: ofNCCL, Source: atNCCL, Anchors: []string{"NCCL WARN "}, Says: "NCCL warned: ${what}",
		Pattern: re(`(?:` + ncclHead + `(?:\S+ )?|\[(?P<rank>\d+)/\d+\]\S* ?(?:\[[^\]\n]*\] ?)*\[(?P<host2>[\w.-]+):(?:pid=)?(?P<id3>\d+)\][^\n]*? |(?P<shipper>[\w.-]+) >> (?:\[[^\]\n]*\] ?)?:(?P<id2>\d+):\d+ \[(?P<dev>\d+)\] [^\n]*?)?NCCL WARN (?P<what>[^\r\n]+)`),
		Test:    "[0604/1024][2026-01-01 10:00:00,422] [misc/socket.cc:586] [gpu-a:pid=77] NCCL WARN socketPollConnect poll() returned 1, no POLLOUT events",
	},
	{
		Kind: ClosedFirst, Prints: ofNCCL, Source: atNCCL, Anchors: []string{"onnection closed by"}, Says: "closed its connections",
		Pattern: re(`[Cc]onnection closed by (?:remote )?peer (?P<host>[\w.:-]+?)<\d+>`),
		Test:    "socketProgress: Connection closed by remote peer node-3<41234>",
	},
	{
		Kind: Connect, Prints: ofNCCL, Source: atNCCL, Says: "cannot connect to ${peer} port ${port} (${why})",
		Anchors: []string{"onnect to ", "onnecting to "},
		Pattern: re(`(?:` + ncclHead + `)?(?:NCCL INFO |\S+ NCCL WARN )?(?:\w+: )?(?:[Cc]all to )?[Cc]onnect(?:ing)? to (?P<peer>[\w.:%-]+?)<(?P<port>\d+)>(?: \([^)\n]*\))? (?:returned|failed ?:?|after) ?:? ?(?P<why>Connection refused|Connection timed out|No route to host|Network is unreachable|Host is unreachable|Software caused connection abort|Cannot assign requested address|Connection reset by peer)`),
		Test:    "gpu-a:50:60 [4] NCCL INFO socketPollConnect: connect to 10.0.0.9<52333> returned Connection refused, retrying (33/34) after sleep for 3300 msec",
	},
	{
		Kind: ForeignClient, Prints: ofNCCL + ", 2.15 and newer", Source: atNCCL, Says: "got a connection with the wrong magic ${magic}",
		Anchors: []string{"wrong magic "},
		Pattern: re(`(?:[^\n]*?(?:` + ncclHead + `|(?P<shipper>[\w.-]+) >> (?:\[[^\]\n]*\] ?)?:(?P<id2>\d+):\d+ \[(?P<dev>\d+)\] ))?[^\n]*?wrong magic (?P<magic>[0-9a-f]+) != [0-9a-f]+`),
		Test:    "gpu-a:166:1226 [0] misc/socket.cc:484 NCCL WARN socketFinalizeAccept: wrong magic 74656d2f20544547 != 7970663b906d70b9",
	},
	{
		Kind: ClosedFirst, Prints: ofNCCL + ", 2.18 and newer", Source: "github.com/NVIDIA/nccl src/proxy.cc", Says: "closed its connections to the other processes of its host first",
		Anchors: []string{"onnection closed by localRank"},
		Pattern: re(`(?P<host>[^\s:\]>]+):\d+:\d+ \[\d+\] NCCL INFO \[Service thread\] Connection closed by localRank (?P<local>\d+)`),
		Test:    "gpu-a:100:200 [0] NCCL INFO [Service thread] Connection closed by localRank 7",
	},
	{
		Kind: SameGPU, Prints: ofNCCL, Source: atNCCL, Says: "were given the same GPU (CUDA device ${bus})",
		Anchors: []string{"Duplicate GPU detected"},
		Pattern: re(`(?:(?P<host>[^\s:\]>]+):\d+:\d+ \[\d+\] )?[^\n]*?Duplicate GPU detected ?: rank (?P<a>\d+) and rank (?P<b>\d+) both on CUDA device (?P<bus>\w+)`),
		Test:    "gpu-a:50:60 [1] init.cc:497 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000",
	},
	{
		Kind: VersionMismatch, Prints: ofNCCL, Source: atNCCL, Says: "and rank ${other} loaded different versions of NCCL (${va} and ${vb})",
		Anchors: []string{"Mismatched NCCL version detected"},
		Pattern: re(`Mismatched NCCL version detected ?: rank (?P<rank>\d+) version (?P<va>\d+) rank (?P<other>\d+) version (?P<vb>\d+)`),
		Test:    "init.cc:900 NCCL WARN Mismatched NCCL version detected : rank 3 version 21602 rank 0 version 21800",
	},
	{
		Kind: Setup, Prints: ofNCCL, Source: atNCCL, Says: "found no network interface that NCCL may use",
		Anchors: []string{"o socket interface found", "No interface found"},
		Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?[Nn]o (?:socket )?interface found`),
		Test:    "gpu-a:50:60 [0] NCCL WARN Bootstrap : no socket interface found",
	},
	{
		Kind: SharedMemory, Prints: ofNCCL, Source: "github.com/NVIDIA/nccl src/misc/shmutils.cc", Says: "could not get shared memory for NCCL: /dev/shm is full or too small",
		Anchors: []string{"failed to extend /dev/shm", "rror while creating shared memory segment", "Error while attaching to shared memory segment"},
		Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?(?:failed to extend /dev/shm|[Ee]rror while (?:creating|attaching to) shared memory segment)[^\n]*`),
		Test:    "gpu-a:50:60 [1] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-6XsGzh to 9637892 bytes",
	},
	{
		Kind: Locked, Prints: ofNCCL, Source: "github.com/NVIDIA/nccl src/misc/ibvwrap.cc", Says: "could not register memory with the NIC: ${what}",
		Anchors: []string{"Call to ibv_"},
		Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?Call to (?P<what>ibv_\w+ failed(?: with error)?:? ?(?:Cannot allocate memory|Bad address))`),
		Test:    "gpu-a:50:60 [1] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory",
	},
	{
		Kind: NetworkError, Prints: ofNCCL, Source: "github.com/NVIDIA/nccl src/misc/ibvwrap.cc", Says: "could not connect through its NIC: ${what}",
		Anchors: []string{"Call to ibv_modify_qp failed"},
		Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?Call to (?P<what>ibv_modify_qp failed[^\n]*)`), Test: "gpu-a:50:60 [1] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110",
	},
	{
		Kind: NetworkError, Prints: ofNCCL, Source: "github.com/NVIDIA/nccl src/transport/net_ib.cc", Says: "got a fatal event of NIC ${dev_name}: ${what}",
		Anchors: []string{" async fatal event on "},
		Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?NET/IB ?: (?P<dev_name>[\w.-]+?):\d+ async fatal event on (?P<what>[^\n]*)`), Test: "gpu-a:50:60 [1] transport/net_ib.cc:120 NCCL WARN NET/IB : mlx5_4:1 async fatal event on QP (0x7f): local work queue catastrophic error",
	},
	{
		Kind: Connect, Prints: "Open MPI and PMIx", Source: "github.com/openpmix/prrte src/rml/oob/help-oob-tcp.txt", Says: "cannot open a TCP connection to ${peer}",
		Anchors: []string{"unable to complete a TCP connection"}, Flat: true,
		Pattern: re(`unable to complete a TCP connection to another process: Local host: (?P<host>\S+) Remote host: (?P<peer>\S+)`),
		Test:    "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    gpu-a\n  Remote host:   gpu-b",
	},
	{
		Kind: RemoteError, Prints: ofNCCL, Source: atNCCL, Says: "lost its connection to a peer: ${last}",
		Anchors: []string{"Call to recv from ", "Call to send to "},
		Pattern: re(ncclHead + `(?:\S+ )?NCCL WARN (?P<last>[^\n]*Call to (?:recv from|send to) [^\n]*(?:Broken pipe|Connection reset by peer|Connection timed out)[^\n]*)`),
		Test:    "gpu-a:4288:4521 [1] misc/socket.cc:30 NCCL WARN socketProgressOpt: Call to recv from 10.0.0.9<49901> failed : Broken pipe",
	},
	{
		Kind: RemoteError, Prints: "Open MPI", Source: "github.com/open-mpi/ompi opal/mca/btl/tcp/help-mpi-btl-tcp.txt; github.com/horovod/horovod issue 1950", Says: "lost its MPI connection to ${peer}",
		Anchors: []string{"peer process has unexpectedly disconnected"}, Flat: true,
		Pattern: re(`peer process has unexpectedly disconnected.*?Local host: (?P<host>\S+) Local PID: (?P<pid>\d+) Peer host: (?P<peer>\S+)`),
		Test:    "An MPI communication peer process has unexpectedly disconnected.  This\nusually indicates a failure.\n\n  Local host: gpu-a\n  Local PID:  7720\n  Peer host:  gpu-b",
	},
	{
		Kind: NetworkError, Prints: ofNCCL + " before 2.16", Source: "github.com/NVIDIA/nccl pull 880, github.com/NVIDIA/nccl-tests issue 24", Says: "lost the network to a peer: InfiniBand completion error, status ${status}",
		Anchors: []string{"Got completion with error "},
		Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?Got completion with error (?P<status>\d+)`),
		Test:    "gpu-a:35917:35994 [0] transport/net_ib.cu:788 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
	},
	{
		Kind: NetworkError, Prints: ofNCCL, Source: "github.com/NVIDIA/nccl src/transport/net_ib.cc", Says: "lost the network to ${peer}: InfiniBand completion error, status ${status}",
		Anchors: []string{"Got completion from peer"},
		Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?Got completion from peer (?P<peer>[\w.:%-]+?)<\d+> with (?:status=|error )(?:\w+\()?(?P<status>\d+)(?:[^\n]*?\bhca (?P<nic>\w+))?`),
		Test:    "node-1:701:911 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB: Got completion from peer 10.1.0.7<38244> with status=12 hca mlx5_1",
	},
	{
		Kind: LinkHardware, Prints: ofNCCL, Source: "github.com/NVIDIA/nccl src/transport/net_ib.cc", Says: "got an event of its NIC ${nic}: ${what}",
		Anchors: []string{"ot async event", "ot async error event", "ot async fatal event"},
		Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?NET/IB ?: (?P<nic>[\w.:-]+?)(?::\d+)? [Gg]ot async (?:\w+ )?event ?: (?P<what>[^\n]*(?:port error|catas\. error|fatal|port down|local)[^\n]*)`),
		Test:    "gpu-a:50:60 [1] transport/net_ib.cc:90 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error",
	},
	{
		Kind: RemoteError, Prints: "PyTorch with NCCL", Source: atWatchdog, Says: "lost its connection to a peer: ${last}",
		Anchors: []string{"ncclRemoteError:"},
		Pattern: re(`ncclRemoteError:[^\n]*(?:\n[^\n]*Last error:[^\n]*\n(?:\[rank\d+\]:? ?)?(?P<last>[^\n]*))?`),
		Test:    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\nsocketProgressOpt: Call to recv from 10.0.0.9<49901> failed : Broken pipe",
	},
	{
		Kind: NCCLError, Prints: "vLLM's and SGLang's binding of NCCL", Source: "github.com/vllm-project/vllm vllm/distributed/device_communicators/pynccl_wrapper.py", Says: "NCCL failed with ${what}",
		Anchors: []string{"Error: NCCL error: "}, Pattern: re(`Error: NCCL error: (?P<what>[a-z ]+?)(?: \(run with| - |\n|$)`),
		Test: "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
	},
	{
		Kind: Returned, Prints: ofNCCL + " with NCCL_DEBUG=INFO", Source: "github.com/NVIDIA/nccl src/include/checks.h", Says: "NCCL failed in ${where} with code ${code}",
		Anchors: []string{"NCCL INFO misc/socket.cc:", "NCCL INFO bootstrap.cc:", "NCCL INFO init.cc:", "NCCL INFO proxy.cc:", "NCCL INFO transport/", "NCCL INFO transport.cc:", "NCCL INFO enqueue.cc:"},
		Pattern: re(`(?:` + ncclHead + `)?NCCL INFO (?P<where>[\w/]+\.cc):\d+ -> (?P<code>[1-6])\b`),
		Test:    "gpu-a:50:60 [0] NCCL INFO misc/socket.cc:564 -> 2",
	},
	{
		Kind: NCCLError, Prints: "PyTorch with NCCL", Source: atWatchdog, Says: "NCCL failed with ${class}: ${last}",
		Anchors: []string{"ncclSystemError:", "ncclInternalError:", "ncclInvalidUsage:", "ncclUnhandledCudaError:", "ncclInvalidArgument:"},
		Pattern: re(`(?P<class>nccl\w+):[^\n]*(?:\n[^\n]*Last error:[^\n]*\n(?:\[rank\d+\]:? ?)?(?P<last>[^\n]*))`),
		Test:    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\nLast error:\nnet.cc:12: Call to open failed",
	},
}
