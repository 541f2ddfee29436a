// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

const (
	ofWatchdog = "PyTorch's NCCL watchdog"
	atWatchdog = "github.com/pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"
)

// watchdogRows are what PyTorch's process groups say of operations.
var watchdogRows = []Row{
	{
		Kind: Timeout, Prints: ofWatchdog + ", 1.13 and newer; without numbers before 2.0", Source: atWatchdog,
		Anchors: []string{"Watchdog caught collective operation timeout"}, Flat: true,
		Pattern: re(`Watchdog caught collective operation timeout: WorkNCCL\( ?(?:SeqNum= ?(?P<seq>\d+), ?)?OpType= ?(?P<op>\w+)(?:, ?NumelIn= ?(?P<in>\d+), ?NumelOut= ?(?P<out>\d+))?(?:, ?[A-Za-z]+= ?[^,()]*)*?, ?Timeout ?\(ms\) ?= ?\d+ ?\)(?: ran for (?P<ms>\d+) milliseconds)?`),
		Test:    "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1801177 milliseconds before timing out.",
	},
	{
		Kind: Timeout, Prints: ofWatchdog + ", as people shorten it", Source: "github.com/InternRobotics/AnySplat issue 61",
		Anchors: []string{"Watchdog caught collective operation timeout"}, Flat: true,
		Pattern: re(`Watchdog caught collective operation timeout: WorkNCCL\( ?OpType= ?(?P<op>\w+), ?SeqNum= ?(?P<seq>\d+)[^()]*\)(?: ran for (?P<ms>\d+) (?:ms|milliseconds))?`),
		Test:    "Watchdog caught collective operation timeout:\nWorkNCCL(OpType=ALLREDUCE, SeqNum=458) ran for 1800600 ms before timing out.",
	},
	{
		Kind: WatchdogStuck, Prints: ofWatchdog + ", 2.2 and newer", Source: atWatchdog, Says: "its watchdog was stuck in a call of CUDA or NCCL${why}",
		Anchors: []string{"'s watchdog got stuck for ", "eartbeat monitor timed out!"}, Flat: true,
		Pattern: re(`(?:watchdog got stuck(?P<why> for \d+ seconds)|eartbeat monitor timed out!)`),
		Test:    "[PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
	},
	{
		Kind: Counters, Prints: ofWatchdog + ", 2.2 and newer", Source: atWatchdog,
		Anchors: []string{"etected by watchdog at work", "Timeout at NCCL work:"},
		Test:    "[PG 0 Rank 1] Timeout at NCCL work: 2, last enqueued NCCL work: 2, last completed NCCL work: 1.",
	},
	{
		Kind: DumpSignal, Prints: ofWatchdog + ", 2.4 and newer", Source: atWatchdog, Flat: true,
		Anchors: []string{"Received a dump signal", "Received a timeout signal"},
		Pattern: re(`Received a (?:dump|timeout) signal(?: due to a collective timeout)? from +(?:(?:another )?rank (?P<of>\d+)|(?P<own>this local rank))`),
		Test:    "Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump the debug info.",
	},
	{
		Kind: Lagging, Prints: ofWatchdog + " with TORCH_NCCL_DESYNC_DEBUG=1", Source: "github.com/pytorch/pytorch torch/csrc/distributed/c10d/TraceUtils.h",
		Anchors: []string{"To our best knowledge, "}, Test: "To our best knowledge, ranks [3] are the lagging ranks that caused this timeout. They never joined any collectives",
	},
	{
		Kind: Snapshot, Prints: ofWatchdog + " with TORCH_NCCL_DESYNC_DEBUG=1", Source: "github.com/pytorch/pytorch torch/csrc/distributed/c10d/TraceUtils.h",
		Anchors: []string{"Snapshot of ranks' latest states"}, Test: "Snapshot of ranks' latest states:\n #8 started ranks:\n  [0, 1] started ALLREDUCE",
	},
	{
		Kind: CallStack, Prints: ofWatchdog + ", 2.5 and newer", Source: atWatchdog,
		Anchors: []string{"Stack trace of the failed collective"}, Test: "Stack trace of the failed collective: \n#0 all_reduce from /x/distributed_c10d.py:2810",
	},
	{
		Kind: NotJoined, Prints: "PyTorch's fr_trace, 2.6 and newer", Source: "github.com/pytorch/pytorch pull request 140969", Flat: true,
		Anchors: []string{"Not all ranks joining collective"},
		Pattern: re(`Not all ranks joining collective:? ?(?:sequence number: (?P<seq>\d+)|(?P<seq2>\d+))?.*?group info: (?P<group>[^:\s]*):(?P<desc>\S*) collective: (?:\w+:)?(?P<op>\w+) missing ranks: \{(?P<ranks>[\d, ]*)\}.*?expected ranks: \{(?P<expected>[\d, ]*)\}`),
		Test:    "Not all ranks joining collective: sequence number: 31117\ninternal record id: 31116\ngroup info: 0:default_pg\ncollective: nccl:all_reduce\nmissing ranks: {3, 4}\ninput sizes: [[1571911]]\noutput sizes: [[1571911]]\nworld size: 8\nexpected ranks: {0, 1, 2, 3, 4}",
	},
	{
		Kind: Print, Prints: "PyTorch with TORCH_DISTRIBUTED_DEBUG=DETAIL", Source: "github.com/pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp",
		Anchors: []string{"CollectiveFingerPrint("},
		Pattern: re(`(?P<other>but )?Rank (?P<rank>\d+) is running (?:inconsistent )?collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<seq>\d+))?(?:, ?)?OpType=(?P<op>\w+)(?:, TensorShape=\[(?P<shape>[\d, ]*)\], TensorDtypes=(?P<dtype>\w+))?`),
		Test:    "Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, TensorDeviceTypes=x)",
	},
	{
		Kind: Disagree, Prints: "PyTorch's DistributedDataParallel, 1.9 and newer", Source: "github.com/pytorch/pytorch torch/csrc/distributed/c10d/reducer.cpp", Says: "has another model than rank ${other}: ${what}",
		Anchors: []string{"DDP expects same model across all ranks"}, Flat: true,
		Pattern: re(`DDP expects same model across all ranks, but (?P<what>Rank (?P<rank>\d+) has \d+ params, while rank (?P<other>\d+) has inconsistent \d+ params)`),
		Test:    "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 212 params, while rank 0 has inconsistent 0 params.",
	},
	{
		Kind: WaitsFor, Prints: "PyTorch's monitored_barrier", Source: "github.com/pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupGloo.cpp", Says: "monitored_barrier",
		Anchors: []string{"failed to pass monitoredBarrier"},
		Pattern: re(`\[Rank (?P<by>\d+)\]: Ranks? (?P<ranks>[\d, ]+) failed to pass monitoredBarrier`),
		Test:    "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 20000 ms",
	},
	{
		Kind: Reached, Prints: "PyTorch's monitored_barrier", Source: "github.com/pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupGloo.cpp", Says: "monitored_barrier",
		Anchors: []string{"successfully reached monitoredBarrier"},
		Pattern: re(`Rank (?P<by>\d+) successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank \d+`),
		Test:    "Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.",
	},
	{
		Kind: WaitsFor, Prints: ofWatchdog + " at the first operation", Source: atWatchdog, Says: "the start of an NCCL communicator",
		Anchors: []string{"is setting up NCCL communicator"}, Flat: true,
		Pattern: re(`\[(?P<by>\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(?P<ranks>\d+)\] via c10d key-value store by key '[^']*', but store->get\('[^']*'\) got error: (?:Socket Timeout|[Ww]ait timeout|[Tt]imeout)`),
		Test:    "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
	},
	{
		Kind: Key, Prints: "PyTorch's store", Source: "github.com/pytorch/pytorch torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp",
		Anchors: []string{"wait timeout after", "imeout waiting for key: ", "Timed out waiting for key "}, Flat: true,
		Pattern: re(`(?:wait timeout after \d+ ?ms, keys: |[Tt]imeout waiting for key: |Timed out waiting for key )/?(?P<key>[^\s,]+)`),
		Test:    "wait timeout after 300000ms, keys: /default_pg/0//cpu//0/3",
	},
	{
		Kind: World, Prints: "gloo", Source: "github.com/pytorch/gloo gloo/transport/tcp/pair.cc",
		Anchors: []string{"Expected number of connected peer ranks is"},
		Pattern: re(`Rank (?P<rank>\d+) is connected to \d+ peer ranks\. Expected number of connected peer ranks is ?: ?(?P<peers>\d+)`),
		Test:    "[Gloo] Rank 1 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3",
	},
	{
		Kind: World, Prints: "anything that names the job's size", Source: "github.com/pytorch/pytorch torch/distributed/run.py",
		Anchors: []string{"world_size", "world size", "WORLD_SIZE", "World size", "World Size", "WORLD SIZE"},
		Pattern: re(`(?i)\bworld[_ ]size ?[=:] ?(?P<size>\d+)`), Test: "distributed init: world_size=16",
	},
	{
		Kind: Abort, Prints: "C++ runtimes", Source: "libstdc++",
		Anchors: []string{"terminate called after throwing"},
		Pattern: re(`terminate called after throwing an instance of '(?P<class>[^']+)'(?:[^\n]*\n[^\n]*what\(\):\s*(?P<what>[^\n]*))?`),
		Test:    "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  NCCL error",
	},
	{
		Kind: LastLine, Prints: "Python, the last line of a traceback", Source: "docs.python.org library/traceback",
		Anchors: []string{
			"RuntimeError: ", "ValueError: ", "KeyError: ", "TypeError: ", "IndexError: ", "OSError: ", "AssertionError: ", "FileNotFoundError: ", "ConnectionError: ", "ImportError: ", "AttributeError: ",
			"BackendError: ", "NetworkError: ", "StoreError: ", "MemoryError: ", "AcceleratorError: ", "TimeoutError: ", "PermissionError: ", "NotFoundError: ", "ProcessError: ", "Exception: ",
		},
		Pattern: re(`^(?P<label>(?:\[rank\d+\]: ?|\[proc \S*? pid=\d+\]:? )*)(?P<class>(?:[A-Za-z_][\w.]*)?(?:Error|Exception)(?:\([\w.]+\))?): (?P<message>[^\n]*)`),
		Test:    "[rank9]: ValueError: mine",
	},
	{
		Kind: Traceback, Prints: "Python", Source: "docs.python.org library/traceback",
		Anchors: []string{"Traceback (most recent call last):"}, Test: "Traceback (most recent call last):",
	},
}
