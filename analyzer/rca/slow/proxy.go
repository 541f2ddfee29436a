// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// locateProxy names ranks on which nothing is outstanding longer and received data is handed on late: the thread that does it starves.
func (a *analysis) locateProxy(flush []slowEnd, gain float64) (finding, bool) {
	if len(flush) == 0 {
		return finding{}, false
	}
	var nodes []int32
	for _, e := range flush {
		if e.total*3 >= flush[0].total {
			nodes = append(nodes, e.node)
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	f := finding{
		class: rca.SlowComm, cause: rca.CauseProxy, nodes: nodes, what: words.ProxyLate, lane: -1,
		gain: gain, weight: proxyWeight, against: (*analysis).compareFlushes,
	}
	if !a.lateAllOver(flush, nodes) {
		f.cause = rca.CausePCIe
		f.what = words.FlushLate
		return f, true
	}
	one := len(a.hostsOf(nodes)) == 1
	if one && (len(nodes) > 1 || a.ailingCPU(nodes[0])) {
		f.cause = rca.CauseCPU
	}
	if !one {
		f.weight = severalHostsWeight
	}
	return f, true
}

// lateAllOver reports whether it is not the flush alone that takes long on these ranks: a thread that does not get to run is
// late to see the GPU take the data, too, whatever the operation.
func (a *analysis) lateAllOver(flush []slowEnd, nodes []int32) bool {
	for _, n := range nodes {
		if a.shortOfCPU(n) || a.ailingCPU(n) {
			return true
		}
		if a.hasFact(n, "pcie") {
			return false
		}
	}
	least := -1.0
	for i := range flush {
		var late, taking int64
		for _, g := range flush[i].segs {
			late += int64(a.now.segs[g].record.RecvWait[recvFlush])
			taking += int64(a.now.segs[g].record.RecvWait[recvGPU])
		}
		if share := float64(taking) / float64(max(1, late)); least < 0 || share < least {
			least = share
		}
	}
	return least > takenLate
}

func (a *analysis) anySick(nodes []int32, factor float64) bool {
	return slices.ContainsFunc(nodes, func(n int32) bool { return a.endSick(n, factor) })
}

// endSick reports whether the node's own evidence speaks against a rank's network or CPUs, or its thread waits for a CPU for so long that its
// transfers may take factor times as long.
func (a *analysis) endSick(n int32, factor float64) bool {
	return a.Ailing(n, job.NetAilment) || a.ailingCPU(n) || a.shortOfCPU(n) && a.waitsEnough(n, factor)
}

// starved reports whether a rank's proxy thread, or its host, is short of CPU, so much that its transfers may take factor times as long.
func (a *analysis) starved(n int32, factor float64) bool {
	return (a.shortOfCPU(n) || a.ailingCPU(n)) && a.waitsEnough(n, factor)
}

// waitsEnough reports whether a rank's proxy thread waits for a CPU for long enough to be why its transfers take factor times as long. What it
// waits is part of what they take, and what threads of other hosts wait as well makes no transfer longer than theirs.
func (a *analysis) waitsEnough(n int32, factor float64) bool {
	r := a.Nodes[n].Rank
	if r == nil || r.ProxyRunDelay < 0 {
		return true
	}
	others, _ := a.usualDelay(r.Host)
	return r.ProxyRunDelay-others >= cpuShare*(1-1/factor)
}

func (a *analysis) hasFact(n int32, component string) bool {
	return a.Ailing(n, func(f *rca.Fact) bool { return f.Component == component })
}
