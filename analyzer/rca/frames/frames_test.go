// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package frames

import "testing"

func TestOf(t *testing.T) {
	const (
		module  = "<module> (train.py:488)"
		wrapper = "wrapper (torch/distributed/c10d_logger.py:81)"
	)
	for _, tc := range []struct {
		name  string
		stack []string
		kind  Kind
		text  string
	}{
		{"collective", []string{module, "step (train.py:73)", wrapper, "all_reduce (torch/distributed/distributed_c10d.py:2942)"}, Communicate, "in all_reduce at step (train.py:73)"},
		{"absolute paths", []string{"step (/job/train.py:73)", "recv (/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2500)"}, Communicate, "in recv at step (/job/train.py:73)"},
		{"barrier within saving", []string{"save_checkpoint (train.py:100)", wrapper, "barrier (torch/distributed/distributed_c10d.py:4888)"}, Communicate, "in barrier at save_checkpoint (train.py:100)"},
		{"making a group", []string{module, "new_group (torch/distributed/distributed_c10d.py:5100)", "_new_group_with_tag (torch/distributed/distributed_c10d.py:5200)"}, Communicate, "in new_group_with_tag at <module> (train.py:488)"},
		{"rendezvous", []string{module, "init_process_group (torch/distributed/distributed_c10d.py:1700)", "_env_rendezvous_handler (torch/distributed/rendezvous.py:269)"}, Communicate, "in the rendezvous at <module> (train.py:488)"},
		{"backward", []string{module, "backward (torch/_tensor.py:625)", "backward (torch/autograd/__init__.py:354)", "_engine_run_backward (torch/autograd/graph.py:841)"}, Backward, "in backward at <module> (train.py:488)"},
		{"waiting for the GPU", []string{module, "synchronize (torch/cuda/__init__.py:1040)"}, Device, "in synchronize at <module> (train.py:488)"},
		{"torch.save", []string{"save_checkpoint (train.py:99)", "save (torch/serialization.py:966)", "_open_zipfile_writer (torch/serialization.py:828)", "__init__ (torch/serialization.py:792)"}, Saving, "in torch.save at save_checkpoint (train.py:99)"},
		{"torch.load is no saving", []string{"restore (train.py:120)", "load (torch/serialization.py:1425)", "_load (torch/serialization.py:1900)"}, Restoring, "in torch.load at restore (train.py:120)"},
		{"activation checkpointing is none", []string{module, "forward (model.py:7)", "checkpoint (torch/utils/checkpoint.py:488)", "forward (mlp.py:3)"}, Running, "in forward (mlp.py:3)"},
		{"a file called checkpointing is none", []string{module, "run (megatron/core/activations/checkpointing.py:3)"}, Running, "in run (megatron/core/activations/checkpointing.py:3)"},
		{"a user's saving", []string{module, "save_checkpoint (checkpointing.py:30)", "write (io_utils.py:4)"}, Saving, "in save_checkpoint at write (io_utils.py:4)"},
		{"data loader", []string{module, "load_loop (train.py:79)", "__next__ (torch/utils/data/dataloader.py:732)", "_get_data (torch/utils/data/dataloader.py:1400)", "get (queue.py:180)", "wait (threading.py:331)"}, DataLoad, "in the data loader at load_loop (train.py:79)"},
		{"a user's data set", []string{module, "__next__ (torch/utils/data/dataloader.py:732)", "fetch (torch/utils/data/_utils/fetch.py:52)", "read_image (images.py:8)"}, DataLoad, "in the data loader at read_image (images.py:8)"},
		{"lock", []string{module, "acquire (threading.py:300)"}, Lock, "in a lock at <module> (train.py:488)"},
		{"debugger", []string{"debug (train.py:5)", "trace_dispatch (bdb.py:94)", "interaction (pdb.py:355)", "cmdloop (cmd.py:126)"}, Debugger, "in a debugger at debug (train.py:5)"},
		{"subprocess", []string{"shell (train.py:5)", "run (subprocess.py:550)", "communicate (subprocess.py:1201)"}, Child, "in a subprocess at shell (train.py:5)"},
		{"import", []string{"lazy (train.py:5)", "_find_and_load (<frozen importlib._bootstrap>:1176)", "<module> (slow_module.py:2)"}, Import, "in an import at <module> (slow_module.py:2)"},
		{"a program that a debugger started", []string{"main (debugpy/server/cli.py:430)", module, "step (train.py:7)"}, Running, "in step (train.py:7)"},
		{"a lock in it", []string{"main (debugpy/server/cli.py:430)", module, "acquire (threading.py:300)"}, Lock, "in a lock at <module> (train.py:488)"},
		{"shutdown", []string{"_shutdown (threading.py:1570)", "_wait_for_tstate_lock (threading.py:1116)"}, Exiting, "in the interpreter's shutdown"},
		{"exit handler", []string{"_exit_function (multiprocessing/util.py:360)", "join (multiprocessing/process.py:149)", "wait (multiprocessing/popen_fork.py:43)"}, Exiting, "in the interpreter's shutdown"},
		{"user code", []string{module, "validate (train.py:400)"}, Running, "in validate (train.py:400)"},
		{"native", []string{module, "step (train.py:3)", "c10d::ProcessGroupNCCL::WorkNCCL::wait (libtorch_cuda.so)", "0x7f12 (libc.so.6)"}, Communicate, "in c10d::ProcessGroupNCCL::WorkNCCL::wait at step (train.py:3)"},
		{"nothing", nil, None, "in code of its own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if s := Of(tc.stack); s.Kind != tc.kind || s.String() != tc.text {
				t.Errorf("%d %q, want %d %q", s.Kind, s, tc.kind, tc.text)
			}
		})
	}
}
