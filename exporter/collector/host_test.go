// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

func thread(role string, delay float64, cpus string, count int) nodeapi.Thread {
	return nodeapi.Thread{Role: role, RunDelayFrac: delay, CPUs: cpus, CPUCount: count}
}

func TestHostThreads(t *testing.T) {
	ranks := fakeRanks{
		{JobID: "llm", Owner: "1002", Rank: 0, Threads: []nodeapi.Thread{
			thread("proxy", 0.2, "0-7", 8), thread("proxy", 0.6, "0,1", 2), thread("user", 0, "0-7", 8),
		}},
		{JobID: "llm", Owner: "1002", Rank: 1, Threads: []nodeapi.Thread{thread("user", 0.5, "", 0)}},
		{JobID: "llm", Owner: "1002", Rank: 2},
	}
	expect(t, NewHost(tree(t, nil), tree(t, nil), ranks), `
culprit_host_thread_allowed_cpus job_id=llm owner=1002 rank=0 role=proxy = 2
culprit_host_thread_allowed_cpus job_id=llm owner=1002 rank=0 role=user = 8
culprit_host_thread_run_delay_ratio job_id=llm owner=1002 rank=0 role=proxy = 0.4
culprit_host_thread_run_delay_ratio job_id=llm owner=1002 rank=0 role=user = 0
culprit_host_thread_run_delay_ratio job_id=llm owner=1002 rank=1 role=user = 0.5
`)
}

// TestCrowdedThreads has NCCL threads of two ranks be bound to one CPU.
func TestCrowdedThreads(t *testing.T) {
	bound := []nodeapi.Thread{thread("user", 0.5, "3", 1), thread("proxy", 0.5, "3", 1)}
	free := []nodeapi.Thread{thread("user", 0.5, "0-63", 64), thread("proxy", 0.5, "0-63", 64)}
	for _, tt := range []struct {
		name  string
		ranks fakeRanks
		want  []nodeapi.Fact
	}{
		{"bound and starved", fakeRanks{{Rank: 0, RunDelay: 0.5, Threads: bound}, {Rank: 1, RunDelay: 0.4, Threads: bound}}, []nodeapi.Fact{
			{Component: "cpu", Kind: "cpu_affinity", Value: 4, Expected: 1, Unit: "threads", Rank: 0},
			{Component: "cpu", Kind: "cpu_affinity", Value: 4, Expected: 1, Unit: "threads", Rank: 1},
		}},
		{"bound and well", fakeRanks{{Rank: 0, RunDelay: 0.01, Threads: bound}}, nil},
		{"starved on many CPUs", fakeRanks{{Rank: 0, RunDelay: 0.5, Threads: free}}, nil},
		{"a CPU each", fakeRanks{{Rank: 0, RunDelay: 0.5, Threads: []nodeapi.Thread{thread("user", 0.5, "3", 1), thread("proxy", 0.5, "4", 1)}}}, nil},
		{"unknown", fakeRanks{{Rank: 0, RunDelay: 0.5, Threads: []nodeapi.Thread{thread("user", 0.5, "", 0), thread("proxy", 0.5, "", 0)}}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			facts(t, NewHost(tree(t, nil), tree(t, nil), tt.ranks).Facts(), tt.want...)
		})
	}
}

func TestCPUClockFacts(t *testing.T) {
	const cpu0, cpu1 = "devices/system/cpu/cpu0/", "devices/system/cpu/cpu1/"
	sys := tree(t, map[string]string{
		cpu0 + "cpufreq/scaling_max_freq": "3700000\n", cpu0 + "cpufreq/cpuinfo_max_freq": "3700000\n",
		cpu0 + "cpufreq/scaling_cur_freq": "800000\n", cpu0 + "thermal_throttle/core_throttle_count": "7\n",
		cpu1 + "cpufreq/scaling_max_freq": "3700000\n", cpu1 + "cpufreq/cpuinfo_max_freq": "3700000\n",
	})
	h := NewHost(tree(t, nil), sys, fakeRanks(nil))
	now := time.Unix(1000, 0)
	h.now = func() time.Time { return now }
	facts(t, h.Facts()) // A CPU that idles, and heat of long ago.
	now = now.Add(10 * time.Second)
	write(t, sys, cpu1+"cpufreq/scaling_max_freq", "1200000\n")
	write(t, sys, cpu0+"thermal_throttle/core_throttle_count", "19\n")
	facts(t, h.Facts(),
		nodeapi.Fact{Component: "cpu", Kind: "cpu_clock_reduced", Value: 1200, Expected: 3700, Unit: "MHz", Rank: -1},
		nodeapi.Fact{Component: "cpu", Kind: "cpu_thermal_throttle", Value: 12, Rank: -1},
	)
}

// numaTree has two NUMA nodes with a GPU and two NICs each, and a GPU that does not say where it hangs.
func numaTree(t *testing.T) sysfile.Root {
	t.Helper()
	files := map[string]string{
		"devices/system/node/node0/distance": "10 21\n",
		"devices/system/node/node1/distance": "21 10\n",
	}
	for bdf, place := range map[string]string{"0000:1b:00.0": "0", "0000:9b:00.0": "1", "0000:ff:00.0": "-1"} {
		dir := "devices/pci0000:00/" + bdf + "/"
		files[dir+"class"], files[dir+"vendor"], files[dir+"numa_node"] = "0x030200\n", "0x10de\n", place+"\n"
		files["bus/pci/devices/"+bdf] = "->../../../devices/pci0000:00/" + bdf
	}
	for name, place := range map[string]string{"mlx5_0": "0", "mlx5_1": "0", "mlx5_2": "1", "mlx5_3": "1", "mlx5_4": "-1"} {
		files["class/infiniband/"+name+"/device/numa_node"] = place + "\n"
	}
	return tree(t, files)
}

func TestNUMADistance(t *testing.T) {
	expect(t, NewHost(tree(t, nil), numaTree(t), fakeRanks(nil)), `
culprit_host_gpu_nic_numa_distance gpu=0000:1b:00.0 nic=mlx5_0 = 10
culprit_host_gpu_nic_numa_distance gpu=0000:9b:00.0 nic=mlx5_2 = 10
`)
	sys := numaTree(t)
	write(t, sys, "devices/system/node/node0/distance", "10 far\n")
	write(t, sys, "devices/system/node/node1/distance", "\n")
	expect(t, NewHost(tree(t, nil), sys, fakeRanks(nil)), "")
}

func TestRemoteNIC(t *testing.T) {
	for _, tt := range []struct {
		name string
		rank node.RankRef
		want []nodeapi.Fact
	}{
		{
			"across",
			node.RankRef{Rank: 3, PCIBusID: "0000:1b:00.0", NICs: []string{"mlx5_2", "mlx5_3"}},
			[]nodeapi.Fact{{Component: "nic", Device: "mlx5_2", Kind: "numa_remote", Value: 21, Expected: 10, Rank: 3}},
		},
		{"near", node.RankRef{Rank: 3, PCIBusID: "0000:1b:00.0", NICs: []string{"mlx5_1"}}, nil},
		{"one of two is near", node.RankRef{Rank: 3, PCIBusID: "0000:1b:00.0", NICs: []string{"mlx5_1", "mlx5_2"}}, nil},
		{"a NIC that does not tell", node.RankRef{Rank: 3, PCIBusID: "0000:1b:00.0", NICs: []string{"mlx5_2", "mlx5_4"}}, nil},
		{"a GPU that does not tell", node.RankRef{Rank: 3, PCIBusID: "0000:ff:00.0", NICs: []string{"mlx5_2"}}, nil},
		{"queue pairs unknown", node.RankRef{Rank: 3, PCIBusID: "0000:1b:00.0"}, nil},
		{"GPU unknown", node.RankRef{Rank: 3, NICs: []string{"mlx5_2"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			facts(t, NewHost(tree(t, nil), numaTree(t), fakeRanks{tt.rank}).Facts(), tt.want...)
		})
	}
}
