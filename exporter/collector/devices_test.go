// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// tree makes files below a temporary directory. A content that begins with "->" is a symbolic link.
func tree(t *testing.T, files map[string]string) sysfile.Root {
	t.Helper()
	root := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		write(t, sysfile.Root(root), name, files[name])
	}
	return sysfile.Root(root)
}

func write(t *testing.T, root sysfile.Root, name, content string) {
	t.Helper()
	path := root.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if target, ok := strings.CutPrefix(content, "->"); ok {
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fakeRanks is a node's ranks.
type fakeRanks []node.RankRef

func (f fakeRanks) Ranks() []node.RankRef { return f }

// adapter makes a collector checkable.
type adapter struct {
	t *testing.T
	c Collector
}

func (a adapter) Describe(chan<- *prometheus.Desc) {}

func (a adapter) Collect(ch chan<- prometheus.Metric) {
	if err := a.c.Collect(a.t.Context(), func(m prometheus.Metric) { ch <- m }); err != nil {
		a.t.Errorf("collecting: %v", err)
	}
}

// expect compares everything that a collector exports with want, and lints it.
func expect(t *testing.T, c Collector, want string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(adapter{t, c})
	got, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range got {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			lines = append(lines, strings.TrimRight(family.GetName()+" "+strings.Join(labels, " "), " ")+" = "+strconv.FormatFloat(value, 'g', -1, 64))
		}
	}
	var wanted []string
	if want != "" {
		wanted = strings.Split(strings.TrimSpace(want), "\n")
	}
	if diff := cmp.Diff(wanted, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func facts(t *testing.T, got []nodeapi.Fact, want ...nodeapi.Fact) {
	t.Helper()
	sortFacts(got)
	sortFacts(want)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(nodeapi.Fact{}, "Text"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

func rdmaTree(t *testing.T) sysfile.Root {
	const mlx, irdma = "class/infiniband/mlx5_0/", "class/infiniband/irdma0/"
	return tree(t, map[string]string{
		"devices/pci0000:00/0000:00:01.0/0000:3b:00.0/numa_node":    "1\n",
		"devices/pci0000:00/0000:00:01.0/0000:3b:00.0/net/ens1/mtu": "9000\n",
		mlx + "device":                                    "->../../../devices/pci0000:00/0000:00:01.0/0000:3b:00.0",
		mlx + "fw_ver":                                    "28.39.1002\n",
		mlx + "board_id":                                  "MT_0000000838\n",
		mlx + "ports/1/link_layer":                        "Ethernet\n",
		mlx + "ports/1/state":                             "4: ACTIVE\n",
		mlx + "ports/1/rate":                              "400 Gb/sec (4X NDR)\n",
		mlx + "ports/1/counters/port_xmit_data":           "1000\n",
		mlx + "ports/1/counters/port_rcv_data":            "N/A (no PMA)\n",
		mlx + "ports/1/counters/port_xmit_packets":        "10\n",
		mlx + "ports/1/counters/port_xmit_wait":           "7\n",
		mlx + "ports/1/counters/link_downed":              "2\n",
		mlx + "ports/1/counters/VL15_dropped":             "0\n",
		mlx + "ports/1/hw_counters/out_of_sequence":       "5\n",
		mlx + "ports/1/hw_counters/local_ack_timeout_err": "6\n",
		mlx + "ports/1/hw_counters/np_cnp_sent":           "3\n",
		mlx + "ports/1/hw_counters/rp_cnp_handled":        "4\n",
		irdma + "ports/1/state":                           "1: DOWN\n",
		irdma + "ports/1/rate":                            "nonsense\n",
		irdma + "ports/1/counters_ext/port_xmit_data_64":  "0x10\n",
	})
}

func TestRDMA(t *testing.T) {
	expect(t, NewRDMA(rdmaTree(t)), `
culprit_rdma_congestion_notifications_total device=mlx5_0 kind=cnp_handled port=1 = 4
culprit_rdma_congestion_notifications_total device=mlx5_0 kind=cnp_sent port=1 = 3
culprit_rdma_port_errors_total device=mlx5_0 kind=link_downed port=1 = 2
culprit_rdma_port_errors_total device=mlx5_0 kind=vl15_dropped port=1 = 0
culprit_rdma_port_info board= device=irdma0 firmware= link_layer= netdev= numa_node= pci_bus_id= port=1 = 1
culprit_rdma_port_info board=MT_0000000838 device=mlx5_0 firmware=28.39.1002 link_layer=Ethernet netdev=ens1 numa_node=1 pci_bus_id=0000:3b:00.0 port=1 = 1
culprit_rdma_port_rate_bytes_per_second device=mlx5_0 port=1 = 5e+10
culprit_rdma_port_up device=irdma0 port=1 = 0
culprit_rdma_port_up device=mlx5_0 port=1 = 1
culprit_rdma_transmit_bytes_total device=irdma0 port=1 = 64
culprit_rdma_transmit_bytes_total device=mlx5_0 port=1 = 4000
culprit_rdma_transmit_packets_total device=mlx5_0 port=1 = 10
culprit_rdma_transmit_wait_ticks_total device=mlx5_0 port=1 = 7
culprit_rdma_transport_errors_total device=mlx5_0 kind=local_ack_timeout_err port=1 = 6
culprit_rdma_transport_errors_total device=mlx5_0 kind=out_of_sequence port=1 = 5
`)
}

// TestRDMAHardware has what three kinds of adapter show: a ConnectX-3 with two InfiniBand ports and no hw_counters, a ConnectX-4
// Lx whose packets are more than 32 bits, and an Omni-Path adapter with spaces in its board id and no transport counters.
func TestRDMAHardware(t *testing.T) {
	files := map[string]string{}
	put := func(device string, content map[string]string) {
		for name, text := range content {
			files["class/infiniband/"+device+"/"+name] = text + "\n"
		}
	}
	put("mlx4_0", map[string]string{
		"board_id": "SM_1141000001000", "fw_ver": "2.31.5050", "hca_type": "MT4099",
		"ports/1/link_layer": "InfiniBand", "ports/1/state": "4: ACTIVE", "ports/1/phys_state": "5: LinkUp", "ports/1/rate": "40 Gb/sec (4X QDR)",
		"ports/1/counters/port_xmit_data": "26509113295", "ports/1/counters/port_rcv_data": "2221223609", "ports/1/counters/port_xmit_wait": "3599",
		"ports/2/link_layer": "InfiniBand", "ports/2/state": "2: INIT", "ports/2/phys_state": "5: LinkUp", "ports/2/rate": "40 Gb/sec (4X QDR)",
		"ports/2/counters/port_xmit_data": "26540356890", "ports/2/counters/VL15_dropped": "1",
	})
	put("mlx5_0", map[string]string{
		"board_id": "SM_2001000001034", "fw_ver": "14.28.2006",
		"ports/1/link_layer": "InfiniBand", "ports/1/state": "4: ACTIVE", "ports/1/rate": "25 Gb/sec (1X EDR)",
		"ports/1/counters/port_xmit_packets": "10907922116", "ports/1/counters/port_xmit_data": "2880761508848",
		"ports/1/hw_counters/duplicate_request": "41", "ports/1/hw_counters/local_ack_timeout_err": "131", "ports/1/hw_counters/lifespan": "10",
		"ports/1/hw_counters/roce_adp_retrans": "99", "ports/1/hw_counters/req_cqe_error": "3481",
	})
	put("hfi1_0", map[string]string{
		"board_id": "HPE 100Gb 1-port OP101 QSFP28 x16 PCIe Gen3 with Intel Omni-Path Adapter", "fw_ver": "1.27.0",
		"ports/1/link_layer": "InfiniBand", "ports/1/state": "4: ACTIVE", "ports/1/rate": "100 Gb/sec (4X EDR)",
		"ports/1/counters/port_xmit_data": "273558326543", "ports/1/counters/port_rcv_data": "N/A (no PMA)", "ports/1/counters/port_xmit_wait": "0",
	})
	expect(t, NewRDMA(tree(t, files)), `
culprit_rdma_port_errors_total device=mlx4_0 kind=vl15_dropped port=2 = 1
culprit_rdma_port_info board=HPE 100Gb 1-port OP101 QSFP28 x16 PCIe Gen3 with Intel Omni-Path Adapter device=hfi1_0 firmware=1.27.0 link_layer=InfiniBand netdev= numa_node= pci_bus_id= port=1 = 1
culprit_rdma_port_info board=SM_1141000001000 device=mlx4_0 firmware=2.31.5050 link_layer=InfiniBand netdev= numa_node= pci_bus_id= port=1 = 1
culprit_rdma_port_info board=SM_1141000001000 device=mlx4_0 firmware=2.31.5050 link_layer=InfiniBand netdev= numa_node= pci_bus_id= port=2 = 1
culprit_rdma_port_info board=SM_2001000001034 device=mlx5_0 firmware=14.28.2006 link_layer=InfiniBand netdev= numa_node= pci_bus_id= port=1 = 1
culprit_rdma_port_rate_bytes_per_second device=hfi1_0 port=1 = 1.25e+10
culprit_rdma_port_rate_bytes_per_second device=mlx4_0 port=1 = 5e+09
culprit_rdma_port_rate_bytes_per_second device=mlx4_0 port=2 = 5e+09
culprit_rdma_port_rate_bytes_per_second device=mlx5_0 port=1 = 3.125e+09
culprit_rdma_port_up device=hfi1_0 port=1 = 1
culprit_rdma_port_up device=mlx4_0 port=1 = 1
culprit_rdma_port_up device=mlx4_0 port=2 = 0
culprit_rdma_port_up device=mlx5_0 port=1 = 1
culprit_rdma_receive_bytes_total device=mlx4_0 port=1 = 8.884894436e+09
culprit_rdma_transmit_bytes_total device=hfi1_0 port=1 = 1.094233306172e+12
culprit_rdma_transmit_bytes_total device=mlx4_0 port=1 = 1.0603645318e+11
culprit_rdma_transmit_bytes_total device=mlx4_0 port=2 = 1.0616142756e+11
culprit_rdma_transmit_bytes_total device=mlx5_0 port=1 = 1.1523046035392e+13
culprit_rdma_transmit_packets_total device=mlx5_0 port=1 = 1.0907922116e+10
culprit_rdma_transmit_wait_ticks_total device=hfi1_0 port=1 = 0
culprit_rdma_transmit_wait_ticks_total device=mlx4_0 port=1 = 3599
culprit_rdma_transport_errors_total device=mlx5_0 kind=duplicate_request port=1 = 41
culprit_rdma_transport_errors_total device=mlx5_0 kind=local_ack_timeout_err port=1 = 131
culprit_rdma_transport_errors_total device=mlx5_0 kind=req_cqe_error port=1 = 3481
culprit_rdma_transport_errors_total device=mlx5_0 kind=roce_adp_retrans port=1 = 99
`)
}

func TestRDMABrokenDeviceCostsOnlyItself(t *testing.T) {
	root := rdmaTree(t)
	write(t, root, "class/infiniband/bad0/ports/1/state", "what?\n")
	var got []string
	err := NewRDMA(root).Collect(t.Context(), func(m prometheus.Metric) { got = append(got, m.Desc().String()) })
	if err == nil || !strings.Contains(err.Error(), "bad0") || strings.Contains(err.Error(), "mlx5_0") {
		t.Errorf("error %v", err)
	}
	if len(got) < 15 {
		t.Errorf("%d metrics", len(got))
	}
}

func TestNoDevices(t *testing.T) {
	for name, c := range map[string]Collector{"rdma": NewRDMA(tree(t, nil)), "pci": NewPCI(tree(t, nil), fakeRanks(nil))} {
		if err := c.Collect(t.Context(), func(prometheus.Metric) {}); !errors.Is(err, ErrNoData) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMissingHardwareIsSaidOnce has a node without RDMA be scraped again and again.
func TestMissingHardwareIsSaidOnce(t *testing.T) {
	var logged strings.Builder
	set := NewSet(slog.New(slog.NewTextHandler(&logged, nil)))
	set.Add("rdma", NewRDMA(tree(t, nil)))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(set.WithContext(t.Context()))
	for range 5 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "culprit_rdma_") || strings.HasSuffix(f.GetName(), "_success") && f.GetMetric()[0].GetGauge().GetValue() != 1 {
				t.Errorf("%v", f)
			}
		}
	}
	if n := strings.Count(logged.String(), "\n"); n != 1 || !strings.Contains(logged.String(), "rdma") {
		t.Errorf("%d lines: %s", n, &logged)
	}
}

func TestRDMAFacts(t *testing.T) {
	root := rdmaTree(t)
	r := NewRDMA(root)
	now := time.Unix(1000, 0)
	r.now = func() time.Time { return now }
	const port = "class/infiniband/mlx5_0/ports/1/"
	facts(t, r.Facts()) // What was there before, a port that was never up included, is no evidence.
	now = now.Add(10 * time.Second)
	write(t, root, port+"hw_counters/rp_cnp_handled", "20004\n")
	write(t, root, port+"counters/link_downed", "4\n")
	write(t, root, port+"rate", "200 Gb/sec (2X NDR)\n")
	facts(t, r.Facts(),
		nodeapi.Fact{Component: "nic", Device: "mlx5_0", Kind: "cnp_rate", Value: 2000, Unit: "1/s", Rank: -1},
		nodeapi.Fact{Component: "nic", Device: "mlx5_0", Kind: "link_downed", Value: 2, Rank: -1},
		nodeapi.Fact{Component: "nic", Device: "mlx5_0", Kind: "port_rate_reduced", Value: 200, Expected: 400, Unit: "Gb/s", Rank: -1},
	)
	now = now.Add(10 * time.Second)
	write(t, root, port+"state", "1: DOWN\n")
	facts(t, r.Facts(),
		nodeapi.Fact{Component: "nic", Device: "mlx5_0", Kind: "link_downed", Value: 2, Rank: -1, AgeSeconds: 10},
		nodeapi.Fact{Component: "nic", Device: "mlx5_0", Kind: "port_down", Expected: 1, Rank: -1},
	)
	now = now.Add(10 * time.Minute)
	write(t, root, port+"state", "4: ACTIVE\n")
	write(t, root, port+"rate", "400 Gb/sec (4X NDR)\n")
	facts(t, r.Facts())
}

func pciTree(t *testing.T) sysfile.Root {
	const slot, gpu = "devices/pci0000:00/0000:00:01.0/", "devices/pci0000:00/0000:00:01.0/0000:1b:00.0/"
	const nic, nvme = "devices/pci0000:00/0000:00:02.0/0000:3b:00.0/", "devices/pci0000:00/0000:5e:00.0/"
	const function = "devices/pci0000:00/0000:00:02.0/0000:3b:00.1/"
	files := map[string]string{
		slot + "max_link_width":           "8\n",
		slot + "max_link_speed":           "32.0 GT/s PCIe\n",
		gpu + "class":                     "0x030200\n",
		gpu + "vendor":                    "0x10de\n",
		gpu + "device":                    "0x2330\n",
		gpu + "numa_node":                 "0\n",
		gpu + "current_link_width":        "4\n",
		gpu + "max_link_width":            "16\n",
		gpu + "current_link_speed":        "2.5 GT/s PCIe\n",
		gpu + "max_link_speed":            "32.0 GT/s PCIe\n",
		gpu + "driver":                    "->../../../../bus/pci/drivers/nvidia",
		gpu + "aer_dev_fatal":             "Undefined 0\nTOTAL_ERR_FATAL 1\n",
		nic + "class":                     "0x020700\n",
		nic + "vendor":                    "0x15b3\n",
		nic + "device":                    "0x1021\n",
		nic + "current_link_width":        "16\n",
		nic + "max_link_width":            "16\n",
		nic + "current_link_speed":        "16.0 GT/s PCIe\n",
		nic + "max_link_speed":            "32.0 GT/s PCIe\n",
		nic + "aer_dev_correctable":       "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n",
		function + "class":                "0x020700\n",
		function + "vendor":               "0x15b3\n",
		function + "physfn":               "->../0000:3b:00.0",
		nvme + "class":                    "0x010802\n",
		nvme + "vendor":                   "0x144d\n",
		"devices/vga/0000:03:00.0/class":  "0x030000\n",
		"devices/vga/0000:03:00.0/vendor": "0x1a03\n",
	}
	for bdf, dir := range map[string]string{
		"0000:1b:00.0": gpu, "0000:3b:00.0": nic, "0000:3b:00.1": function, "0000:5e:00.0": nvme, "0000:03:00.0": "devices/vga/0000:03:00.0/",
	} {
		files["bus/pci/devices/"+bdf] = "->../../../" + strings.TrimSuffix(dir, "/")
	}
	return tree(t, files)
}

func TestPCI(t *testing.T) {
	expect(t, NewPCI(pciTree(t), fakeRanks(nil)), `
culprit_pci_device_info device=0000:1b:00.0 device_id=2330 driver=nvidia kind=gpu numa_node=0 vendor_id=10de = 1
culprit_pci_device_info device=0000:3b:00.0 device_id=1021 driver= kind=nic numa_node= vendor_id=15b3 = 1
culprit_pci_errors_total device=0000:1b:00.0 severity=fatal = 1
culprit_pci_errors_total device=0000:3b:00.0 severity=correctable = 3
culprit_pci_link_max_transfers_per_second device=0000:1b:00.0 = 3.2e+10
culprit_pci_link_max_transfers_per_second device=0000:3b:00.0 = 3.2e+10
culprit_pci_link_max_width device=0000:1b:00.0 = 8
culprit_pci_link_max_width device=0000:3b:00.0 = 16
culprit_pci_link_transfers_per_second device=0000:1b:00.0 = 2.5e+09
culprit_pci_link_transfers_per_second device=0000:3b:00.0 = 1.6e+10
culprit_pci_link_width device=0000:1b:00.0 = 4
culprit_pci_link_width device=0000:3b:00.0 = 16
`)
}

func TestPCIFacts(t *testing.T) {
	root := pciTree(t)
	c := NewPCI(root, fakeRanks{{Rank: 5, PCIBusID: "0000:1b:00.0"}})
	now := time.Unix(1000, 0)
	c.now = func() time.Time { return now }
	width := nodeapi.Fact{Component: "pcie", Device: "0000:1b:00.0", Kind: "link_width_reduced", Value: 4, Expected: 8, Rank: 5}
	speed := nodeapi.Fact{Component: "pcie", Device: "0000:3b:00.0", Kind: "link_speed_reduced", Value: 16, Expected: 32, Unit: "GT/s", Rank: -1}
	facts(t, c.Facts(), width, speed)
	now = now.Add(time.Second)
	write(t, root, "devices/pci0000:00/0000:00:01.0/0000:1b:00.0/aer_dev_fatal", "TOTAL_ERR_FATAL 2\n")
	facts(t, c.Facts(), width, speed, nodeapi.Fact{Component: "pcie", Device: "0000:1b:00.0", Kind: "aer_fatal", Value: 1, Rank: 5})
}

func hostTrees(t *testing.T) (proc, sys sysfile.Root) {
	const cpu = "devices/system/cpu/"
	proc = tree(t, map[string]string{
		"pressure/cpu":    "some avg10=75.00 avg60=2.00 avg300=1.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n",
		"stat":            "cpu  100 200 300 400 500 600 700 800 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n",
		"meminfo":         "MemTotal:       1024 kB\nMemFree:         1 kB\nMemAvailable:    512 kB\n",
		"vmstat":          "nr_free_pages 5\noom_kill 3\n",
	})
	sys = tree(t, map[string]string{
		cpu + "cpu0/cpufreq/scaling_governor":             "performance\n",
		cpu + "cpu0/cpufreq/scaling_cur_freq":             "2000000\n",
		cpu + "cpu0/cpufreq/cpuinfo_max_freq":             "3500000\n",
		cpu + "cpu0/cpufreq/scaling_max_freq":             "3400000\n",
		cpu + "cpu0/thermal_throttle/core_throttle_count": "4\n",
		cpu + "cpu1/cpufreq/scaling_governor":             "powersave\n",
		cpu + "cpu1/cpufreq/scaling_cur_freq":             "1000000\n",
		cpu + "cpuidle/current_driver":                    "intel_idle\n",
		"devices/system/edac/mc/mc0/ce_count":             "5\n",
		"devices/system/edac/mc/mc0/ue_count":             "0\n",
		"devices/system/edac/mc/mc1/ce_count":             "1\n",
	})
	return proc, sys
}

func TestHost(t *testing.T) {
	proc, sys := hostTrees(t)
	expect(t, NewHost(proc, sys, fakeRanks(nil)), `
culprit_host_cpu_frequency_hertz = 1.5e+09
culprit_host_cpu_frequency_limit_hertz = 3.4e+09
culprit_host_cpu_governor_cpus governor=performance = 1
culprit_host_cpu_governor_cpus governor=powersave = 1
culprit_host_cpu_max_frequency_hertz = 3.5e+09
culprit_host_cpu_seconds_total mode=idle = 4
culprit_host_cpu_seconds_total mode=iowait = 5
culprit_host_cpu_seconds_total mode=irq = 6
culprit_host_cpu_seconds_total mode=nice = 2
culprit_host_cpu_seconds_total mode=softirq = 7
culprit_host_cpu_seconds_total mode=steal = 8
culprit_host_cpu_seconds_total mode=system = 3
culprit_host_cpu_seconds_total mode=user = 1
culprit_host_cpu_thermal_throttles_total = 4
culprit_host_cpus = 2
culprit_host_memory_available_bytes = 524288
culprit_host_memory_bytes = 1.048576e+06
culprit_host_memory_errors_total severity=corrected = 6
culprit_host_memory_errors_total severity=uncorrected = 0
culprit_host_oom_kills_total = 3
culprit_host_pressure_cpu_waiting_seconds_total = 2.5
culprit_host_pressure_memory_stalled_seconds_total = 1
culprit_host_pressure_memory_waiting_seconds_total = 3
`)
}

func TestHostWithoutAnything(t *testing.T) {
	expect(t, NewHost(tree(t, nil), tree(t, nil), fakeRanks(nil)), "")
}

func TestHostBrokenFile(t *testing.T) {
	proc, sys := hostTrees(t)
	write(t, proc, "meminfo", "MemTotal: lots\n")
	n := 0
	if err := NewHost(proc, sys, fakeRanks(nil)).Collect(t.Context(), func(prometheus.Metric) { n++ }); err == nil || n < 15 {
		t.Errorf("%d metrics, %v", n, err)
	}
}

func TestHostFacts(t *testing.T) {
	proc, sys := hostTrees(t)
	h := NewHost(proc, sys, fakeRanks{
		{Rank: 1, RunDelay: 0.4, Threads: make([]nodeapi.Thread, 2)}, {Rank: 2, RunDelay: 0.1, Threads: make([]nodeapi.Thread, 2)},
	})
	now := time.Unix(1000, 0)
	h.now = func() time.Time { return now }
	starved := nodeapi.Fact{Component: "cpu", Kind: "cpu_pressure", Value: 0.4, Unit: "ratio", Rank: 1}
	facts(t, h.Facts(), starved)
	now = now.Add(time.Minute)
	write(t, proc, "vmstat", "oom_kill 4\n")
	write(t, sys, "devices/system/edac/mc/mc1/ue_count", "2\n")
	facts(t, h.Facts(), starved,
		nodeapi.Fact{Component: "memory", Kind: "oom_kill", Value: 1, Rank: -1},
		nodeapi.Fact{Component: "memory", Kind: "ecc_uncorrectable", Value: 2, Rank: -1},
	)
	write(t, proc, "pressure/cpu", "some avg10=10.00 avg60=2.00 avg300=1.00 total=2500000\n")
	now = now.Add(time.Hour)
	facts(t, h.Facts())
}

func TestEvidence(t *testing.T) {
	e := NewEvidence(promslog.NewNopLogger())
	hang := make(chan struct{})
	e.Add("good", sourceFunc(func() []nodeapi.Fact { return []nodeapi.Fact{{Component: "gpu", Kind: "xid", AgeSeconds: 3}} }))
	e.Add("panics", sourceFunc(func() []nodeapi.Fact { panic("no") }))
	e.Add("hangs", sourceFunc(func() []nodeapi.Fact { <-hang; return nil }))
	defer close(hang)
	e.Run(t.Context())
	deadline := time.Now().Add(time.Minute)
	for len(e.Facts()) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no facts")
		}
	}
	if f := e.Facts(); len(f) != 1 || f[0].AgeSeconds < 3 {
		t.Errorf("facts %+v", f)
	}
}

type sourceFunc func() []nodeapi.Fact

func (f sourceFunc) Facts() []nodeapi.Fact { return f() }

// FuzzSysfs has every file that the device collectors read hold anything: nothing but an error may come of it.
func FuzzSysfs(f *testing.F) {
	for _, text := range []string{"", "4: ACTIVE\n", "400 Gb/sec (4X NDR)\n", "N/A (no PMA)\n", "16.0 GT/s PCIe\n", "Unknown\n", "0x30200\n", "TOTAL_ERR_FATAL 3\n", "some avg10=1 total=x\n", "-1\n", "18446744073709551616\n", "1e309 Gb/sec\n", "\x00\xff"} {
		f.Add(text)
	}
	const pci, ib, cpu = "bus/pci/devices/0000:1b:00.0/", "class/infiniband/mlx5_0/", "devices/system/cpu/cpu0/"
	f.Fuzz(func(t *testing.T, text string) {
		files := map[string]string{
			pci + "class": "0x030200", pci + "vendor": "0x10de", "class/infiniband/mlx5_1/ports/1/state": "4: ACTIVE",
		}
		for _, name := range []string{
			pci + "current_link_width", pci + "max_link_width", pci + "current_link_speed", pci + "max_link_speed", pci + "aer_dev_fatal", pci + "numa_node",
			ib + "ports/1/state", ib + "ports/1/rate", ib + "ports/1/counters/port_xmit_data", ib + "ports/1/hw_counters/rp_cnp_handled", ib + "board_id", ib + "device/numa_node",
			cpu + "cpufreq/scaling_governor", cpu + "cpufreq/scaling_cur_freq", cpu + "cpufreq/scaling_max_freq", cpu + "cpufreq/cpuinfo_max_freq",
			cpu + "thermal_throttle/core_throttle_count", "devices/system/node/node0/distance", "devices/system/edac/mc/mc0/ce_count",
		} {
			files[name] = strings.ReplaceAll(text, "->", "")
		}
		sys := tree(t, files)
		proc := tree(t, map[string]string{"pressure/cpu": files[ib+"board_id"], "stat": files[ib+"board_id"], "meminfo": files[ib+"board_id"], "vmstat": files[ib+"board_id"]})
		registry := prometheus.NewPedanticRegistry()
		var logged strings.Builder
		set := NewSet(slog.New(slog.NewTextHandler(&logged, nil)))
		for name, c := range map[string]interface {
			Collector
			FactSource
		}{"rdma": NewRDMA(sys), "pci": NewPCI(sys, fakeRanks(nil)), "host": NewHost(proc, sys, fakeRanks(nil))} {
			set.Add(name, c)
			for _, fact := range c.Facts() {
				if math.IsNaN(fact.Value) || math.IsInf(fact.Value, 0) { // JSON does not know them.
					t.Errorf("fact %+v", fact)
				}
			}
		}
		registry.MustRegister(set.WithContext(t.Context()))
		if _, err := registry.Gather(); err != nil {
			t.Fatal(err)
		}
		if logs := logged.String(); strings.Contains(logs, "panic") {
			t.Error(logs)
		}
	})
}
