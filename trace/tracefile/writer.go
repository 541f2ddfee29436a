// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracefile writes trace files as the shim does, with its seqlocks and tickets: for the exporter, which writes one for a
// process that has no shim, and for tests and simulations.
package tracefile

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/internal/wire"
)

// Size is how many entries each section has. Zero fields take Create's defaults.
type Size struct {
	Comms, Ops, Flows, Completions, Lifecycle, QPs, Transfers uint32
}

// DefaultSize is large enough for 16 communicators of 32 channels in two directions.
var DefaultSize = Size{Comms: 32, Ops: 256, Flows: 2048, Completions: 4096, Lifecycle: 256, QPs: 64, Transfers: 1024}

func (s Size) orDefault() Size {
	set := func(v *uint32, d uint32) {
		if *v == 0 {
			*v = d
		}
	}
	set(&s.Comms, DefaultSize.Comms)
	set(&s.Ops, DefaultSize.Ops)
	set(&s.Flows, DefaultSize.Flows)
	set(&s.Completions, DefaultSize.Completions)
	set(&s.Lifecycle, DefaultSize.Lifecycle)
	set(&s.QPs, DefaultSize.QPs)
	set(&s.Transfers, DefaultSize.Transfers)
	return s
}

// Writer writes one trace file in place. It is meant for one goroutine; readers may read meanwhile.
type Writer struct {
	path     string
	data     []byte
	header   *wire.Header
	sections map[uint32]wire.Section
}

// Create makes a finished, empty trace file and its directory.
func Create(path string, id trace.Identity, size Size) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return newWriter(file, id, size)
}

// CreateUnlinked makes one without a name, which is gone when the last descriptor of it is closed. The caller closes the file; the
// writer does not need it.
func CreateUnlinked(id trace.Identity, size Size) (*Writer, *os.File, error) {
	fd, err := unix.MemfdCreate("trace", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("making a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "trace")
	w, err := newWriter(file, id, size)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return w, file, nil
}

func newWriter(file *os.File, id trace.Identity, size Size) (*Writer, error) {
	h, total := newHeader(id, size.orDefault())
	if err := file.Truncate(int64(total)); err != nil {
		return nil, err
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(total), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", file.Name(), err)
	}
	w := &Writer{path: file.Name(), data: data, header: (*wire.Header)(unsafe.Pointer(&data[0])), sections: map[uint32]wire.Section{}}
	for _, s := range h.Sections[:h.SectionCount] {
		w.sections[s.Kind] = s
	}
	magic := h.Magic
	h.Magic = [8]byte{}
	*w.header = h
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&data[0])), *(*uint64)(unsafe.Pointer(&magic)))
	return w, nil
}

func newHeader(id trace.Identity, size Size) (wire.Header, uint64) {
	h := wire.Header{
		VersionMajor: wire.Major, VersionMinor: wire.Minor, HeaderBytes: wire.HeaderBytes, WriterABI: id.WriterABI,
		PID: id.PID, Rank: id.Rank, WorldSize: id.WorldSize, LocalRank: id.LocalRank, NodeRank: id.NodeRank,
		GPUIndex: id.GPUIndex, PIDNamespace: id.PIDNamespace, StartTicks: id.StartTicks, CreatedNS: id.CreatedNS,
		CreatedRealNS: id.CreatedRealNS, Capabilities: id.Capabilities,
	}
	copy(h.Magic[:], wire.Magic)
	for _, s := range []struct {
		dst []byte
		src string
	}{
		{h.BootID[:], id.BootID},
		{h.Hostname[:], id.Hostname},
		{h.ProcessName[:], id.ProcessName},
		{h.JobID[:], id.JobID},
		{h.SlurmJobID[:], id.SlurmJobID},
		{h.SlurmStepID[:], id.SlurmStepID},
		{h.PodName[:], id.PodName},
		{h.PodNamespace[:], id.PodNamespace},
		{h.PodUID[:], id.PodUID},
		{h.ContainerName[:], id.ContainerName},
		{h.GPUUUID[:], id.GPUUUID},
		{h.GPUPCIBusID[:], id.GPUPCIBusID},
		{h.VisibleDevices[:], id.VisibleDevices},
		{h.ShimVersion[:], id.ShimVersion},
		{h.Address[:], id.Address},
	} {
		copy(s.dst[:len(s.dst)-1], s.src)
	}
	offset := uint64(wire.HeaderBytes)
	add := func(kind uint32, entry uintptr, count uint32) {
		h.Sections[h.SectionCount] = wire.Section{Kind: kind, EntryBytes: uint32(entry), Count: count, Offset: offset}
		h.SectionCount++
		bytes := uint64(entry) * uint64(count)
		offset += (bytes + wire.SectionAlign - 1) / wire.SectionAlign * wire.SectionAlign
	}
	add(wire.SectionComms, unsafe.Sizeof(wire.Comm{}), size.Comms)
	add(wire.SectionOps, unsafe.Sizeof(wire.Op{}), size.Ops)
	add(wire.SectionFlows, unsafe.Sizeof(wire.Flow{}), size.Flows)
	add(wire.SectionCompletions, unsafe.Sizeof(wire.Completion{}), size.Completions)
	add(wire.SectionLifecycle, unsafe.Sizeof(wire.Lifecycle{}), size.Lifecycle)
	add(wire.SectionQPs, unsafe.Sizeof(wire.QP{}), size.QPs)
	add(wire.SectionTransfers, unsafe.Sizeof(wire.Transfer{}), size.Transfers)
	h.FileBytes = offset
	return h, offset
}

// Empty gives the bytes of a finished, empty trace file.
func Empty(id trace.Identity, size Size) []byte {
	h, total := newHeader(id, size.orDefault())
	b := make([]byte, total)
	*(*wire.Header)(unsafe.Pointer(&b[0])) = h
	return b
}

// Path is where the file lies.
func (w *Writer) Path() string { return w.path }

// Close unmaps the file and leaves it on disk, as a process that ends does.
func (w *Writer) Close() error { return unix.Munmap(w.data) }

func slotAt[T any](w *Writer, kind, index uint32) *T {
	s := w.sections[kind]
	if index >= s.Count {
		panic(fmt.Sprintf("tracefile: slot %d of %d in section %d", index, s.Count, kind))
	}
	return (*T)(unsafe.Pointer(&w.data[s.Offset+uint64(s.EntryBytes)*uint64(index)]))
}

func storeWords[T any](dst, src *T, from, to uintptr) {
	d := unsafe.Slice((*uint64)(unsafe.Pointer(dst)), unsafe.Sizeof(*dst)/8)
	s := unsafe.Slice((*uint64)(unsafe.Pointer(src)), unsafe.Sizeof(*src)/8)
	for i := from / 8; i < to/8; i++ {
		atomic.StoreUint64(&d[i], s[i])
	}
}

// locked writes a slot under its seqlock. The version and generation share the first word, which goes last.
func locked[T wire.Comm | wire.Op | wire.Flow | wire.QP](slot, value *T, generation uint32) {
	version := (*uint32)(unsafe.Pointer(slot))
	v := atomic.LoadUint32(version)
	atomic.StoreUint32(version, v|1)
	atomic.StoreUint32((*uint32)(unsafe.Add(unsafe.Pointer(slot), 4)), generation)
	storeWords(slot, value, 8, unsafe.Sizeof(*value))
	atomic.StoreUint32(version, (v|1)+1)
}

func raise(high *uint32, index uint32) {
	if atomic.LoadUint32(high) <= index {
		atomic.StoreUint32(high, index+1)
	}
}

// PutComm writes a communicator into its slot (c.Index). A zero generation becomes 1.
func (w *Writer) PutComm(c trace.Comm) {
	v := wire.Comm{
		InUse: 1, Flags: uint32(c.Flags), CommID: uint64(c.ID), NRanks: c.NRanks, Rank: c.Rank, NNodes: c.NNodes,
		ProxyTID: c.ProxyTID, UserTID: c.UserTID, OpsInFlight: c.OpsInFlight, CreatedNS: c.CreatedNS,
		DestroyedNS: c.DestroyedNS, OpsCalled: c.OpsCalled, OpsStarted: c.OpsStarted, OpsCompleted: c.OpsCompleted,
		LastCalledNS: c.LastCalledNS, LastProgressNS: c.LastProgressNS, LastCompletedNS: c.LastCompletedNS,
		SeqStarted: c.SeqStarted, FuncCompleted: c.FuncCompleted, FuncBytes: c.FuncBytes, FuncNS: c.FuncNS,
		OpsUnseen: c.OpsUnseen, Device: c.Device, GPUIndex: c.Device,
	}
	if c.Ended {
		v.InUse = 0
	}
	copy(v.Name[:len(v.Name)-1], c.Name)
	if c.Device >= 0 {
		copy(v.GPUUUID[:], fmt.Sprintf("GPU-%d", c.Device))
	}
	locked(slotAt[wire.Comm](w, wire.SectionComms, c.Index), &v, max(c.Generation, 1))
	raise(&w.header.CommsHigh, c.Index)
}

// PutOp writes an operation in flight into its slot (op.Index).
func (w *Writer) PutOp(op trace.Op) {
	v := wire.Op{
		InUse: 1, Flags: uint32(op.Flags), CommIndex: op.CommIndex, CommGeneration: op.CommGeneration, Number: op.Number,
		Seq: op.Seq, Func: uint16(op.Func), Algo: uint16(op.Algo), Proto: uint16(op.Proto), DatatypeBytes: op.DatatypeBytes,
		Count: op.Count, Bytes: op.Bytes, Peer: op.Peer, Root: op.Root, Channels: op.Channels, State: uint32(op.State),
		CalledNS: op.CalledNS, EnqueuedNS: op.EnqueuedNS, EnteredNS: op.EnteredNS, FirstStepNS: op.FirstStepNS,
		LastProgressNS: op.LastProgressNS, LeftNS: op.LeftNS, KernelStarted: op.KernelStarted, KernelStopped: op.KernelStopped,
		ProxyStarted: op.ProxyStarted, ProxyStopped: op.ProxyStopped, UserTID: op.UserTID, GroupOrdinal: op.GroupOrdinal, GPUReadyNS: op.GPUReadyNS,
	}
	copy(v.Datatype[:len(v.Datatype)-1], op.Datatype)
	locked(slotAt[wire.Op](w, wire.SectionOps, op.Index), &v, max(op.Generation, 1))
	raise(&w.header.OpsHigh, op.Index)
}

// FreeOp gives an operation's slot back.
func (w *Writer) FreeOp(index uint32) {
	slot := slotAt[wire.Op](w, wire.SectionOps, index)
	locked(slot, &wire.Op{}, slot.Generation)
}

// PutFlow writes a flow into its slot (f.Index).
func (w *Writer) PutFlow(f trace.Flow) {
	v := wire.Flow{
		InUse: 1, CommIndex: f.CommIndex, CommGeneration: f.CommGeneration, Channel: f.Channel, State: uint8(f.State),
		Peer: f.Peer, OpIndex: f.OpIndex, OpGeneration: f.OpGeneration, Queued: f.Queued, OpNumber: f.OpNumber,
		OpSeq: f.OpSeq, Func: uint16(f.Func), StepsTotal: f.StepsTotal, Posted: f.Posted, Ready: f.Ready,
		Transmitted: f.Transmitted, Done: f.Done, PeerPolls: f.PeerPolls, Epochs: f.Epochs, OpStartedNS: f.OpStartedNS,
		FirstStepNS: f.FirstStepNS, StateSinceNS: f.StateSinceNS, LastProgressNS: f.LastProgressNS, Bytes: f.Bytes,
		WaitNS: f.WaitNS, ActiveNS: f.ActiveNS, LargestGapNS: f.LargestGapNS, TotalOps: f.TotalOps,
		TotalPosted: f.TotalPosted, TotalReady: f.TotalReady, TotalTransmitted: f.TotalTransmitted, TotalDone: f.TotalDone,
		TotalBytes: f.TotalBytes, TotalWaitNS: f.TotalWaitNS, TotalActiveNS: f.TotalActiveNS, TotalEpochs: f.TotalEpochs,
	}
	if f.IsSend {
		v.IsSend = 1
	}
	locked(slotAt[wire.Flow](w, wire.SectionFlows, f.Index), &v, max(f.Generation, 1))
	raise(&w.header.FlowsHigh, f.Index)
}

// FreeFlow gives a flow's slot back.
func (w *Writer) FreeFlow(index uint32) {
	slot := slotAt[wire.Flow](w, wire.SectionFlows, index)
	locked(slot, &wire.Flow{}, slot.Generation)
}

// HoldFlow leaves a flow's slot as a writer does that dies in the middle of a write.
func (w *Writer) HoldFlow(index uint32) {
	version := &slotAt[wire.Flow](w, wire.SectionFlows, index).Version
	atomic.StoreUint32(version, *version|1)
}

// PutQP writes a queue pair into its slot (q.Index).
func (w *Writer) PutQP(q trace.QP) {
	v := wire.QP{
		InUse: 1, QPNum: q.QPNum, DestQPNum: q.DestQPNum, CommIndex: index(q.CommIndex), CommGeneration: q.CommGeneration,
		FlowIndex: index(q.FlowIndex), FlowGeneration: q.FlowGeneration, Peer: q.Peer, Port: q.Port, DestLID: q.DestLID,
		GIDIndex: q.GIDIndex, State: q.State, CreatedNS: q.CreatedNS, ConnectedNS: q.ConnectedNS, LastPostNS: q.LastPostNS,
		LastCompletionNS: q.LastCompletionNS, SendsPosted: q.SendsPosted, SendsCompleted: q.SendsCompleted, SendBytes: q.SendBytes,
		ReceivesPosted: q.ReceivesPosted, ReceivesCompleted: q.ReceivesCompleted, Errors: q.Errors, LastError: q.LastError,
		Epochs: q.Epochs, ActiveNS: q.ActiveNS,
	}
	copy(v.Device[:len(v.Device)-1], q.Device)
	if a, err := netip.ParseAddr(q.Remote); err == nil {
		v.RemoteGID = a.As16()
	}
	locked(slotAt[wire.QP](w, wire.SectionQPs, q.Index), &v, max(q.Generation, 1))
	raise(&w.header.QPsHigh, q.Index)
}

// index writes an index that may be missing.
func index(i int64) uint32 {
	if i < 0 {
		return wire.None
	}
	return uint32(i)
}

// Transferred appends a finished transfer to the ring and gives its ticket.
func (w *Writer) Transferred(t trace.Transfer) uint64 {
	v := wire.Transfer(t)
	return appendRecord(w, wire.SectionTransfers, &w.header.TransfersHead, &v, true)
}

// Complete appends a finished operation to the ring and gives its ticket.
func (w *Writer) Complete(c trace.Completion) uint64 {
	v := wire.Completion{
		CommID: uint64(c.CommID), CommIndex: c.CommIndex, CommGeneration: c.CommGeneration, NRanks: c.NRanks, Rank: c.Rank,
		Number: c.Number, Seq: c.Seq, Func: uint16(c.Func), Algo: uint16(c.Algo), Proto: uint16(c.Proto),
		DatatypeBytes: c.DatatypeBytes, Count: c.Count, Bytes: c.Bytes, Peer: c.Peer, Root: c.Root, Channels: c.Channels,
		Flags: uint32(c.Flags), CalledNS: c.CalledNS, EnqueuedNS: c.EnqueuedNS, EnteredNS: c.EnteredNS, LeftNS: c.LeftNS,
		GPUNS: c.GPUNS, Send: direction(c.Send), Recv: direction(c.Recv), GPUReadyNS: c.GPUReadyNS,
		SendProbes: c.SendProbes, RecvProbes: c.RecvProbes, GroupOrdinal: c.GroupOrdinal, SendQP: c.SendQP,
	}
	return appendRecord(w, wire.SectionCompletions, &w.header.CompletionsHead, &v, true)
}

// BeginCompletion begins a ring record and never finishes it, as a writer does that dies.
func (w *Writer) BeginCompletion() {
	appendRecord(w, wire.SectionCompletions, &w.header.CompletionsHead, &wire.Completion{}, false)
}

// Live appends a lifecycle event and gives its ticket.
func (w *Writer) Live(ev trace.LifecycleEvent) uint64 {
	v := wire.Lifecycle{AtNS: ev.AtNS, Kind: uint32(ev.Kind), CommIndex: index(ev.CommIndex), CommID: uint64(ev.CommID), Arg0: ev.Arg0}
	copy(v.Text[:len(v.Text)-1], ev.Text)
	return appendRecord(w, wire.SectionLifecycle, &w.header.LifecycleHead, &v, true)
}

func appendRecord[T wire.Completion | wire.Lifecycle | wire.Transfer](w *Writer, kind uint32, head *uint64, v *T, finish bool) uint64 {
	number := atomic.AddUint64(head, 1) - 1
	slot := slotAt[T](w, kind, uint32(number%uint64(w.sections[kind].Count)))
	ticket := (*uint64)(unsafe.Pointer(slot))
	atomic.StoreUint64(ticket, 0)
	if finish {
		storeWords(slot, v, 8, unsafe.Sizeof(*v))
		atomic.StoreUint64(ticket, number+1)
	}
	return number + 1
}

func direction(d trace.Direction) wire.Direction {
	return wire.Direction{
		Flows: d.Flows, Steps: d.Steps, Bytes: d.Bytes, WaitNS: d.WaitNS, ActiveNS: d.ActiveNS, LargestGapNS: d.LargestGapNS,
		FirstStepNS: d.FirstStepNS, LastStepNS: d.LastStepNS, SlowestChannel: d.SlowestChannel, SlowestPeer: d.SlowestPeer,
		SlowestNS: d.SlowestNS, FastestNS: d.FastestNS,
	}
}

// SetStatus writes the header's live counters; ring heads are the writer's own and stay.
func (w *Writer) SetStatus(s trace.Status) {
	h := w.header
	for _, v := range []struct {
		dst *uint64
		src uint64
	}{
		{&h.EventMask, s.EventMask},
		{&h.HeartbeatNS, s.HeartbeatNS},
		{&h.RealMinusMonoNS, s.RealMinusMonoNS},
		{&h.ClosedNS, s.ClosedNS},
		{&h.GroupOpenSinceNS, s.GroupOpenSinceNS},
		{&h.GroupCount, s.GroupCount},
		{&h.DroppedComms, s.DroppedComms},
		{&h.DroppedOps, s.DroppedOps},
		{&h.DroppedFlows, s.DroppedFlows},
		{&h.ContendedEvents, s.ContendedEvents},
		{&h.ForeignEvents, s.ForeignEvents},
		{&h.StaleEvents, s.StaleEvents},
		{&h.RepeatedEvents, s.RepeatedEvents},
		{&h.Callbacks, s.Callbacks},
	} {
		atomic.StoreUint64(v.dst, v.src)
	}
}
