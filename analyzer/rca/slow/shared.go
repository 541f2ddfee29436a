// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// shortOfCPU reports whether a rank's proxy thread waits for a CPU more than those of other hosts do, and more than it did before.
func (a *analysis) shortOfCPU(n int32) bool {
	r := a.Nodes[n].Rank
	if r == nil || r.ProxyRunDelay <= longDelay || alwaysWaited(r) {
		return false
	}
	others, known := a.usualDelay(r.Host)
	return !known || r.ProxyRunDelay > timesOther*others
}

// alwaysWaited reports whether a rank's proxy thread waited for a CPU before the job became slow, too.
func alwaysWaited(r *rca.Rank) bool {
	return r.UsualRunDelay > 0 && r.ProxyRunDelay <= timesOther*r.UsualRunDelay
}

// usualDelay is the median over hosts, but for one, of the share of time that their proxy threads wait for a CPU.
func (a *analysis) usualDelay(but string) (median float64, known bool) {
	worst := map[string]float64{}
	for n := range a.Nodes {
		if r := a.Nodes[n].Rank; r != nil && r.Host != "" && r.Host != but && r.ProxyRunDelay >= 0 && r.Caps&rca.SeesProcess != 0 {
			worst[r.Host] = max(worst[r.Host], r.ProxyRunDelay)
		}
	}
	all := slices.Sorted(maps.Values(worst))
	if len(all) == 0 {
		return 0, false
	}
	return all[len(all)/2], true
}

// ailingCPU reports whether the node complains about a rank's CPUs, did not do so before, and most other nodes do not.
func (a *analysis) ailingCPU(n int32) bool {
	if r := a.Nodes[n].Rank; r != nil && alwaysWaited(r) {
		return false
	}
	return a.hasFact(n, "cpu") && !a.common("cpu")
}

// common reports whether more than half of two hosts or more complain of the same component.
func (a *analysis) common(component string) bool {
	hosts, sick := map[string]bool{}, map[string]bool{}
	for n := range a.Nodes {
		if r := a.Nodes[n].Rank; r != nil && r.Host != "" {
			hosts[r.Host] = true
			if a.hasFact(int32(n), component) { // Far fewer than 2^31 ranks.
				sick[r.Host] = true
			}
		}
	}
	return len(hosts) > 1 && 2*len(sick) > len(hosts)
}

// allShortOfCPU reports whether the hosts as a whole are short of CPU, so that it is chance which rank computes or calls late.
func (a *analysis) allShortOfCPU() bool {
	usual, known := a.usualDelay("")
	return len(a.Mates) > 1 && (known && usual > longDelay || a.common("cpu"))
}
