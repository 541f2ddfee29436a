// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package frames reads from Python call stacks whether a rank stands in communication, and if not, what it does instead and which
// line of the user's program led there.
package frames

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Frame is one call, as "function (file:line)".
type Frame struct {
	Func string
	File string // As the tool reports it: absolute, or relative to the module search path.
	Text string // The whole frame.
}

var frameForm = regexp.MustCompile(`^(\S.*?) \((.+?)(?::\d+)?\)$`)

// Parse splits a frame into its parts. A frame of another form becomes a function without a file.
func Parse(s string) Frame {
	m := frameForm.FindStringSubmatch(s)
	if m == nil {
		return Frame{Func: s, Text: s}
	}
	return Frame{Func: m[1], File: strings.ReplaceAll(m[2], `\`, "/"), Text: s}
}

// Kind is what a stack shows its thread doing.
type Kind int

// Kinds. Ranks in kinds up to Device may wait for other ranks. A rank in any later kind holds up the ranks that need it.
const (
	None        Kind = iota // No stack.
	Communicate             // Inside a collective, a send or receive, the making of a group, or a wait for the store.
	Backward                // Inside autograd, whose hooks communicate without a Python frame of their own.
	Device                  // Waits for its GPU, which may be inside a collective.
	Running                 // Inside code that does none of the other things.
	Saving                  // Writes a checkpoint.
	Restoring               // Reads one.
	DataLoad                // Waits for, or reads, training data.
	Debugger                // A debugger's prompt.
	Lock                    // Waits for a lock, a queue, or another thread.
	Child                   // Waits for another process.
	Import                  // Imports a module.
	Exiting                 // The interpreter ends, and waits for threads or exit handlers: the program has returned or raised.
)

// Standing is the place where a stack stands.
type Standing struct {
	Kind Kind
	What string // The call that says so, for people: "barrier", "torch.save"; empty for Running.
	Site string // The innermost frame outside libraries: "save_checkpoint (train.py:99)"; empty unknown.
}

// MayWait reports whether a rank that stands there may itself wait for other ranks.
func (k Kind) MayWait() bool { return k <= Device }

// Of reads a stack, innermost frame last.
func Of(stack []string) Standing {
	if len(stack) == 0 {
		return Standing{}
	}
	s := Standing{Kind: Running, Site: Site(stack)}
	for _, text := range slices.Backward(stack) {
		f := Parse(text)
		if k, what := f.kind(); k != None {
			s.Kind, s.What = k, what
			break
		}
		if !f.Library() && !f.native() {
			break // The program's own code hides what called it.
		}
	}
	if s.Kind == Running || s.Kind == DataLoad || s.Kind == Lock {
		s.enclosing(stack)
	}
	return s
}

// String gives the place: "in torch.save at save_checkpoint (train.py:99)".
func (s Standing) String() string {
	switch {
	case s.What == "":
		return "in " + cmp.Or(s.Site, "code of its own")
	case s.Site == "":
		return "in " + s.What
	}
	return "in " + s.What + " at " + s.Site
}

// Action gives the advice for a rank that stands there and holds up the others.
func (s Standing) Action() string {
	switch s.Kind {
	case Saving, Restoring:
		return "Look whether the checkpoint's file still grows: if not, its file system is stuck (mount, server, quota); if it does, give the others' collectives a longer timeout."
	case DataLoad:
		return "Look at the source of the rank's data (file system, decoder, a dead worker): its loader does not deliver."
	case Debugger:
		return "Leave the debugger, and take the breakpoint out."
	case Lock:
		return "Find which thread holds the lock: py-spy dump --pid PID --locals shows all threads."
	case Child:
		return "Look at the process that it waits for: ps --ppid PID."
	case Exiting:
		return "Look at the end of the rank's log: its program has returned, or raised an exception, and the interpreter waits for a thread that does not end."
	case Import:
		return "Look at the file system that it imports from, and at what the module does when it is imported."
	}
	return "Take a second stack of the rank: if it is the same, that line does not come back; the other ranks took another branch or were faster."
}

// enclosing gives a wait the purpose of the frames further out: a wait for a lock inside a data loader is a wait for data.
func (s *Standing) enclosing(stack []string) {
	user := false // Frames of the program were passed: a debugger further out only started it.
	for _, text := range slices.Backward(stack) {
		f := Parse(text)
		k, what := f.kind()
		if k == Saving || k == Restoring || k == DataLoad || k == Import || k == Exiting || k == Debugger && !user {
			s.Kind, s.What = k, what
			return
		}
		user = user || !f.Library() && !f.native()
		if saves(f.Func) {
			s.Kind, s.What = Saving, f.Func
			return
		}
	}
}

// Site gives the innermost frame outside libraries.
func Site(stack []string) string {
	for _, t := range slices.Backward(stack) {
		if f := Parse(t); f.File != "" && !f.Library() && !f.native() {
			return t
		}
	}
	return ""
}

// native frames are those of compiled code.
func (f *Frame) native() bool {
	return f.File == "" || !strings.HasSuffix(f.File, ".py") && !strings.HasPrefix(f.File, "<")
}

// in reports whether the frame's file is one of these.
func (f *Frame) in(files ...string) bool {
	return slices.ContainsFunc(files, func(name string) bool { return f.File == name || strings.HasSuffix(f.File, "/"+name) })
}

// below reports whether the frame's file is in the package.
func (f *Frame) below(pkg string) bool {
	return strings.HasPrefix(f.File, pkg+"/") || strings.Contains(f.File, "/"+pkg+"/")
}

// kind gives what this frame alone shows; None for nothing.
func (f *Frame) kind() (Kind, string) {
	switch {
	case f.native():
		return f.nativeKind()
	case f.below("torch/distributed/checkpoint"):
		return checkpointKind(f.Func)
	case f.in("torch/distributed/distributed_c10d.py"):
		return communicate(f.Func)
	case f.below("torch/distributed") && !f.in("torch/distributed/run.py", "torch/distributed/launch.py") && !f.below("torch/distributed/elastic"):
		return distributed(f)
	case f.in("torch/autograd/graph.py") && f.Func == "_engine_run_backward", f.in("torch/autograd/__init__.py") && (f.Func == "backward" || f.Func == "grad"):
		return Backward, "backward"
	case f.in("p2p_communication.py", "deepspeed/comm/comm.py", "deepspeed/comm/torch.py", "deepspeed/runtime/pipe/p2p.py", "mpi4py/MPI.py"):
		return Communicate, f.Func
	case f.below("torch/cuda") && (strings.HasSuffix(f.Func, "synchronize") || f.Func == "wait" || f.Func == "wait_event" || f.Func == "wait_stream"):
		return Device, f.Func
	case f.in("torch/serialization.py"):
		return serialization(f.Func)
	case f.in("torch/utils/data/dataloader.py"), f.below("torch/utils/data"):
		return DataLoad, "the data loader"
	case f.in("pdb.py", "bdb.py", "ipdb/__main__.py") || f.below("debugpy") || f.below("IPython"):
		return Debugger, "a debugger"
	case f.in("subprocess.py"):
		return Child, "a subprocess"
	case f.in("importlib/__init__.py") || strings.HasPrefix(f.File, "<frozen importlib"):
		return Import, "an import"
	case f.in("threading.py") && f.Func == "_shutdown", f.in("multiprocessing/util.py") && f.Func == "_exit_function",
		f.in("concurrent/futures/thread.py", "concurrent/futures/process.py") && f.Func == "_python_exit":
		return Exiting, "the interpreter's shutdown"
	case f.in("threading.py") && (f.Func == "wait" || f.Func == "join" || f.Func == "acquire" || f.Func == "_wait_for_tstate_lock" || f.Func == "__enter__"),
		f.in("queue.py") && (f.Func == "get" || f.Func == "put" || f.Func == "join"), f.in("concurrent/futures/_base.py") && f.Func == "result":
		return Lock, "a lock"
	}
	return None, ""
}

var nativeWaits = []string{"c10d::", "gloo::", "ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclReduce", "ncclSend", "ncclRecv", "ncclGroupEnd", "ncclCommInit"}

func (f *Frame) nativeKind() (Kind, string) {
	switch {
	case slices.ContainsFunc(nativeWaits, func(w string) bool { return strings.Contains(f.Func, w) }):
		return Communicate, f.Func
	case strings.Contains(f.Func, "cudaStreamSynchronize"), strings.Contains(f.Func, "cudaDeviceSynchronize"), strings.Contains(f.Func, "cudaEventSynchronize"),
		strings.Contains(f.Func, "cuStreamSynchronize"), strings.Contains(f.Func, "cuCtxSynchronize"), strings.Contains(f.Func, "cudaMemcpy"):
		return Device, f.Func
	case f.Func == "take_gil":
		return Lock, "the interpreter's lock"
	}
	return None, ""
}

// communicate classifies a function of torch.distributed by its name. Helpers that only compute do not count.
func communicate(fn string) (Kind, string) {
	switch fn {
	case "wrapper", "get_rank", "get_world_size", "_get_default_group", "is_initialized", "<module>", "_object_to_tensor", "_tensor_to_object":
		return None, ""
	}
	return Communicate, strings.TrimPrefix(fn, "_")
}

// distributed classifies other parts of torch.distributed: they nearly always wait for other ranks.
func distributed(f *Frame) (Kind, string) {
	switch {
	case f.in("torch/distributed/c10d_logger.py"), f.in("torch/distributed/utils.py"):
		return None, ""
	case f.in("torch/distributed/rendezvous.py"):
		return Communicate, "the rendezvous"
	case f.below("torch/distributed/fsdp") && (f.Func == "forward" || f.Func == "fsdp_hook_wrapper"):
		return None, "" // The module's own computation is below it.
	}
	return Communicate, f.Func
}

func serialization(fn string) (Kind, string) {
	switch fn {
	case "save", "_save", "_legacy_save", "_open_zipfile_writer", "_open_zipfile_writer_file", "_open_zipfile_writer_buffer":
		return Saving, "torch.save"
	case "load", "_load", "_legacy_load", "_open_zipfile_reader", "_open_file_like", "load_tensor", "persistent_load":
		return Restoring, "torch.load"
	}
	return None, ""
}

func checkpointKind(fn string) (Kind, string) {
	switch {
	case strings.Contains(fn, "save") || strings.Contains(fn, "write"):
		return Saving, fn
	case strings.Contains(fn, "load") || strings.Contains(fn, "read"):
		return Restoring, fn
	}
	return None, ""
}

// saves reports whether a function saves a checkpoint, by its own name.
func saves(fn string) bool {
	fn = strings.ToLower(fn[strings.LastIndexByte(fn, '.')+1:])
	return strings.Contains(fn, "save_checkpoint") || strings.Contains(fn, "save_state_dict") || strings.Contains(fn, "save_model") ||
		strings.Contains(fn, "save_pretrained") || strings.Contains(fn, "async_save") || strings.Contains(fn, "dist_checkpoint_save")
}

// Packages that people install rather than write; and the standard library's modules that wait.
var libraries = set(`torch torchvision torchaudio torchdata torchrun functorch triton numpy scipy pandas pyarrow PIL cv2 h5py numba sklearn
		datasets transformers accelerate deepspeed lightning pytorch_lightning lightning_fabric lightning_utilities peft trl safetensors huggingface_hub
		ray fsspec s3fs gcsfs aiohttp aiobotocore botocore boto3 s3transfer urllib3 requests httpx tqdm wandb tensorboard mlflow apex
		transformer_engine flash_attn xformers nvidia cupy IPython ipdb debugpy pydevd wrapt decorator click yaml omegaconf hydra zmq grpc google
		threading queue socket ssl select selectors subprocess multiprocessing concurrent asyncio runpy pdb bdb cmd codecs importlib logging json
		contextlib functools pickle shutil tempfile zipfile tarfile urllib http email signal os io genericpath posixpath pathlib glob re copy
		random typing inspect traceback warnings abc enum dataclasses collections weakref gzip bz2 lzma zlib hashlib struct csv sqlite3 xml
		unittest timeit cProfile profile trace code codeop ast tokenize linecache tracemalloc gc atexit heapq statistics time datetime
		_bootstrap _bootstrap_external`)

func set(names string) map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		out[name] = true
	}
	return out
}

// Library reports whether the frame's file does not belong to the user.
func (f *Frame) Library() bool {
	p := f.File
	if strings.HasPrefix(p, "<") {
		return true
	}
	for _, part := range []string{"site-packages/", "dist-packages/", "/lib/python3"} {
		if strings.Contains(p, part) {
			return true
		}
	}
	if strings.HasPrefix(p, "/") {
		return strings.Contains(p, "/torch/distributed/") || strings.Contains(p, "/torch/utils/")
	}
	first, _, _ := strings.Cut(p, "/")
	return libraries[strings.TrimSuffix(first, path.Ext(first))]
}
