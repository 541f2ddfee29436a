// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/culprit-project/culprit/lab/fakegpu/nvml/nvmltest"
)

// TestRuntime has a process that uses the played CUDA runtime on a GPU: NVML shows it, its memory and its work.
func TestRuntime(t *testing.T) {
	index, d := device(t)
	program := exec.Command(filepath.Join(root, "build", "fakegpu", "nvml", "load"))
	program.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES="+strconv.Itoa(index))
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatalf("%v; make -C lab/fakegpu/nvml tests builds it", err)
	}
	end := func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	}
	t.Cleanup(end)
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the program said %q", lines.Text())
	}
	list, ret := d.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS || len(list) != 1 || int(list[0].Pid) != program.Process.Pid || list[0].UsedGpuMemory < 64<<20 {
		t.Fatalf("processes %+v, %v; want %d with 64 MiB", list, ret, program.Process.Pid)
	}
	if memory, ret := d.GetMemoryInfo(); ret != nvml.SUCCESS || memory.Used != list[0].UsedGpuMemory {
		t.Errorf("memory %+v, %v", memory, ret)
	}
	fields := []nvml.FieldValue{{FieldId: nvml.FI_DEV_PCIE_COUNT_TX_BYTES}, {FieldId: nvml.FI_DEV_PCIE_COUNT_RX_BYTES}}
	if ret := d.GetFieldValues(fields); ret != nvml.SUCCESS || fields[0].Value != fields[1].Value || fields[0].Value[2] < 0x10 {
		t.Errorf("carried %+v, %v; want 1 MiB each way", fields, ret)
	}
	busy := func(sm uint32, enough uint32) {
		t.Helper()
		nvmltest.Eventually(t, func() error {
			u, _ := d.GetUtilizationRates()
			clock, ret := d.GetClockInfo(nvml.CLOCK_SM)
			if ret != nvml.SUCCESS || u.Gpu < enough || clock != sm {
				return fmt.Errorf("%d%% busy at %d MHz, %w; want %d%% at %d MHz", u.Gpu, clock, ret, enough, sm)
			}
			return nil
		})
	}
	busy(1410, 1)
	played.Control(t, index, "speed 0.5")
	busy(705, 1)
	played.Control(t, index, "freeze 1") // In a kernel, which does not end.
	busy(1410, 95)
	end()
	nvmltest.Eventually(t, func() error {
		list, ret := d.GetComputeRunningProcesses()
		u, _ := d.GetUtilizationRates()
		if ret != nvml.SUCCESS || len(list) > 0 || u.Gpu > 0 {
			return fmt.Errorf("processes %+v, %w, %d%% busy after the program's end", list, ret, u.Gpu)
		}
		return nil
	})
}
