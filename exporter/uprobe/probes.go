// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sync/errgroup"
)

// probes are the kernel's half: programs that are loaded once and attached to processes.
type probes struct {
	objects  kernelObjects
	together bool // All functions of a process at once.
	reader   *ringbuf.Reader
	record   ringbuf.Record
}

type kernelObjects struct {
	Enter     *ebpf.Program `ebpf:"enter"`
	Leave     *ebpf.Program `ebpf:"leave"`
	EnterAll  *ebpf.Program `ebpf:"enter_all"`
	LeaveAll  *ebpf.Program `ebpf:"leave_all"`
	Records   *ebpf.Map     `ebpf:"records"`
	Processes *ebpf.Map     `ebpf:"processes"`
}

// kernelProcess is struct process of bpf/calls.bpf.c.
type kernelProcess struct {
	Identity, Called, Children, Unused uint32
	Lost                               uint64
}

// head is struct record, and enter what follows it in struct enter.
type head struct {
	AtNS        uint64
	PID, TID    uint32
	Kind, Leave uint16
	Result      int32
}

type enter struct {
	Comm, Count, Stream, ID          uint64
	Identity                         identity
	Called                           [len(counted)]uint64
	Datatype, Peer, NRanks, Children int32
}

// loadProbes loads the programs. It takes CAP_BPF and CAP_PERFMON, or root, and Linux 5.15.
func loadProbes() (*probes, error) {
	// Kernels before 5.11 count maps against the limit of locked memory. Where it cannot be raised, loading tells.
	_ = rlimit.RemoveMemlock()
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("reading the probes' object: %w", err)
	}
	p := &probes{}
	version, err := features.LinuxVersionCode()
	if err != nil {
		return nil, fmt.Errorf("finding the kernel's version: %w", err)
	}
	// Before 6.10 probes of many functions went by thread where they should go by process.
	if p.together = version >= 6<<16|10<<8; !p.together {
		for _, name := range []string{"enter_all", "leave_all"} {
			spec.Programs[name].AttachType = ebpf.AttachNone
		}
	}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("loading probes into the kernel: %w", err)
	}
	if p.reader, err = ringbuf.NewReader(p.objects.Records); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the ring of records: %w", err), p.close())
	}
	return p, nil
}

func (p *probes) close() error {
	errs := []error{
		p.objects.Enter.Close(), p.objects.Leave.Close(), p.objects.EnterAll.Close(), p.objects.LeaveAll.Close(),
		p.objects.Processes.Close(), p.objects.Records.Close(),
	}
	if p.reader != nil {
		errs = append(errs, p.reader.Close())
	}
	return errors.Join(errs...)
}

// attach probes a process's functions. What it gives detaches when closed; if this process dies, the kernel detaches.
func (p *probes) attach(pid int, l *library) (*attached, error) {
	a := &attached{pid: uint32(pid), processes: p.objects.Processes}
	k := kernelProcess{}
	if l.comm != nil {
		k.Identity, k.Called, k.Children = uint32(l.comm.identity), uint32(l.comm.called), uint32(l.comm.children)
	}
	if err := p.objects.Processes.Put(a.pid, k); err != nil {
		return nil, fmt.Errorf("adding process %d to those followed: %w", pid, err)
	}
	file, err := link.OpenExecutable(l.path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", l.path, err), a.close())
	}
	add := p.each
	if p.together {
		add = p.all
	}
	if a.links, err = add(file, pid, l); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// all probes all functions at once. The returns first: a call that is seen to begin is seen to end.
func (p *probes) all(file *link.Executable, pid int, l *library) ([]link.Link, error) {
	at := &link.UprobeMultiOptions{PID: uint32(pid)}
	for _, f := range l.functions {
		at.Addresses = append(at.Addresses, f.offset)
		at.Cookies = append(at.Cookies, functions[f.kind].cookie(f.kind))
	}
	leave, err := file.UretprobeMulti(nil, p.objects.LeaveAll, at)
	if err != nil {
		return nil, fmt.Errorf("probing the returns of NCCL's functions in process %d: %w", pid, err)
	}
	enter, err := file.UprobeMulti(nil, p.objects.EnterAll, at)
	if err != nil {
		return []link.Link{leave}, fmt.Errorf("probing NCCL's functions in process %d: %w", pid, err)
	}
	return []link.Link{leave, enter}, nil
}

// each probes one function after the other, side by side: the kernel waits some ten milliseconds for each.
func (p *probes) each(file *link.Executable, pid int, l *library) ([]link.Link, error) {
	var group errgroup.Group
	links := make([]link.Link, 2*len(l.functions))
	for i, f := range l.functions {
		group.Go(func() (err error) {
			at := &link.UprobeOptions{Address: f.offset, PID: pid, Cookie: functions[f.kind].cookie(f.kind)}
			name := functions[f.kind].name
			if links[2*i], err = file.Uretprobe(name, p.objects.Leave, at); err == nil {
				links[2*i+1], err = file.Uprobe(name, p.objects.Enter, at)
			}
			if err != nil {
				return fmt.Errorf("probing %s in process %d: %w", name, pid, err)
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(links, func(l link.Link) bool { return l == nil }), err
}

// attached are the probes of one process.
type attached struct {
	pid       uint32
	links     []link.Link
	processes *ebpf.Map
}

func (a *attached) close() error {
	var group errgroup.Group
	for _, l := range a.links {
		group.Go(l.Close)
	}
	a.links = nil
	errs := []error{group.Wait()}
	if err := a.processes.Delete(a.pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lost counts the records of the process that found no room.
func (a *attached) lost() uint64 {
	var k kernelProcess
	if err := a.processes.Lookup(a.pid, &k); err != nil {
		return 0
	}
	return k.Lost
}

// read passes on the records that are there, oldest first.
func (p *probes) read(each func(*head, *enter)) error {
	p.reader.SetDeadline(time.Now())
	for {
		if err := p.reader.ReadInto(&p.record); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return fmt.Errorf("reading records: %w", err)
		}
		h, e, ok := parse(p.record.RawSample)
		if ok {
			each(&h, e)
		}
	}
}

// parse reads one record; e is nil for a return.
func parse(b []byte) (h head, e *enter, ok bool) {
	n, err := binary.Decode(b, binary.LittleEndian, &h)
	if err != nil || int(h.Kind) >= len(functions) {
		return h, nil, false
	}
	if h.Leave != 0 {
		return h, nil, true
	}
	e = &enter{}
	_, err = binary.Decode(b[n:], binary.LittleEndian, e)
	return h, e, err == nil
}
