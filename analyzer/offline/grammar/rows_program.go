// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

const (
	ofMegatron = "Megatron-LM"
	atMegatron = "github.com/NVIDIA/Megatron-LM megatron/core/rerun_state_machine.py"
)

// programRows are what training programs say in words of their own.
var programRows = []Row{
	{
		Kind: NotANumber, Prints: ofMegatron + " core 0.9 and newer", Source: atMegatron, Says: "found an unexpected result (${what}) at iteration ${iteration}",
		Anchors: []string{"Unexpected result "}, Pattern: re(`Unexpected result (?P<what>\S+) on rank (?P<rank>\d+) at iteration #(?P<iteration>\d+)`),
		Test: "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3 at iteration #9 invocation #1 (message='mine')",
	},
	{
		Kind: NotANumber, Prints: ofMegatron, Source: atMegatron, Says: "computes the same unexpected result again: data or software, not a transient hardware error",
		Anchors: []string{"unexpected result is reproducible"},
		Pattern: re(`Rank (?P<rank>\d+), node (?P<host>[^\s,]+), device (?P<gpu>\d+), iteration #\d+:[^\n]*unexpected result is reproducible within`),
		Test:    "Rank 3, node gpu-c, device 3, iteration #9: First rerun: unexpected result is reproducible within the tolerance (nan = nan).",
	},
	{
		Kind: NaNTransient, Prints: ofMegatron, Source: atMegatron, Says: "does not compute the same result again: its GPU makes transient errors",
		Anchors: []string{"result is not reproducible", "Possible transient error", "Possible persistent error"},
		Pattern: re(`Rank (?P<rank>\d+), node (?P<host>[^\s,]+), device (?P<gpu>\d+), iteration #\d+:[^\n]*(?:not reproducible|Possible (?:transient|persistent) error)`),
		Test:    "Rank 3, node gpu-c, device 3, iteration #9: Possible transient error!",
	},
	{
		Kind: NotANumber, Prints: ofMegatron, Source: "github.com/NVIDIA/Megatron-LM megatron/core/distributed/param_and_grad_buffer.py", Says: "found ${what} in its ${where}",
		Anchors: []string{"in local grad norm", "in local forward loss", "in local grad"},
		Pattern: re(`[Rr]ank (?P<rank>\d+): found (?P<what>\w+) in local (?P<where>grad norm|forward loss|grad)(?:[^\n]*?Device: (?P<gpu>\d+), node: (?P<host>[\w.-]+))?`),
		Test:    "AssertionError: Rank 3: found NaN in local grad norm in backwards pass. Device: 3, node: gpu-c",
	},
	{
		Kind: NotANumber, Prints: "training programs", Source: "github.com/NVIDIA/Megatron-LM, github.com/NVIDIA/NeMo", Says: "found ${what}",
		Anchors: []string{"nan on rank", "NaN on rank", "inf on rank", "Inf on rank", "NaN loss on rank", "nan loss on rank", "NaNs on rank"},
		Pattern: re(`(?i)(?P<what>\b(?:nan|inf|infinity|nans)\b[^\n]{0,60}?) on rank:? ?(?P<rank>\d+)`),
		Test:    "ValueError: detected NaN loss on rank 5",
	},
	{
		Kind: SharedMemory, Prints: "PyTorch's data loader", Source: "github.com/pytorch/pytorch torch/utils/data/_utils/signal_handling.py", Says: "lost a data loader's worker: its shared memory (/dev/shm) is full",
		Anchors: []string{"is killed by signal: Bus error"}, Pattern: re(`DataLoader worker \(pid (?P<worker_pid>\d+)\) is killed by signal: Bus error[^\n]*`),
		Test: "RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
	},
	{
		Kind: SharedMemory, Prints: "PyTorch's data loader", Source: "github.com/pytorch/pytorch torch/csrc/DataLoader.cpp", Says: "lost a data loader's worker: its shared memory (/dev/shm) is full",
		Anchors: []string{"nexpected bus error encountered in worker"}, Test: "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
	},
	{
		Kind: SharedMemory, Prints: "PyTorch", Source: "github.com/pytorch/pytorch aten/src/ATen/MapAllocator.cpp", Says: "could not get shared memory: /dev/shm is full",
		Anchors: []string{"unable to write to file </torch_", "unable to open shared memory object", "unable to mmap"},
		Pattern: re(`unable to (?:write to file </torch_|open shared memory object|mmap)[^\n]*`), Test: "RuntimeError: unable to write to file </torch_4711_1>: No space left on device (28)",
	},
	{
		Kind: HostMemory, Prints: "PyTorch's data loader", Source: "github.com/pytorch/pytorch torch/utils/data/_utils/signal_handling.py", Says: "lost a data loader's worker by SIGKILL: its host or container ran out of memory, as a rule",
		Anchors: []string{"is killed by signal: Killed"}, Pattern: re(`DataLoader worker \(pid (?P<worker_pid>\d+)\) is killed by signal: Killed[^\n]*`),
		Test: "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
	},
	{
		Kind: Crashed, Prints: "PyTorch's data loader", Source: "github.com/pytorch/pytorch torch/utils/data/_utils/signal_handling.py", Says: "lost a data loader's worker: ${what}",
		Anchors: []string{"is killed by signal: Seg", "is killed by signal: Abo", "exited unexpectedly"},
		Pattern: re(`DataLoader worker \(pid(?:\(s\))? (?P<pids>[\d, ]+)\) (?P<what>is killed by signal: (?:Segmentation fault|Aborted)|exited unexpectedly)`),
		Test:    "RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly",
	},
	{
		Kind: DiskFull, Prints: "Python", Source: "docs.python.org library/exceptions", Says: "could not write: no space is left on the device",
		Anchors: []string{"Errno 28]", "Errno 122]"}, Pattern: re(`\[Errno (?:28|122)\] (?:No space left on device|Disk quota exceeded)`),
		Test: "OSError: [Errno 28] No space left on device: '/ckpt/x'",
	},
	{
		Kind: Storage, Prints: "Python", Source: "docs.python.org library/exceptions", Says: "could not use its files: ${what}",
		Anchors: []string{"Stale file handle", "Remote I/O error", "Transport endpoint is not connected", "[Errno 5] Input/output error"},
		Pattern: re(`\[Errno \d+\] (?P<what>Stale file handle|Remote I/O error|Transport endpoint is not connected|Input/output error)`),
		Test:    "OSError: [Errno 116] Stale file handle: '/data/x'",
	},
}

// libraryRows are what communication libraries other than NCCL say.
var libraryRows = []Row{
	{
		Kind: WaitsFor, Prints: "DeepEP's and nccl_ep's barrier inside a host; value above 0: that rank has not come", Source: "github.com/deepseek-ai/DeepEP csrc/kernels/utils.cuh, issue 570; github.com/NVIDIA/nccl contrib/nccl_ep/device", Says: "${lib}'s barrier",
		Anchors: []string{"EP timeout check failed: rank"},
		Pattern: re(`(?P<lib>DeepEP|NCCL EP) timeout check failed: rank = (?P<by>\d+), thread = (?P<ranks>\d+), value = (?P<value>-?\d+)`),
		Test:    "DeepEP timeout check failed: rank = 6, thread = 5, value = 1024)",
	},
	{
		Kind: LibraryWaits, Prints: "DeepEP before its barrier told for whom", Source: "github.com/sgl-project/sglang issue 6017", Says: "timed out in DeepEP's barrier",
		Anchors: []string{"DeepEP timeout check failed: "}, Pattern: re(`DeepEP timeout check failed: \d+ \(rank = (?P<rank>\d+)\)`), Test: "DeepEP timeout check failed: 0 (rank = 3)",
	},
	{
		Kind: WaitsFor, Prints: "DeepEP's low-latency kernels", Source: "github.com/deepseek-ai/DeepEP csrc/kernels/internode_ll.cu", Says: "DeepEP's barrier",
		Anchors: []string{"DeepEP timeout for barrier"}, Pattern: re(`DeepEP timeout for barrier, rank (?P<by>\d+), dst_rank (?P<ranks>\d+)`),
		Test: "Warning: DeepEP timeout for barrier, rank 2, dst_rank 5",
	},
	{
		Kind: WaitsFor, Prints: "nccl_ep's barrier", Source: "github.com/NVIDIA/nccl contrib/nccl_ep/device/low_latency.cu", Says: "NCCL EP's barrier",
		Anchors: []string{"EP clean barrier timeout"}, Pattern: re(`NCCL EP clean barrier timeout \(P2P\), myRank (?P<by>\d+), peer (?P<ranks>\d+)`),
		Test: "Warning: NCCL EP clean barrier timeout (P2P), myRank 2, peer 5",
	},
	{
		Kind: LibraryWaits, Prints: "nccl_ep's barrier", Source: "github.com/NVIDIA/nccl contrib/nccl_ep/device/low_latency.cu", Says: "timed out in NCCL EP's barrier over the network",
		Anchors: []string{"EP clean barrier timeout"}, Pattern: re(`NCCL EP clean barrier timeout \(GIN\), myRank (?P<rank>\d+)`),
		Test: "Warning: NCCL EP clean barrier timeout (GIN), myRank 2",
	},
	{
		Kind: WaitsFor, Prints: "DeepEP's and nccl_ep's low-latency kernels", Source: "github.com/deepseek-ai/DeepEP csrc/kernels/internode_ll.cu; github.com/NVIDIA/nccl contrib/nccl_ep/device/low_latency.cu", Says: "${lib}'s exchange",
		Anchors: []string{"EP timeout for dispatch receive,", "EP timeout for combine receive,"},
		Pattern: re(`(?P<lib>DeepEP|NCCL EP) timeout for (?P<what>dispatch|combine) receive, rank (?P<by>\d+), local_expert_idx \d+, src_rank (?P<ranks>\d+)`),
		Test:    "Warning: DeepEP timeout for dispatch receive, rank 2, local_expert_idx 0, src_rank 5",
	},
	{
		Kind: WaitsFor, Prints: "DeepEP's elastic buffers", Source: "github.com/deepseek-ai/DeepEP csrc/elastic", Says: "DeepEP's barrier",
		Anchors: []string{"DeepEP NVLink barrier timeout"}, Pattern: re(`DeepEP NVLink barrier timeout, tag: \d+, nvl: (?P<by>\d+), thread: (?P<ranks>\d+)`),
		Test: "DeepEP NVLink barrier timeout, tag: 1, nvl: 2, thread: 5, status: 0, signal: 3, phase: 0, target: 4, counter: 7",
	},
	{
		Kind: LibraryWaits, Prints: "DeepEP, all other time-outs", Source: "github.com/deepseek-ai/DeepEP csrc/kernels/internode.cu, intranode.cu", Says: "timed out in DeepEP (${what})",
		Anchors: []string{"DeepEP timeout for ", "DeepEP dispatch ", "DeepEP combine ", "DeepEP RDMA sender", "DeepEP notify", "DeepEP hybrid", "DeepEP Gin barrier", "DeepEP error: timeout", "DeepEP error: CPU recv timeout"},
		Pattern: re(`DeepEP (?:error: )?(?:timeout for )?(?P<what>[\w ()/-]*?(?:senders|receivers|timeout(?: \([^)\n]*\))?|CPU recv timeout)|(?:Gin|NVLink) barrier timeout)(?:, rank:? (?P<rank>\d+)|[^\n]*?(?:RDMA|IB): (?P<rdma>\d+), nvl:? (?P<nvl>\d+)(?:, (?:src|dst) (?:RDMA(?: lane)?|IB): (?P<rdma2>\d+))?(?:, (?:src |dst )(?:nvl|NVL): (?P<nvl2>\d+))?)?[^\n]*`),
		Test:    "DeepEP dispatch NVL receiver timeout, channel: 3, RDMA: 1, nvl: 2, src RDMA: 0, src nvl: 5, start: 0, end: 0",
	},
	{
		Kind: OtherLibrary, Prints: "NVSHMEM", Source: "github.com/NVIDIA/nvshmem src/host", Says: "NVSHMEM failed: ${what}",
		Anchors: []string{": non-zero status: ", "nvshmem initialization failed", "nvshmem setup connections failed", "NVSHMEM API called before NVSHMEM"},
		Pattern: re(`(?P<what>[\w./-]*nvshmem[^\s:]*:(?:\w+:)?\d+: non-zero status: \d+[^\n]*|nvshmem (?:initialization|setup connections) failed[^\n]*|NVSHMEM API called before NVSHMEM[^\n]*)`),
		Test:    "/opt/nvshmem_src/src/modules/transport/ibrc/ibrc.cpp:1433: non-zero status: 7 connect EPS failed",
	},
	{
		Kind: WaitsFor, Prints: "Huawei's HCCL (EI0002)", Source: "hiascend.com CANN error EI0002", Says: "an HCCL operation",
		Anchors: []string{"has not received the Notify record"}, Flat: true,
		Pattern: re(`has not received the Notify record from remote rank:? ?\[(?P<ranks>\d+)\](?:.{0,500}?group:\[(?P<group>group[^\]]*)\])?`), // Not the world's, hccl_world_group.
		Test:    "EI0002: [PID: 29] 2026-01-01-10:00:00 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank: [24].",
	},
	{
		Kind: LibraryWaits, Prints: "Huawei's HCCL (EI0002), with a number in a group", Source: "hiascend.com CANN error EI0002; github.com/vllm-project/vllm-ascend issue 3413",
		Says:    "timed out in HCCL, waiting for number ${member} of group ${group}",
		Anchors: []string{"has not received the Notify record"}, Flat: true,
		Pattern: re(`(?:\[PID: (?P<pid>\d+)\][^\[]*)?has not received the Notify record from remote rank:? ?\[(?P<member>\d+)\].{0,500}?group:\[(?P<group>group[^\]]*)\]`),
		Test:    "EI0002: [PID: 29] 2026-01-01-10:00:00 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank: [24]. group information: [group:[group_name_1654], rankSize[32], rankId[25 24]]",
	},
	{
		Kind: Placed, Prints: "Huawei's PyTorch (torch_npu)", Source: "github.com/Ascend/pytorch torch_npu/csrc/core/npu/NPUException.cpp; github.com/vllm-project/vllm-ascend issue 1443",
		Anchors: []string{", RankID:"}, Pattern: re(`\(PID:(?P<pid>\d+), Device:(?P<gpu>\d+), RankID:(?P<rank>\d+)\)`),
		Test: "[ERROR] 2025-06-25-10:45:23 (PID:13075, Device:0, RankID:8) ERR00100 PTA call acl api failed",
	},
	{
		Kind: OtherLibrary, Prints: "Huawei's CANN, errors without a number of their own", Source: "hiascend.com CANN error codes; github.com/Ascend/pytorch issue 54", Says: "CANN failed: ${what}",
		Anchors: []string{"EI9999: ", "EH9999: ", "EE9999: ", "EZ9999: ", "EJ9999: ", "EL9999: "},
		Pattern: re(`E[A-Z]9999: (?:\[PID: (?P<pid>\d+)\] )?(?:\d{4}-[\d:.-]+ +)(?P<what>[^\[\n]+)`),
		Test:    "EI9999: 2024-10-21-10:42:00.358.410  The error from device(chipId:3, dieId:0), serial number is 9, hccl fftsplus task timeout occurred during task execution[FUNC:x]",
	},
	{
		Kind: OtherLibrary, Prints: "Huawei's HCCL", Source: "hiascend.com CANN error codes EI0001 to EI0015 and EJ0001 to EJ0004", Says: "HCCL failed: ${code}${code2} ${what}${what2}${what3}",
		Anchors: []string{
			"EI0001: ", "EI0002: ", "EI0003: ", "EI0004: ", "EI0005: ", "EI0006: ", "EI0007: ", "EI0008: ", "EI0009: ", "EI0010: ", "EI0011: ", "EI0012: ", "EI0013: ", "EI0014: ", "EI0015: ",
			"EJ0001: ", "EJ0002: ", "EJ0003: ", "EJ0004: ", "Timeout(EI00", "_Socket(EI00", "Error(EI00", "HCCL function error", "[ERROR] HCCL(",
		},
		Pattern: re(`(?:\(?(?P<code>E(?:I00(?:0[13-9]|1\d)|J000[1-4]))\)?: (?:\[PID: (?P<pid>\d+)\] )?(?:\d{4}-[\d:.-]+ +)?(?P<what>[^\n]*)|(?P<code2>EI0002): (?:\[PID: (?P<id2>\d+)\] )?(?:\d{4}-[\d:.-]+ +)?(?P<what2>[^\n]*remote rank:? ?\[unknown\])|(?P<what3>HCCL function error[^\n]*|\[ERROR\] HCCL\([^\n]*))`),
		Test:    "EI0006: [PID: 29] 2026-01-01-10:00:00 Getting socket times out. Reason: Remote Rank did not send the data in time.",
	},
	{
		Kind: LibraryWaits, Prints: "XLA (JAX, TensorFlow), xla/service/rendezvous.cc", Source: "github.com/openxla/xla xla/service/rendezvous.cc", Says: "waits in XLA's rendezvous ${what}",
		Anchors: []string{"thread(s) failed to join", "not all of them arrived on time", "may be stuck", "threads to join the rendezvous"},
		Pattern: re(`rendezvous\.cc:\d+\] (?P<what>[^\n]*)`),
		Test:    "E0101 10:00:00.0 50 rendezvous.cc:116] This thread has been waiting for `first call to collective operation 5; run_id=7` for 40 seconds and may be stuck.",
	},
	{
		Kind: OtherLibrary, Prints: "Intel's oneCCL", Source: "github.com/uxlfoundation/oneCCL src/common/log/log.hpp", Says: "oneCCL failed: ${what}",
		Anchors: []string{"|CCL_ERROR|"}, Pattern: re(`(?:\((?P<pid>\d+)\) )?\|CCL_ERROR\| (?P<what>[^\n]*)`),
		Test: "2025:08:14-14:34:47:(19220) |CCL_ERROR| atl_mpi_comm.cpp:94 init_transport: comm_create error",
	},
	{
		Kind: OtherLibrary, Prints: "UCC and UCX", Source: "github.com/openucx/ucc src/utils/ucc_log.c, github.com/openucx/ucx src/ucs/debug/log.c", Says: "UCC or UCX failed: ${what}",
		Anchors: []string{" UCC  ERROR", " UCX  ERROR", "UCC ERROR", "UCX  FATAL", "TL_UCP ERROR", "TL_CUDA ERROR", "TL_NCCL ERROR", "TL_SHARP ERROR", "CL_HIER ERROR", "CL_BASIC ERROR"},
		Pattern: re(`(?:[^\n]*?\[(?P<host>[a-zA-Z][\w.-]*):(?P<pid>\d+) *(?::\w+)*\] +)?[^\n]*?(?P<what>(?:UC[CX]|[TC]L_[A-Z]+) +(?:ERROR|FATAL) [^\n]*)`),
		Test:    "[1700000000.123456] [gpu-a:4711 :0]    ib_mlx5_log.c:171  UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB",
	},
	{
		Kind: WaitsFor, Prints: "Horovod's stall inspector", Source: "github.com/horovod/horovod horovod/common/stall_inspector.cc", Says: "a Horovod operation",
		Anchors: []string{"[missing ranks: ", "[missing ranks:"}, Pattern: re(`(?P<what>\S+) \[missing ranks: ?(?P<ranks>[\d, ]+)\]`),
		Test: "Stalled ops:\nallreduce.grad_7 [missing ranks: 1, 2]",
	},
	{
		Kind: WaitsFor, Prints: "Horovod's stall inspector, 0.19 and newer", Source: "github.com/horovod/horovod horovod/common/stall_inspector.cc; github.com/polyaxon/polyaxon issue 657", Says: "a Horovod operation",
		Anchors: []string{"Missing ranks:", "Stalled ranks:"}, Pattern: re(`(?:Missing|Stalled) ranks:\s*\n[^\n]*?(?P<ranks>\d+): \[(?P<what>[^\],\n]+)`),
		Test: "Missing ranks:\n1: [allreduce.grad_7, allreduce.grad_8]",
	},
	{
		Kind: Reached, Prints: "Horovod before 0.14", Source: "github.com/horovod/horovod pull 342, issue 530", Says: "a Horovod operation",
		Anchors: []string{"[ready ranks: "}, Pattern: re(`(?:(?P<what>\S+) )?\[ready ranks: ?(?P<came>[\d, \n]+)\]`), Test: "Stalled ops: HorovodBroadcast_weights_0 [ready ranks: 5, 6, 3, 1, 4, 0]",
	},
	{
		Kind: LibraryWaits, Prints: "AWS Neuron's runtime", Source: "awsdocs-neuron.readthedocs-hosted.com neuron-runtime/nrt-troubleshoot", Says: "timed out on Neuron Device ${device} NC ${core}",
		Anchors: []string{"execution timeout ("}, Pattern: re(`execution timeout \(\d+ ms\) on Neuron Device (?P<device>\d+) NC (?P<core>\d+)`),
		Test: "(FATAL-RT-UNDEFINED-STATE) execution timeout (30000 ms) on Neuron Device 0 NC 1, model x.neff, waiting for execution completion notification",
	},
	{
		Kind: OtherLibrary, Prints: "AMD's and Microsoft's libraries", Source: "github.com/microsoft/mscclpp", Says: "MSCCL++ failed: ${what}",
		Anchors: []string{"MSCCLPP WARN", "MSCCLPP ERROR"}, Pattern: re(`MSCCLPP (?:WARN|ERROR) (?P<what>[^\n]*)`), Test: "gpu-a:50:60 [1] MSCCLPP WARN Poll timeout",
	},
}
