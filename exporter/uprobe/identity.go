// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/trace"
)

// environment is another process's, as it was when the program began.
type environment map[string]string

// maxEnvironment bounds how much of one is read, in bytes.
const maxEnvironment = 1 << 20

func readEnvironment(procFS string, pid int) (environment, error) {
	b, err := os.ReadFile(filepath.Join(procFS, strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil, fmt.Errorf("reading the environment of process %d: %w", pid, err)
	}
	env := environment{}
	for entry := range bytes.SplitSeq(b[:min(len(b), maxEnvironment)], []byte{0}) {
		if name, value, ok := strings.Cut(string(entry), "="); ok && value != "" {
			env[name] = value
		}
	}
	return env, nil
}

// number gives a variable's value where it is a number, else -1.
func (e environment) number(name string) int32 {
	n, err := strconv.ParseUint(e[name], 10, 31)
	if err != nil {
		return -1
	}
	return int32(n)
}

func (e environment) first(names ...string) string {
	for _, name := range names {
		if v := e[name]; v != "" {
			return v
		}
	}
	return ""
}

// hasShim tells whether the process is told to load the shim: it will report by itself.
func (e environment) hasShim() bool {
	return strings.Contains(e["NCCL_PROFILER_PLUGIN"], "culprit") || strings.Contains(e["LD_PRELOAD"], "libculprit-")
}

// launchers name rank, world size, local rank and node: the first whose rank is set is believed for all.
var launchers = [][4]string{
	{"RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK"}, // torchrun.
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", ""},
	{"PMIX_RANK", "", "", ""},
	{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID"}, // Last: other launchers run inside Slurm.
}

// fill tells who a process is by its environment, as the shim does inside it.
func (e environment) fill(id *trace.Identity) {
	id.Rank, id.WorldSize, id.LocalRank, id.NodeRank, id.GPUIndex = -1, -1, -1, -1, -1
	for _, l := range launchers {
		if id.Rank = e.number(l[0]); id.Rank >= 0 {
			id.WorldSize, id.LocalRank, id.NodeRank = e.number(l[1]), e.number(l[2]), e.number(l[3])
			break
		}
	}
	for _, name := range []string{"NODE_RANK", "SLURM_NODEID"} {
		if id.NodeRank < 0 {
			id.NodeRank = e.number(name)
		}
	}
	id.SlurmJobID, id.SlurmStepID = e.first("SLURM_JOB_ID", "SLURM_JOBID"), e.first("SLURM_STEP_ID", "SLURM_STEPID")
	id.PodName, id.PodNamespace, id.PodUID = e["POD_NAME"], e["POD_NAMESPACE"], e.first("CULPRIT_POD_UID", "POD_UID")
	id.ContainerName, id.VisibleDevices = e["CONTAINER_NAME"], e["CUDA_VISIBLE_DEVICES"]
	id.JobID = e.job(id)
}

// job finds what tells the job from all others, surest first. Empty: the exporter takes the first communicator.
func (e environment) job(id *trace.Identity) string {
	given := func(name string) string {
		if strings.EqualFold(e[name], "none") { // torchrun's default for --rdzv-id: all jobs have it.
			return ""
		}
		return e[name]
	}
	if v := given("CULPRIT_JOB_ID"); v != "" {
		return v
	}
	if v := e.slurmJob(id); v != "" {
		return v
	}
	for _, name := range []string{"TORCHELASTIC_RUN_ID", "PET_RDZV_ID", "PBS_JOBID", "LSB_JOBID"} {
		if v := given(name); v != "" {
			return v
		}
	}
	if v := e.meeting(id); v != "" {
		return v
	}
	return e["PMIX_NAMESPACE"] // Open MPI's name for what one mpirun started.
}

// slurmJob gives the Slurm job, and its step where one step holds the whole training job.
func (e environment) slurmJob(id *trace.Identity) string {
	if id.SlurmJobID == "" {
		return ""
	}
	processes, tasks := e.number("GROUP_WORLD_SIZE"), e.number("SLURM_STEP_NUM_TASKS")
	if processes <= 0 {
		processes = id.WorldSize
	}
	if tasks < 0 {
		tasks = e.number("SLURM_NTASKS")
	}
	if step, err := strconv.Atoi(id.SlurmStepID); err == nil && step > 0 && processes > 0 && processes <= tasks {
		return fmt.Sprintf("%s.%d", id.SlurmJobID, step)
	}
	return id.SlurmJobID
}

// meeting gives where the ranks of a job meet, which no two jobs share at a time, behind the pod's namespace.
func (e environment) meeting(id *trace.Identity) string {
	address, port := e["MASTER_ADDR"], e["MASTER_PORT"]
	name := e["JOB_NAME"]
	if name == "" && address != "" && port != "" {
		if address == "localhost" || address == "::1" || strings.HasPrefix(address, "127.") {
			address = id.Hostname
		}
		if address != "" && (address[0] < '0' || address[0] > '9') {
			address, _, _ = strings.Cut(address, ".")
		}
		name = address + ":" + port
	}
	if name != "" && id.PodNamespace != "" {
		name = id.PodNamespace + "/" + name
	}
	return name
}

// JobOf gives the name of a process's job as its environment tells it; empty unknown.
func JobOf(procFS, host string, pid int) string {
	env, err := readEnvironment(procFS, pid)
	if err != nil {
		return ""
	}
	id := trace.Identity{Hostname: host}
	env.fill(&id)
	return id.JobID
}
