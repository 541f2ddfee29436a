// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

var hostNUMADesc = hostDesc("gpu_nic_numa_distance",
	"Distance between the NUMA nodes of a GPU and of the RDMA device nearest to it, as firmware gives it: 10 on the same node.", "gpu", "nic")

// numa is where the node's GPUs and RDMA devices hang.
type numa struct {
	gpus map[string]int // NUMA node by bus address; without those that do not tell.
	nics map[string]int // By RDMA device.
	// distance by NUMA nodes.
	distance map[int][]int
}

// numaPeriod is for how long what was read counts: hardware moves rarely, and there are hundreds of files to read.
const numaPeriod = time.Minute

// places gives where the devices hang.
func (h *Host) places() *numa {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	if now := h.now(); h.placesRead == nil || now.Sub(h.placesAt) >= numaPeriod {
		read := h.readNUMA()
		h.placesRead, h.placesAt = &read, now
	}
	return h.placesRead
}

// readNUMA reads sysfs. Machines with one NUMA node may say -1 for every device, which tells nothing.
func (h *Host) readNUMA() numa {
	n := numa{gpus: map[string]int{}, nics: map[string]int{}, distance: map[int][]int{}}
	nodeOf := func(elem ...string) (int, bool) {
		text, err := h.sys.Text(elem...)
		if err != nil {
			return 0, false
		}
		v, err := strconv.Atoi(text)
		return v, err == nil && v >= 0
	}
	pci := PCI{sys: h.sys}
	for _, d := range pci.find() {
		if v, ok := nodeOf(d.dir, "numa_node"); ok && d.kind == "gpu" {
			n.gpus[d.bdf] = v
		}
	}
	for _, dir := range h.sys.Glob("class/infiniband/*") {
		if v, ok := nodeOf(dir, "device/numa_node"); ok {
			n.nics[path.Base(dir)] = v
		}
	}
	for _, dir := range h.sys.Glob("devices/system/node/node[0-9]*") {
		number, err := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "node"))
		text, errText := h.sys.Text(dir, "distance")
		if err != nil || errText != nil {
			continue
		}
		for field := range strings.FieldsSeq(text) {
			v, err := strconv.Atoi(field)
			if err != nil {
				delete(n.distance, number)
				break
			}
			n.distance[number] = append(n.distance[number], v)
		}
	}
	return n
}

// between gives the distance of two NUMA nodes; false where firmware does not tell.
func (n *numa) between(a, b int) (int, bool) {
	if list := n.distance[a]; b < len(list) {
		return list[b], true
	}
	return 0, false
}

// nearest finds the RDMA device nearest to a GPU, of equally near ones the first by name.
func (n *numa) nearest(gpu string) (nic string, distance int, ok bool) {
	at, known := n.gpus[gpu]
	if !known {
		return "", 0, false
	}
	for name, place := range n.nics {
		d, known := n.between(at, place)
		if known && (!ok || d < distance || d == distance && name < nic) {
			nic, distance, ok = name, d, true
		}
	}
	return nic, distance, ok
}

// distances exports how far each GPU is from the nearest RDMA device.
func (h *Host) distances(emit func(prometheus.Metric)) {
	n := h.places()
	for gpu := range n.gpus {
		if nic, d, ok := n.nearest(gpu); ok {
			emit(prometheus.MustNewConstMetric(hostNUMADesc, prometheus.GaugeValue, float64(d), gpu, nic))
		}
	}
}

// remote tells of ranks that use RDMA devices only which are farther from their GPU than another one is.
func (h *Host) remote(ranks []node.RankRef) []nodeapi.Fact {
	var facts []nodeapi.Fact
	n := h.places()
	for _, r := range ranks {
		if len(r.NICs) == 0 || r.PCIBusID == "" {
			continue
		}
		nic, nearest, ok := n.nearest(r.PCIBusID)
		if !ok {
			continue
		}
		used, least := "", 0
		for _, name := range r.NICs {
			place, known := n.nics[name]
			d, told := n.between(n.gpus[r.PCIBusID], place)
			if !known || !told {
				used = ""
				break
			}
			if used == "" || d < least {
				used, least = name, d
			}
		}
		if used != "" && least > nearest {
			facts = append(facts, nodeapi.Fact{
				Component: "nic", Device: used, Kind: "numa_remote", Value: float64(least), Expected: float64(nearest), Rank: r.Rank,
				Text: fmt.Sprintf("GPU %s uses %s across NUMA nodes although %s is nearer", r.PCIBusID, used, nic),
			})
		}
	}
	return facts
}
