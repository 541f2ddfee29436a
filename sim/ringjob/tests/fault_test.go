// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// Jobs with faults: a ring of four over dp, the fault on rank 1, begun by SIGUSR1 in the middle of training. Rank 1
// sends to rank 2 and receives from rank 0.
const (
	faultRank  = 1
	faultFlags = "--layout dp4 --compute-ms 1 --grace 1 --barrier-every 0 "
)

func startFault(t *testing.T, fault, more string) *job {
	t.Helper()
	j := start(t, spec{ranks: 4, hosts: 4, record: true, launch: "--grace 3", flags: faultFlags + "--fault " + fault + ":rank=1 " + more})
	j.awaitStep(3)
	if err := syscall.Kill(j.pid(faultRank), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	e := j.await("the fault", func(e event) bool { return e.Event == "fault" })
	if e.Rank != faultRank || e.Real == 0 || e.Mono == 0 {
		t.Errorf("fault event %+v", e)
	}
	return j
}

// awaitRecords polls the records of all ranks until they show what the check wants.
func awaitRecords(t *testing.T, j *job, what string, check func(r []*record) error) {
	t.Helper()
	poll(t, what, func() error {
		records := make([]*record, 4)
		for rank := range records {
			var err error
			if records[rank], err = readRecord(j.dir, rank); err != nil {
				return err
			}
		}
		return check(records)
	})
}

// openSteps are the steps not stopped, by the last state they reached.
func openSteps(r *record, send bool) map[int]int {
	open := map[int]int{}
	for _, s := range r.of("ProxyStep", "dp") {
		if s.live() && (s.parent.num("send") == 1) == send && len(s.states) > 0 {
			open[s.states[len(s.states)-1].num("state")]++
		}
	}
	return open
}

// peerWaits is the largest number of SendPeerWait records of an open step.
func peerWaits(r *record) int {
	most := 0
	for _, s := range r.of("ProxyStep", "dp") {
		if s.live() && s.count(sendPeerWait) > most {
			most = s.count(sendPeerWait)
		}
	}
	return most
}

// colls is how many operations a rank has called on dp.
func colls(r *record) int { return len(r.of("Coll", "dp")) }

// hangs checks that nobody takes steps any more (a fault may wait for a step of its own, so the count is from its
// effect) and that the job can still be ended, as an abort.
func hangs(t *testing.T, j *job, code int) {
	t.Helper()
	fault := j.await("the fault", func(e event) bool { return e.Event == "fault" })
	if last := j.lastStep(); last > fault.Step+1 {
		t.Errorf("step %d was done, the fault came in %d", last, fault.Step)
	}
	j.signal(syscall.SIGTERM)
	j.exit(code)
}

func TestLinkStall(t *testing.T) {
	j := startFault(t, "link-stall", "")
	awaitRecords(t, j, "a transfer that stays undelivered", func(r []*record) error {
		stuck := openSteps(r[1], true)[sendWait]
		if stuck < 1 || stuck > 2*window {
			return fmt.Errorf("%d transfers of rank 1 wait for the network", stuck)
		}
		if waiting := openSteps(r[2], false)[recvWait]; waiting < stuck {
			return fmt.Errorf("rank 2 waits for %d transfers, %d are stuck", waiting, stuck)
		}
		for rank, record := range r {
			if rank != 1 && openSteps(record, true)[sendWait] != 0 {
				return fmt.Errorf("rank %d's transfers are not delivered either", rank)
			}
		}
		return nil
	})
	hangs(t, j, 4)
	// Torn down: what was open stays open, but everybody said goodbye to the plugin.
	for rank := range 4 {
		checkEnd(t, mustRecord(t, j.dir, rank))
	}
}

func TestGPUFreeze(t *testing.T) {
	j := startFault(t, "gpu-freeze", "")
	awaitRecords(t, j, "a GPU that neither produces nor consumes", func(r []*record) error {
		// It may have sent its last: then no send is open. One that is open waits for the GPU.
		send, recv := openSteps(r[1], true), openSteps(r[1], false)
		waiting := send[sendGPUWait]
		delete(send, sendGPUWait)
		if recv[recvGPUWait] == 0 || len(send) != 0 {
			return fmt.Errorf("rank 1: %d sends wait for the GPU, others %v, receive %v", waiting, send, recv)
		}
		// Its buffers are full: the one before it waits for it, with nothing undelivered.
		if before := openSteps(r[0], true); before[sendWait] != 0 {
			return fmt.Errorf("rank 0: send %v", before)
		}
		for _, k := range r[1].of("KernelCh", "dp") {
			if k.live() {
				return nil
			}
		}
		return errors.New("no kernel is running on rank 1")
	})
	hangs(t, j, 4)
}

func TestKernelStall(t *testing.T) {
	j := startFault(t, "kernel-stall", "")
	awaitRecords(t, j, "an operation whose kernel does not start", func(r []*record) error {
		all := r[1].of("Coll", "dp")
		last := all[len(all)-1]
		for _, c := range last.children {
			if c.kind == "KernelCh" {
				return errors.New("the kernel runs")
			}
		}
		// Data arrives, and nobody takes it.
		if recv := openSteps(r[1], false); recv[recvGPUWait] == 0 {
			return fmt.Errorf("rank 1: receive %v", recv)
		}
		if len(r[2].of("KernelCh", "dp")) != len(r[1].of("KernelCh", "dp"))+last.num("channels") {
			return errors.New("rank 2's kernel is not running")
		}
		return nil
	})
	hangs(t, j, 4)
}

func TestFlushStall(t *testing.T) {
	j := startFault(t, "flush-stall", "")
	awaitRecords(t, j, "transfers that arrive and stay", func(r []*record) error {
		if recv := openSteps(r[1], false); recv[recvFlushWait] == 0 || recv[recvGPUWait] != 0 {
			return fmt.Errorf("rank 1: receive %v", recv)
		}
		return nil
	})
	hangs(t, j, 4)
}

func TestGroupStall(t *testing.T) {
	j := startFault(t, "group-stall", "")
	awaitRecords(t, j, "a program inside ncclGroupEnd", func(r []*record) error {
		groups := r[1].of("GroupApi", "dp")
		last := groups[len(groups)-1]
		if !last.live() || !last.reached(groupEnding) || colls(r[1]) != colls(r[2])-1 {
			return fmt.Errorf("the last group's states are%s", pathOf(last))
		}
		return nil
	})
	hangs(t, j, 4)
}

func TestSwapOrder(t *testing.T) {
	j := startFault(t, "swap-order", "--barrier-every 3")
	awaitRecords(t, j, "a deadlock of two communicators", func(r []*record) error {
		// The GPU of each rank is inside the one that it was given first.
		stuck := func(r *record, comm string) bool {
			for _, k := range r.of("KernelCh", comm) {
				if k.live() {
					return true
				}
			}
			return false
		}
		if !stuck(r[1], "world") || stuck(r[1], "dp") || !stuck(r[2], "dp") || stuck(r[2], "world") {
			return errors.New("not locked")
		}
		return nil
	})
	hangs(t, j, 4)
}

func TestNotEntered(t *testing.T) {
	for _, how := range []string{"sleep", "spin"} {
		t.Run(how, func(t *testing.T) {
			j := startFault(t, "op-not-entered="+how, "")
			awaitRecords(t, j, "peers in an operation that rank 1 has not called", func(r []*record) error {
				for rank, record := range r {
					if rank != 1 && colls(record) != colls(r[1])+1 {
						return fmt.Errorf("rank %d is in operation %d, rank 1 has called %d", rank, colls(record), colls(r[1]))
					}
				}
				if n := peerWaits(r[0]); n < 20 {
					return fmt.Errorf("rank 0 has polled for its receiver %d times", n)
				}
				return nil
			})
			hangs(t, j, 4)
		})
	}
}

func TestOtherOp(t *testing.T) {
	for what, name := range map[string]string{"allgather": "AllGather", "reducescatter": "ReduceScatter", "size": "AllReduce"} {
		t.Run(what, func(t *testing.T) {
			j := startFault(t, "other-op="+what, "")
			awaitRecords(t, j, "ranks that disagree", func(r []*record) error {
				mine, theirs := r[1].of("Coll", "dp"), r[2].of("Coll", "dp")
				for i := range min(len(mine), len(theirs)) {
					a, b := mine[i], theirs[i]
					if a.field["func"] == b.field["func"] && a.field["count"] == b.field["count"] {
						continue
					}
					if a.field["func"] != name {
						t.Errorf("rank 1 called %s, want %s", a.field["func"], name)
					}
					if peerWaits(r[0])+peerWaits(r[1])+peerWaits(r[2])+peerWaits(r[3]) < 20 {
						return errors.New("nobody waits yet")
					}
					return nil
				}
				return errors.New("all the same")
			})
			hangs(t, j, 4)
		})
	}
}

func TestStop(t *testing.T) {
	j := startFault(t, "stop", "")
	j.await("the stop", func(e event) bool { return e.Event == "rank_stopped" && e.Rank == faultRank })
	awaitRecords(t, j, "peers that wait for the stopped rank", func(r []*record) error {
		// What it had posted before is delivered all the same: its NIC lives. Whether rank 0 then lacks a buffer or data to send depends
		// on where the signal met rank 1. Rank 2 lacks its data in any case.
		if send := openSteps(r[0], true); send[sendWait] != 0 {
			return fmt.Errorf("rank 0: send %v", send)
		}
		if receive := openSteps(r[2], false); receive[recvWait] == 0 {
			return fmt.Errorf("rank 2: receive %v", receive)
		}
		return nil
	})
	hangs(t, j, 4)
}

func TestKill(t *testing.T) {
	j := startFault(t, "kill", "")
	e := j.await("the end of the rank", func(e event) bool { return e.Event == "rank_exit" })
	if e.Rank != faultRank || e.Signal != int(syscall.SIGKILL) {
		t.Errorf("exit %+v", e)
	}
	// The dead rank may have passed on the last data that rank 0 needs, and not the last that rank 2 needs: rank 0 then waits in
	// the next operation.
	awaitRecords(t, j, "peers that wait for the dead rank", func(r []*record) error {
		ahead := colls(r[0]) - colls(r[2])
		if ahead < 0 || ahead > 1 || openSteps(r[2], false)[recvWait] == 0 {
			return fmt.Errorf("rank 0 is %d operations ahead; rank 2: receive %v", ahead, openSteps(r[2], false))
		}
		return nil
	})
	for _, e := range j.copyEvents() {
		if e.Event == "rank_exit" && e.Rank != faultRank {
			t.Errorf("rank %d ended with it: code %d, signal %d", e.Rank, e.Code, e.Signal)
		}
	}
	hangs(t, j, 6)
}

// TestRecovers: training goes on after a fault that ends, with right results.
func TestRecovers(t *testing.T) {
	for _, c := range []struct{ fault, more string }{
		{"link-stall", "--fault-for 1"},
		{"gpu-freeze", "--fault-for 1"},
		{"op-not-entered", "--fault-for 1"},
		{"stop", "--fault-for 1"},
		{"checkpoint=1", ""},
		{"gpu-slow=5", ""},
		{"proxy-delay=2", ""},
		{"flush-slow=2", ""},
		{"flush-stall", "--fault-for 1"},
		{"kernel-stall", "--fault-for 1"},
		{"group-stall", "--fault-for 1"},
		{"link-slow=0.05", ""},
		{"link-slow=0.05", "--net socket"},
	} {
		t.Run(c.fault+c.more, func(t *testing.T) {
			j := startFault(t, c.fault, c.more)
			fault := j.await("the fault", func(e event) bool { return e.Event == "fault" })
			j.awaitStep(max(fault.Step, j.lastStep()) + 5)
			j.signal(syscall.SIGTERM)
			j.succeed()
			for rank := range 4 {
				checkEnd(t, mustRecord(t, j.dir, rank))
			}
		})
	}
}

// TestCleared: SIGUSR2 ends a fault that would last.
func TestCleared(t *testing.T) {
	j := startFault(t, "gpu-freeze", "")
	awaitRecords(t, j, "the freeze", func(r []*record) error {
		if openSteps(r[1], false)[recvGPUWait] == 0 {
			return errors.New("not frozen")
		}
		return nil
	})
	if err := syscall.Kill(j.pid(faultRank), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	j.awaitStep(j.lastStep() + 5)
	j.signal(syscall.SIGTERM)
	j.succeed()
}

// TestTriggers: faults begin at their step or time by themselves, on one rank or all.
func TestTriggers(t *testing.T) {
	j := start(t, spec{flags: "--steps 6 --compute-ms 1 --fault checkpoint=0.1:rank=all:step=1:every=2 --fault first-step=0.1:rank=1 --fault gpu-slow=2:rank=0:after=0.05:for=0.05"})
	j.succeed()
	got := map[string]int{}
	for _, e := range j.copyEvents() {
		if e.Event == "fault" {
			got[fmt.Sprintf("%s of %d in %d", e.Kind, e.Rank, e.Step)]++
		}
	}
	for _, want := range []string{
		"first-step of 1 in 0", "checkpoint of 0 in 1", "checkpoint of 1 in 1", "checkpoint of 0 in 3", "checkpoint of 1 in 5",
	} {
		if got[want] != 1 {
			t.Errorf("%d times %q in %v", got[want], want, got)
		}
	}
	slow := 0
	for _, e := range j.copyEvents() {
		if e.Kind == "gpu-slow" {
			slow++
		}
	}
	if slow != 3 {
		t.Errorf("%d events of gpu-slow, want trigger, fault and end", slow)
	}
}

// TestLinkOfOnePeer: a stall may hit one peer and one channel only.
func TestLinkOfOnePeer(t *testing.T) {
	j := startFault(t, "link-stall:peer=2:channel=1", "--channels 2")
	awaitRecords(t, j, "a transfer that stays undelivered on channel 1", func(r []*record) error {
		stuck := 0
		for _, s := range r[1].of("ProxyStep", "dp") {
			if s.live() && s.reached(sendWait) {
				if s.parent.num("channel") != 1 || s.parent.num("peer") != 2 {
					return fmt.Errorf("stuck on channel %s to %s", s.parent.field["channel"], s.parent.field["peer"])
				}
				stuck++
			}
		}
		if stuck == 0 {
			return errors.New("nothing is stuck")
		}
		return nil
	})
	hangs(t, j, 4)
}

// TestSocketSemantics: over sockets a send is accepted and done although nobody has posted a receive.
func TestSocketSemantics(t *testing.T) {
	j := startFault(t, "op-not-entered", "--net socket")
	awaitRecords(t, j, "peers in an operation that rank 1 has not called", func(r []*record) error {
		if colls(r[0]) != colls(r[1])+1 {
			return errors.New("not there yet")
		}
		ops := r[0].of("ProxyOp", "dp")
		done := 0
		for _, op := range ops[len(ops)-4:] {
			for _, step := range op.children {
				if op.num("send") == 1 && !step.live() {
					done++
					if step.count(sendPeerWait) != 1 {
						return fmt.Errorf("a send was offered %d times", step.count(sendPeerWait))
					}
				}
			}
		}
		if done == 0 {
			return errors.New("nothing was sent")
		}
		return nil
	})
	hangs(t, j, 4)
}
