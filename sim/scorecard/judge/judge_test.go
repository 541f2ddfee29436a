// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
)

// fours are hosts of four ranks.
type fours int

func (f fours) World() int                         { return int(f) }
func (f fours) HostOf(rank int) int                { return rank / 4 }
func (f fours) HostName(h int) string              { return fmt.Sprintf("node-%04d", h) }
func (f fours) Member(_ string, r int) (int, bool) { return 4 + r, r < 4 }
func ranked1(rank int) []rca.Culprit               { return []rca.Culprit{{Rank: rank, Channel: -1}} }

func grouped(name string) []rca.Culprit { return []rca.Culprit{{Rank: -1, Channel: -1, Group: name}} }

func TestJudge(t *testing.T) {
	nic := cluster.Truth{Class: "fault", Classes: []string{"fault"}, Causes: []string{"network_send"}, Ranks: []int{5}, Component: "nic", Place: "mlx5_1"}
	host := cluster.Truth{Class: "slow_compute", Classes: []string{"slow_compute"}, Causes: []string{"gpu"}, Ranks: []int{4, 5, 6, 7}, Component: "host", Place: "node-0001"}
	path := cluster.Truth{Class: "slow_comm", Classes: []string{"slow_comm"}, Ranks: []int{0, 1, 2, 3, 4, 5, 6, 7}, Component: "link", Place: "node-0000->node-0001"}
	imbalance := cluster.Truth{Class: "imbalance", Classes: []string{"imbalance"}, Causes: []string{"pipeline_stage"}}
	global := cluster.Truth{Class: "global_slow", Classes: []string{"global_slow"}}
	for _, c := range []struct {
		name     string
		truths   []cluster.Truth
		noEffect bool
		v        rca.Verdict
		want     Judgement
	}{
		{
			"the rank and its NIC",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: []rca.Culprit{{Rank: 5, NIC: "mlx5_1"}}},
			Judgement{Right: true, ClassRight: true, CauseRight: true, Top1: true, Top3: true, HostRight: true, HostTop3: true, DeviceRight: true, DeviceTop3: true, GroupRight: true, AllFound: true},
		},
		{
			"the rank, another NIC",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: []rca.Culprit{{Rank: 5, NIC: "mlx5_2"}}},
			Judgement{Right: true, ClassRight: true, CauseRight: true, Top1: true, Top3: true, HostRight: true, HostTop3: true, GroupRight: true, AllFound: true},
		},
		{
			"the rank, wrong class",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.NotEntered, Cause: rca.CauseNotCalled, Culprits: ranked1(5)},
			Judgement{Top1: true, Top3: true, HostRight: true, HostTop3: true, GroupRight: true, AllFound: true},
		},
		{
			"a neighbour on the host",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: ranked1(6)},
			Judgement{ClassRight: true, CauseRight: true, HostRight: true, HostTop3: true, False: true, Innocents: 1},
		},
		{
			"an innocent first, then the culprit",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: append(ranked1(9), ranked1(5)...)},
			Judgement{ClassRight: true, CauseRight: true, Top3: true, HostTop3: true, DeviceTop3: true, False: true, Innocents: 1, AllFound: true},
		},
		{
			"its link",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: grouped("link 5->13")},
			Judgement{ClassRight: true, CauseRight: true, GroupRight: true},
		},
		{
			"a link of others",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: grouped("link 15->23")},
			Judgement{ClassRight: true, CauseRight: true, False: true, Innocents: 1},
		},
		{
			"its link, told by its place in a communicator",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: grouped("link between rank 15 and rank 1 of dp_3, which was not seen")},
			Judgement{ClassRight: true, CauseRight: true, GroupRight: true},
		},
		{
			"a link to another, whose place in a communicator has the rank's number",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: grouped("link between rank 15 and rank 5 of dp_3, which was not seen")},
			Judgement{ClassRight: true, CauseRight: true, False: true, Innocents: 1},
		},
		{
			"a path whose host numbers look like the rank",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: grouped("path node-0005->node-0006")},
			Judgement{ClassRight: true, CauseRight: true, False: true, Innocents: 1},
		},
		{
			"one rank's host is not the rank",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: []rca.Culprit{{Rank: -1, Host: "node-0001", Group: "ranks of a group on one host"}}},
			Judgement{ClassRight: true, CauseRight: true, HostRight: true, HostTop3: true, GroupRight: true},
		},
		{
			"other ranks of its host",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Culprits: []rca.Culprit{{Rank: -1, Host: "node-0001", Group: "ranks 12, 14 of dp_0 on one host"}}},
			Judgement{ClassRight: true, CauseRight: true, HostRight: true, HostTop3: true, False: true, Innocents: 1},
		},
		{
			"a host that is meant",
			[]cluster.Truth{host},
			false,
			rca.Verdict{Class: rca.SlowCompute, Cause: rca.CauseGPU, Culprits: []rca.Culprit{{Rank: -1, Host: "node-0001"}}},
			Judgement{Right: true, ClassRight: true, CauseRight: true, Top1: true, Top3: true, HostRight: true, HostTop3: true, DeviceRight: true, DeviceTop3: true, GroupRight: true, AllFound: true},
		},
		{
			"the congested path",
			[]cluster.Truth{path},
			false,
			rca.Verdict{Class: rca.SlowComm, Cause: rca.CauseNetworkSend, Culprits: grouped("path node-0000->node-0001")},
			Judgement{Right: true, ClassRight: true, CauseRight: true, Top1: true, Top3: true, HostRight: true, HostTop3: true, DeviceRight: true, DeviceTop3: true, GroupRight: true, AllFound: true},
		},
		{
			"unknown, with suspects",
			[]cluster.Truth{nic},
			false,
			rca.Verdict{Class: rca.Unknown, Culprits: grouped("suspects: 5 or a rank behind them")},
			Judgement{Unknown: true, GroupRight: true},
		},
		{
			"imbalance, rightly nobody",
			[]cluster.Truth{imbalance},
			false,
			rca.Verdict{Class: rca.Imbalance, Cause: rca.CauseStage, Culprits: grouped("stage 2")},
			Judgement{Right: true, ClassRight: true, CauseRight: true, Top1: true, Top3: true, HostRight: true, HostTop3: true, DeviceRight: true, DeviceTop3: true, GroupRight: true, AllFound: true},
		},
		{
			"everybody slow, one accused",
			[]cluster.Truth{global},
			false,
			rca.Verdict{Class: rca.SlowComm, Culprits: ranked1(3)},
			Judgement{False: true, Innocents: 1},
		},
		{
			"healthy, accused", nil, false,
			rca.Verdict{Class: rca.SlowCompute, Culprits: ranked1(3)},
			Judgement{False: true, Innocents: 1},
		},
		{"healthy", nil, false, rca.Verdict{Class: rca.Healthy}, Judgement{Right: true, ClassRight: true}},
		{"benign, but paged", nil, false, rca.Verdict{Class: rca.Benign, Page: true}, Judgement{ClassRight: true}},
		{
			"a fault too small to matter, named",
			[]cluster.Truth{nic},
			true,
			rca.Verdict{Class: rca.Fault, Culprits: ranked1(5)},
			Judgement{ClassRight: true, Top1: true, Top3: true, HostRight: true, GroupRight: true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Judge(&c.v, &cluster.Answer{Truths: c.truths}, !c.noEffect, fours(64)); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// It takes two orders to make a deadlock: whoever is named beside the one that is in the other order is no innocent.
func TestJudgeSparesTheOtherOrder(t *testing.T) {
	a := &cluster.Answer{Truths: []cluster.Truth{{Classes: []string{"inconsistent"}, Ranks: []int{2}, Mutual: true}}}
	v := &rca.Verdict{Class: rca.Inconsistent, Culprits: append(ranked1(2), ranked1(6)...)}
	if j := Judge(v, a, true, fours(8)); j.False || !j.Right {
		t.Errorf("judgement %+v", j)
	}
	v.Culprits = ranked1(6)
	if j := Judge(v, a, true, fours(8)); !j.False || j.Right {
		t.Errorf("the other alone: judgement %+v", j)
	}
}

func TestJudgeAsksForEveryFault(t *testing.T) {
	a := &cluster.Answer{Truths: []cluster.Truth{{Classes: []string{"fault"}, Ranks: []int{2}}, {Classes: []string{"not_entered"}, Ranks: []int{9}}}}
	v := &rca.Verdict{Class: rca.Fault, Culprits: ranked1(2)}
	if j := Judge(v, a, true, fours(16)); !j.Right || j.AllFound {
		t.Errorf("one of two: judgement %+v", j)
	}
	v.Culprits = append(v.Culprits, ranked1(9)...)
	if j := Judge(v, a, true, fours(16)); !j.Right || !j.AllFound || j.False {
		t.Errorf("both: judgement %+v", j)
	}
}

// A verdict that names the host of the culprit, with the right class, holds; one that names somebody else beside it does not.
func TestHolds(t *testing.T) {
	for _, c := range []struct {
		name string
		j    Judgement
		want bool
	}{
		{"right", Judgement{Right: true, ClassRight: true, Top1: true}, true},
		{"its host", Judgement{ClassRight: true, GroupRight: true}, true},
		{"its host, of another class", Judgement{GroupRight: true}, false},
		{"beside an innocent", Judgement{Right: true, ClassRight: true, Top1: true, False: true}, false},
	} {
		if got := c.j.Holds(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
