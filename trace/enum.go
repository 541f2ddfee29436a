// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"slices"
)

// NumFunc is the length of the per-function tables (CULPRIT_FUNC_COUNT).
const NumFunc = 16

// Func is the kind of an operation (enum culprit_func).
type Func uint16

// Kinds of operation.
const (
	FuncUnknown Func = iota
	AllGather
	AllReduce
	AllToAll
	Broadcast
	Gather
	Reduce
	ReduceScatter
	Scatter
	Send
	Recv
)

var funcNames = []string{
	"Unknown", "AllGather", "AllReduce", "AlltoAll", "Broadcast", "Gather", "Reduce",
	"ReduceScatter", "Scatter", "Send", "Recv",
}

func (f Func) String() string                { return enumName(funcNames, f) }
func (f Func) MarshalText() ([]byte, error)  { return []byte(f.String()), nil }
func (f *Func) UnmarshalText(b []byte) error { return enumParse(funcNames, f, b) }

// Algo is NCCL's algorithm (enum culprit_algo).
type Algo uint16

// Algorithms.
const (
	AlgoUnknown Algo = iota
	AlgoTree
	AlgoRing
	AlgoCollNetDirect
	AlgoCollNetChain
	AlgoNVLS
	AlgoNVLSTree
	AlgoPAT
)

var algoNames = []string{"unknown", "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}

func (a Algo) String() string                { return enumName(algoNames, a) }
func (a Algo) MarshalText() ([]byte, error)  { return []byte(a.String()), nil }
func (a *Algo) UnmarshalText(b []byte) error { return enumParse(algoNames, a, b) }

// Proto is NCCL's protocol (enum culprit_proto).
type Proto uint16

// Protocols.
const (
	ProtoUnknown Proto = iota
	ProtoLL
	ProtoLL128
	ProtoSimple
)

var protoNames = []string{"unknown", "ll", "ll128", "simple"}

func (p Proto) String() string                { return enumName(protoNames, p) }
func (p Proto) MarshalText() ([]byte, error)  { return []byte(p.String()), nil }
func (p *Proto) UnmarshalText(b []byte) error { return enumParse(protoNames, p, b) }

// FlowState is what the head step of a flow waits for (enum culprit_flow_state).
type FlowState uint8

// Flow states.
const (
	FlowIdle FlowState = iota
	FlowQueued
	FlowSendGPU
	FlowSendPeer
	FlowSendNet
	FlowRecvNet
	FlowRecvFlush
	FlowRecvGPU
	FlowBetween
)

var flowStateNames = []string{
	"idle", "queued", "send_gpu", "send_peer", "send_net", "recv_net", "recv_flush", "recv_gpu", "between",
}

func (s FlowState) String() string                { return enumName(flowStateNames, s) }
func (s FlowState) MarshalText() ([]byte, error)  { return []byte(s.String()), nil }
func (s *FlowState) UnmarshalText(b []byte) error { return enumParse(flowStateNames, s, b) }

// OpState is how far an operation has come (enum culprit_op_state).
type OpState uint32

// Operation states.
const (
	OpUnknown OpState = iota
	OpCalled
	OpEnqueued
	OpEntered
	OpMoving
	OpLeft
)

var opStateNames = []string{"unknown", "called", "enqueued", "entered", "moving", "left"}

func (s OpState) String() string                { return enumName(opStateNames, s) }
func (s OpState) MarshalText() ([]byte, error)  { return []byte(s.String()), nil }
func (s *OpState) UnmarshalText(b []byte) error { return enumParse(opStateNames, s, b) }

// LifecycleKind says what happened (enum culprit_lifecycle_kind).
type LifecycleKind uint32

// Lifecycle kinds.
const (
	LifeUnknown LifecycleKind = iota
	LifeProcessStart
	LifeProcessEnd
	LifeCommCreated
	LifeCommDestroyed
	LifeDropped
	LifeDistrust
	LifeMaskChanged
	LifeFork
	LifeCallBegin
	LifeCallEnd
)

var lifecycleNames = []string{
	"unknown", "process_start", "process_end", "comm_created", "comm_destroyed", "dropped",
	"distrust", "mask_changed", "fork", "call_begin", "call_end",
}

func (k LifecycleKind) String() string                { return enumName(lifecycleNames, k) }
func (k LifecycleKind) MarshalText() ([]byte, error)  { return []byte(k.String()), nil }
func (k *LifecycleKind) UnmarshalText(b []byte) error { return enumParse(lifecycleNames, k, b) }

// OpFlags are the CULPRIT_OP_* bits.
type OpFlags uint32

// Operation flags.
const (
	OpP2P OpFlags = 1 << iota
	OpBarrier
	OpGraph
	OpNoCompletion
	OpProxyUnreliable
	OpKernelUntrusted
	OpAbandoned
	OpLeftInferred
	OpHidden    // The call has returned and no launch was reported: whether it runs is not seen.
	OpEndUnseen // Let go because later ones came: nothing says that it has ended.
)

// CommFlags are the CULPRIT_COMM_* bits.
type CommFlags uint32

// Communicator flags.
const (
	CommKernelUntrusted CommFlags = 1 << iota
	CommHasKernelCh
	CommHasProxy
	CommHasAPI
	CommForeignProxy
	CommFinalized
	CommHidesOps // Some operation was OpHidden: nothing in flight does not mean nothing running.
)

// Capabilities (CULPRIT_CAP_*): a cleared bit means the absence of such data is no evidence.
const (
	CapCommIdentity uint64 = 1 << iota
	CapAPIEvents
	CapProxySteps
	CapPeerWait
	CapKernelCh
	CapKernelTimer
	CapQPs
	CapCompletion
	CapP2PChannels
)

type enum interface{ ~uint8 | ~uint16 | ~uint32 }

func enumName[E enum](names []string, v E) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", names[0], uint32(v))
}

// enumParse reads a name back; one from a newer writer becomes the zero value rather than an error.
func enumParse[E enum](names []string, v *E, b []byte) error {
	*v = E(max(0, slices.Index(names, string(b))))
	return nil
}
