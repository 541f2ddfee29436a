// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

const (
	ofDriver = "NVIDIA's driver, in the kernel log"
	atXid    = "docs.nvidia.com deploy/xid-errors"
	ofKernel = "the Linux kernel"
	ofCUDA   = "the CUDA runtime, through any program"
	atCUDA   = "docs.nvidia.com cuda/cuda-runtime-api, cudaError_t"
	// kernelHead is what syslog and talosctl put before the kernel's lines: the host.
	kernelHead = `(?:(?P<shipper>[\w.-]+): kern: +\w+: \[[^\]\n]*\]: )?(?:[A-Z][a-z]{2} +\d+ [\d:]+ (?P<host>[\w.-]+) |\d{4}-\d\d-\d\dT\S+ (?P<host2>[\w.-]+) )?(?:(?:(?P<host3>[\w.-]+) )?kernel: )?(?:\[[^\]\n]*\] ?)*`
	xidHead    = kernelHead + `NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\): `
	xidBefore  = `(?:45,(?: ?pid=['"]?(?P<id2>\d+)['"]?,)?[^\n]*?caused by previous Xid )?` // Of the channels that an error has ended.
	xidProcess = `(?:,? ?pid=['"]?(?P<pid>\d+)['"]?)?(?:,? ?name=(?P<name>[^\s,]+))?,? ?`
)

// hardwareRows are what the kernel and the CUDA runtime say of machines.
var hardwareRows = []Row{
	{
		Kind: GPUHardware, Prints: ofDriver, Source: atXid, Says: "GPU ${bus} reported Xid ${xid}: ${what}",
		Anchors: []string{"NVRM: Xid ("},
		Pattern: re(xidHead + xidBefore + `(?P<xid>46|48|5[67]|6[0-24]|79|8[18]|9[2-5]|1(?:09|1[09]|2[0-5]|3[67]|4[03])|15[45678]|160|17[12])\b` + xidProcess + `(?P<what>[^\n]*)`),
		Test:    "[Thu Jan  1 09:50:00 2026] NVRM: Xid (PCI:0000:02:00): 79, pid=4001, name=python3, GPU has fallen off the bus.",
	},
	{
		Kind: LinkHardware, Prints: ofDriver, Source: atXid, Says: "GPU ${bus} reported an NVLink error, Xid ${xid}: ${what}",
		Anchors: []string{"NVRM: Xid ("},
		Pattern: re(xidHead + xidBefore + `(?P<xid>7[4-8]|1(?:4[4-9]|50))\b` + xidProcess + `(?P<what>[^\n]*)`),
		Test:    "Jan  1 09:50:00 gpu-a kernel: NVRM: Xid (PCI:0000:02:00): 74, pid=4001, name=python3, NVLink: fatal error detected on link 6",
	},
	{
		Kind: GPUProgram, Prints: ofDriver, Source: atXid, Says: "made a fault in its GPU program, Xid ${xid} of GPU ${bus}: ${what}",
		Anchors: []string{"NVRM: Xid ("},
		Pattern: re(xidHead + `(?P<xid>1[13]|31|6[89])\b` + xidProcess + `(?P<what>[^\n]*)`),
		Test:    "NVRM: Xid (PCI:0000:06:00): 31, pid=79749, name=exe, Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS",
	},
	{
		Kind: Warning, Prints: ofDriver, Source: atXid, Says: "GPU ${bus} reported Xid ${xid}: ${what}",
		Anchors: []string{"NVRM: Xid ("},
		Pattern: re(xidHead + `(?P<xid>43|45|63)\b` + xidProcess + `(?P<what>[^\n]*)`),
		Test:    "NVRM: Xid (PCI:0000:06:00): 45, pid=79749, name=python, Ch 00000008",
	},
	{
		Kind: LinkHardware, Prints: "NVSwitch's driver, in the kernel log", Source: "docs.nvidia.com datacenter/tesla/fabric-manager-user-guide", Says: "NVSwitch ${bus} reported SXid ${sxid}: ${what}",
		Anchors: []string{": SXid (PCI:"},
		Pattern: re(kernelHead + `nvidia-nvswitch\d+: SXid \(PCI:(?P<bus>[0-9a-f:.]+)\): (?P<sxid>\d+), (?P<what>(?:Fatal|Severity [1-9])[^\n]*)`),
		Test:    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
	},
	{
		Kind: Warning, Prints: "NVSwitch's driver, in the kernel log", Source: "docs.nvidia.com datacenter/tesla/fabric-manager-user-guide", Says: "NVSwitch ${bus} reported SXid ${sxid}: ${what}",
		Anchors: []string{": SXid (PCI:"},
		Pattern: re(kernelHead + `nvidia-nvswitch\d+: SXid \(PCI:(?P<bus>[0-9a-f:.]+)\): (?P<sxid>\d+), (?P<what>(?:Non-fatal|Severity 0)[^\n]*)`),
		Test:    "nvidia-nvswitch0: SXid (PCI:0000:83:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
	},
	{
		Kind: GPUHardware, Prints: ofDriver, Source: "github.com/NVIDIA/open-gpu-kernel-modules src/nvidia/src/kernel/gpu/gsp", Says: "GPU ${gpu} stopped: its GSP firmware does not answer",
		Anchors: []string{"_kgspIsHeartbeatTimedOut: ", "_kgspLogRpcTimeout: "}, Pattern: re(kernelHead + `NVRM: GPU ?(?P<gpu>\d+) _kgsp(?:IsHeartbeatTimedOut|LogRpcTimeout): `),
		Test: "NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 812751949 heartbeat 1899482",
	},
	{
		Kind: GPUHardware, Prints: "NVIDIA's management library and nvidia-smi", Source: "docs.nvidia.com deploy/nvml-api, NVML_ERROR_GPU_IS_LOST", Says: "GPU ${bus} is lost: the driver cannot reach it",
		Anchors: []string{"determine the device handle for"}, Pattern: re(`determine the device handle for (?:gpu |GPU ?)(?P<bus>[0-9A-Fa-f:.]*[0-9A-Fa-f])`),
		Test: "Unable to determine the device handle for GPU0000:4E:00.0: Unknown Error",
	},
	{
		Kind: GPUHardware, Prints: ofDriver + " without an Xid, and what repeats it", Source: "github.com/NVIDIA/NVSentinel issue 155; github.com/leptonai/gpud issue 604", Says: "GPU ${bus} has fallen off the bus",
		Anchors: []string{"NVRM: The NVIDIA GPU ", "allen off the bus"}, Flat: true,
		Pattern: re(`(?:NVIDIA GPU (?P<bus>[0-9a-fA-F:.]+)\b(?:[^X]|X[^i]){0,200}?|^(?:[^X]|X[^i]){0,80}?)fallen off the bus`),
		Test:    "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n               NVRM: (PCI ID: 10de:26b5) installed in this system has\n               NVRM: fallen off the bus and is not responding to commands.",
	},
	{
		Kind: GPUHardware, Prints: ofCUDA, Source: "docs.nvidia.com deploy/nvml-api, NVML_ERROR_GPU_IS_LOST", Says: "its GPU is lost: the driver cannot reach it",
		Anchors: []string{"GPU is lost"}, Pattern: re(`(?:[Ee]rror: |\(|'|NVML: )GPU is lost`), Test: "RuntimeError: CUDA error: GPU is lost. Reboot the system to recover this GPU",
	},
	{
		Kind: LinkHardware, Prints: "NVIDIA's fabric manager", Source: "docs.nvidia.com datacenter/tesla/fabric-manager-user-guide", Says: "NVSwitch ${bus} reported fatal error ${sxid}",
		Anchors: []string{"detected NVSwitch fatal error"},
		Pattern: re(`(?:[A-Z][a-z]{2} +\d+ [\d:]+ (?P<host>[\w.-]+) nv-fabricmanager[^\n]*?)?detected NVSwitch fatal error (?P<sxid>\d+) on fid[^\n]*?pci bus id (?P<bus>[0-9a-fA-F:.]+)`),
		Test:    "May  1 10:00:00 gpu-a nv-fabricmanager[77]: detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 10 port 33",
	},
	{
		Kind: HostMemory, Prints: ofKernel, Source: "docs.kernel.org admin-guide/mm, mm/oom_kill.c", Says: "was killed by the kernel: its host or cgroup ran out of memory",
		Anchors: []string{"ut of memory: Kill"},
		Pattern: re(kernelHead + `(?:Memory cgroup o|O)ut of memory: Kill(?: process \d+ [^\n]*sacrifice child\s*\n[^\n]*?Killed process (?P<id2>\d+)|(?:ed)? process (?P<pid>\d+)) \((?P<name>[^)\n]*)\)`), // Old kernels choose one and kill its child.
		Test:    "[1234.5] Out of memory: Killed process 4001 (python3) total-vm:100kB, anon-rss:50kB",
	},
	{
		Kind: HostMemory, Prints: ofKernel, Source: "mm/oom_kill.c", Says: "was killed by the kernel: its host or cgroup ran out of memory",
		Anchors: []string{"oom-kill:constraint="},
		Pattern: re(kernelHead + `oom-kill:constraint=[^\n]*?,task=(?P<name>[^,\n]*),pid=(?P<pid>\d+)`),
		Test:    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/slurm,task_memcg=/slurm/7,task=python3,pid=4001,uid=1002",
	},
	{
		Kind: Crashed, Prints: ofKernel, Source: "arch/x86/mm/fault.c", Says: "crashed: segmentation fault in ${what}",
		Anchors: []string{"]: segfault at "},
		Pattern: re(kernelHead + `(?P<name>[^\s\[\]]+)\[(?P<pid>\d+)\]: segfault at \w+ ip \S+ sp \S+ error \w+(?: in (?P<what>[^\s\[]+))?`),
		Test:    "python3[4001]: segfault at 0 ip 00007f2b sp 00007ffd error 4 in libtorch_cuda.so[7f2b+1000]",
	},
	{
		Kind: HungTask, Prints: ofKernel, Source: "kernel/hung_task.c", Says: "has been blocked inside the kernel for more than ${seconds} s",
		Anchors: []string{" blocked for more than "},
		Pattern: re(kernelHead + `INFO: task (?P<name>[^\s:]+):(?P<pid>\d+) blocked for more than (?P<seconds>\d+) seconds`),
		Test:    "INFO: task python3:4001 blocked for more than 120 seconds.",
	},
	{
		Kind: HostHardware, Prints: ofKernel, Source: "docs.kernel.org PCI/pcieaer-howto", Says: "PCIe device ${bus} reported an uncorrected error",
		Anchors: []string{"Uncorrected (Fatal)", "Uncorrected (Non-Fatal)", "Uncorrectable (Fatal)", "Uncorrectable (Non-Fatal)"},
		Pattern: re(kernelHead + `[\w-]+ (?P<bus>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d): (?:AER: )?[^\n]*Uncorrect(?:ed|able) \((?:Non-)?Fatal\)`),
		Test:    "pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3a:00.0",
	},
	{
		Kind: HostHardware, Prints: ofKernel, Source: "docs.kernel.org admin-guide/RAS, arch/x86/kernel/cpu/mce", Says: "reported a machine check: ${what}",
		Anchors: []string{"[Hardware Error]: "},
		Pattern: re(kernelHead + `(?:mce: |EDAC[^\n]*?)?\[Hardware Error\]: (?P<what>(?:CPU \d+: Machine Check|Uncorrected error|event severity: (?:fatal|recoverable))[^\n]*)`),
		Test:    "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: be00000000010091",
	},
	{
		Kind: LinkHardware, Prints: "the mlx5 driver, in the kernel log", Source: "drivers/net/ethernet/mellanox/mlx5", Says: "the link of NIC ${nic} went down",
		Anchors: []string{"Link down", "Link DOWN", "link down"},
		Pattern: re(kernelHead + `mlx5_core (?P<bus>[0-9a-f:.]+)(?: (?P<nic>\w+))?:? [^\n]*[Ll]ink (?:down|DOWN)`),
		Test:    "mlx5_core 0000:3a:00.0 ib3: Link down",
	},
	{
		Kind: Storage, Prints: ofKernel, Source: "fs/nfs, lustre", Says: "file server ${what} does not respond",
		Anchors: []string{" not responding, "}, Pattern: re(kernelHead + `(?:nfs|lockd): server (?P<what>\S+) not responding, `), Test: "nfs: server 10.0.0.5 not responding, still trying",
	},
	{
		Kind: GPUHardware, Prints: "the amdgpu driver, in the kernel log", Source: "drivers/gpu/drm/amd", Says: "GPU ${bus} stopped: ${what}",
		Anchors: []string{"amdgpu: GPU reset begin", "timeout, signaled seq"},
		Pattern: re(kernelHead + `amdgpu (?P<bus>[0-9a-f:.]+): (?:amdgpu: |\[drm\] )?(?P<what>GPU reset begin|[^\n]*ring \S+ timeout, signaled seq)`),
		Test:    "amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!",
	},
	{
		Kind: GPUProgram, Prints: "the amdgpu driver, in the kernel log", Source: "drivers/gpu/drm/amd/amdgpu/gmc_v9_0.c", Says: "made a fault in its GPU program: page fault of GPU ${bus}",
		Anchors: []string{"amdgpu:  for process ", "amdgpu:  Process ", "page fault (src"},
		Pattern: re(kernelHead + `amdgpu (?P<bus>[0-9a-f:.]+): amdgpu: +(?:(?:for process|Process) \S+ pid (?P<pid>\d+) thread|\[\w+\] [\w -]*page fault \(src)`),
		Test:    "amdgpu 0000:3d:00.0: amdgpu:  for process python3.12 pid 6071 thread python3.12 pid 6071)",
	},
	{
		Kind: GPUProgram, Prints: "AMD's HSA runtime", Source: "github.com/ROCm/ROCR-Runtime runtime/hsa-runtime/core/runtime/runtime.cpp", Says: "made a fault in its GPU program: memory access fault of GPU node ${node}",
		Anchors: []string{"emory access fault by GPU node"}, Pattern: re(`emory access fault by GPU node-(?P<node>\d+)`),
		Test: "Memory access fault by GPU node-3 (Agent handle: 0x5a) on address 0x709843600000. Reason: Write access to a read-only page.",
	},
	{
		Kind: GPUHardware, Prints: "AMD's HSA runtime", Source: "github.com/ROCm/ROCR-Runtime runtime/hsa-runtime/core/runtime/runtime.cpp", Says: "GPU node ${node} stopped: ${what}",
		Anchors: []string{"HW Exception by GPU node"}, Pattern: re(`HW Exception by GPU node-(?P<node>\d+)[^\n]*reason ?:(?P<what>[^\n]*)`),
		Test: "HW Exception by GPU node-5 (Agent handle: 0x55) reason :GPU Hang",
	},
	{
		Kind: GPUUnknown, Prints: "AMD's HSA runtime", Source: "github.com/ROCm/clr rocclr/device/rocm/rocdevice.cpp, github.com/mila-iqia/milabench pull 397", Says: "its GPU's queue was aborted: ${what}",
		Anchors: []string{"aborting with error : HSA_"}, Pattern: re(`aborting with error : (?P<what>HSA_\w+: [^\n]*)`),
		Test: ":0:rocdevice.cpp            :3586: 92087492418 us:  Callback: Queue 0x772c40900000 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016",
	},
	{
		Kind: GPUHardware, Prints: ofCUDA, Source: atCUDA, Says: "its GPU reported an uncorrectable ECC error",
		Anchors: []string{"uncorrectable ECC error"}, Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?uncorrectable ECC error`),
		Test: "[Rank 3] Process group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered",
	},
	{
		Kind: LinkHardware, Prints: ofCUDA, Source: atCUDA, Says: "its GPU reported an NVLink error",
		Anchors: []string{"uncorrectable NVLink error", "Invalid access of peer GPU memory over nvlink"}, Pattern: re(`(?:[^\n]*?` + ncclHead + `)?[^\n]*?(?:uncorrectable NVLink error|Invalid access of peer GPU memory over nvlink)`),
		Test: "CUDA error: uncorrectable NVLink error detected during the execution",
	},
	{
		Kind: GPUHardware, Prints: ofCUDA, Source: atCUDA, Says: "its GPU reported a hardware error",
		Anchors: []string{"ardware stack error", "HIP error: the operation cannot be performed in the present state"}, Pattern: re(`(?:CUDA error: |'|HIP error: )(?:hardware stack error|the operation cannot)`),
		Test: "CUDA error: hardware stack error",
	},
	{
		Kind: GPUProgram, Prints: ofCUDA, Source: atCUDA, Says: "its GPU program failed: ${what}",
		Anchors: []string{"n illegal memory access was encountered", "evice-side assert triggered", "misaligned address", "n illegal instruction was encountered"},
		Pattern: re(`(?:CUDA|HIP|Triton) [Ee]rror(?: \w+)?:? ?(?:\[?\w*\]?: )?(?P<what>an illegal memory access was encountered|device-side assert triggered|misaligned address|an illegal instruction was encountered)`),
		Test:    "RuntimeError: CUDA error: an illegal memory access was encountered",
	},
	{
		Kind: GPUProgram, Prints: "assertions in CUDA kernels", Source: "docs.nvidia.com cuda/cuda-c-programming-guide, assertion; github.com/NVIDIA/Megatron-LM issue 881", Says: "its GPU program failed: ${file} assertion ${what}",
		Anchors: []string{"thread: ["},
		Pattern: re(`(?:(?P<file>[\w.-]+\.cuh?):\d+: [^\n]*)?block: \[[\d, ]+\], thread: \[[\d, ]+\] Assertion (?P<what>[^\n]{1,120}?) failed`),
		Test:    "../aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: [22,0,0], thread: [64,0,0] Assertion `index < sizes[i]` failed.",
	},
	{
		Kind: GPUProgram, Prints: ofNCCL, Source: atCUDA, Says: "its GPU program failed: ${what}",
		Anchors: []string{"n illegal memory access was encountered", "evice-side assert triggered", "misaligned address"},
		Pattern: re(ncclHead + `[^\n]*Cuda failure (?:\d+ )?'(?P<what>an illegal memory access was encountered|device-side assert triggered|misaligned address)'`),
		Test:    "gpu-a:50:60 [1] enqueue.cc:9 NCCL WARN Cuda failure 'an illegal memory access was encountered'",
	},
	{
		Kind: GPUUnknown, Prints: ofCUDA, Source: atCUDA, Says: "its GPU reported: ${what}",
		Anchors: []string{"unspecified launch failure", "CUDA error: unknown error", "the launch timed out and was terminated"},
		Pattern: re(`(?:(?:CUDA|HIP) error: |` + ncclHead + `[^\n]*Cuda failure (?:\d+ )?')(?P<what>unspecified launch failure|unknown error|the launch timed out and was terminated)`),
		Test:    "CUDA error: unspecified launch failure",
	},
	{
		Kind: GPUSetup, Prints: ofCUDA, Source: atCUDA, Says: "could not use its GPU: ${what}",
		Anchors: []string{"invalid device ordinal", "no CUDA-capable device is detected", "all CUDA-capable devices are busy", "system not yet initialized", "No CUDA GPUs are available", "busy or unavailable", "driver version is insufficient", "Driver/library version mismatch"},
		Pattern: re(`(?:` + ncclHead + `[^\n]*)?(?:CUDA error: |failure (?:\d+ )?'|RuntimeError: |failed: |NVML: )(?P<what>invalid device ordinal|no CUDA-capable device is detected|all CUDA-capable devices are busy or unavailable|CUDA-capable device\(s\) is/are busy or unavailable|system not yet initialized|No CUDA GPUs are available|CUDA driver version is insufficient for CUDA runtime version|Driver/library version mismatch)`),
		Test:    "RuntimeError: CUDA error: invalid device ordinal",
	},
	{
		Kind: GPUMemory, Prints: ofCUDA, Source: "github.com/pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp", Says: "ran out of GPU memory",
		Anchors: []string{"CUDA out of memory", "CUDA error: out of memory", "HIP out of memory", "ailure 'out of memory'", "ailure 2 'out of memory'"},
		Pattern: re(`(?:` + ncclHead + `[^\n]*)?(?:(?:CUDA|HIP) (?:error: )?out of memory|Cuda failure (?:2 )?'out of memory')`),
		Test:    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
	},
}
