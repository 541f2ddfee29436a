// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/trace/internal/wire"
)

const header = "../ncclshim/culprit_trace.h"

// layouts pairs each C struct with its Go mirror.
var layouts = []struct {
	c      string
	mirror any
}{
	{"culprit_section", wire.Section{}},
	{"culprit_header", wire.Header{}},
	{"culprit_comm", wire.Comm{}},
	{"culprit_op", wire.Op{}},
	{"culprit_flow", wire.Flow{}},
	{"culprit_direction", wire.Direction{}},
	{"culprit_completion", wire.Completion{}},
	{"culprit_lifecycle", wire.Lifecycle{}},
	{"culprit_qp", wire.QP{}},
	{"culprit_transfer", wire.Transfer{}},
}

// constants pairs C constants with Go values.
var constants = map[string]uint64{
	"CULPRIT_TRACE_MAJOR":              wire.Major,
	"CULPRIT_TRACE_MINOR":              wire.Minor,
	"CULPRIT_MAX_SECTIONS":             wire.MaxSections,
	"CULPRIT_MAX_CHANNELS":             wire.MaxChannels,
	"CULPRIT_EPOCH_NS":                 wire.EpochNS,
	"CULPRIT_PROBE_NS":                 wire.ProbeNS,
	"CULPRIT_SECTION_COMMS":            wire.SectionComms,
	"CULPRIT_SECTION_OPS":              wire.SectionOps,
	"CULPRIT_SECTION_FLOWS":            wire.SectionFlows,
	"CULPRIT_SECTION_COMPLETIONS":      wire.SectionCompletions,
	"CULPRIT_SECTION_LIFECYCLE":        wire.SectionLifecycle,
	"CULPRIT_SECTION_QPS":              wire.SectionQPs,
	"CULPRIT_SECTION_TRANSFERS":        wire.SectionTransfers,
	"CULPRIT_FUNC_UNKNOWN":             uint64(FuncUnknown),
	"CULPRIT_FUNC_ALLGATHER":           uint64(AllGather),
	"CULPRIT_FUNC_ALLREDUCE":           uint64(AllReduce),
	"CULPRIT_FUNC_ALLTOALL":            uint64(AllToAll),
	"CULPRIT_FUNC_BROADCAST":           uint64(Broadcast),
	"CULPRIT_FUNC_GATHER":              uint64(Gather),
	"CULPRIT_FUNC_REDUCE":              uint64(Reduce),
	"CULPRIT_FUNC_REDUCESCATTER":       uint64(ReduceScatter),
	"CULPRIT_FUNC_SCATTER":             uint64(Scatter),
	"CULPRIT_FUNC_SEND":                uint64(Send),
	"CULPRIT_FUNC_RECV":                uint64(Recv),
	"CULPRIT_FUNC_COUNT":               NumFunc,
	"CULPRIT_ALGO_UNKNOWN":             uint64(AlgoUnknown),
	"CULPRIT_ALGO_TREE":                uint64(AlgoTree),
	"CULPRIT_ALGO_RING":                uint64(AlgoRing),
	"CULPRIT_ALGO_COLLNET_DIRECT":      uint64(AlgoCollNetDirect),
	"CULPRIT_ALGO_COLLNET_CHAIN":       uint64(AlgoCollNetChain),
	"CULPRIT_ALGO_NVLS":                uint64(AlgoNVLS),
	"CULPRIT_ALGO_NVLS_TREE":           uint64(AlgoNVLSTree),
	"CULPRIT_ALGO_PAT":                 uint64(AlgoPAT),
	"CULPRIT_PROTO_UNKNOWN":            uint64(ProtoUnknown),
	"CULPRIT_PROTO_LL":                 uint64(ProtoLL),
	"CULPRIT_PROTO_LL128":              uint64(ProtoLL128),
	"CULPRIT_PROTO_SIMPLE":             uint64(ProtoSimple),
	"CULPRIT_FLOW_IDLE":                uint64(FlowIdle),
	"CULPRIT_FLOW_QUEUED":              uint64(FlowQueued),
	"CULPRIT_FLOW_SEND_GPU":            uint64(FlowSendGPU),
	"CULPRIT_FLOW_SEND_PEER":           uint64(FlowSendPeer),
	"CULPRIT_FLOW_SEND_NET":            uint64(FlowSendNet),
	"CULPRIT_FLOW_RECV_NET":            uint64(FlowRecvNet),
	"CULPRIT_FLOW_RECV_FLUSH":          uint64(FlowRecvFlush),
	"CULPRIT_FLOW_RECV_GPU":            uint64(FlowRecvGPU),
	"CULPRIT_FLOW_BETWEEN":             uint64(FlowBetween),
	"CULPRIT_OP_CALLED":                uint64(OpCalled),
	"CULPRIT_OP_ENQUEUED":              uint64(OpEnqueued),
	"CULPRIT_OP_ENTERED":               uint64(OpEntered),
	"CULPRIT_OP_MOVING":                uint64(OpMoving),
	"CULPRIT_OP_LEFT":                  uint64(OpLeft),
	"CULPRIT_OP_P2P":                   uint64(OpP2P),
	"CULPRIT_OP_BARRIER":               uint64(OpBarrier),
	"CULPRIT_OP_GRAPH":                 uint64(OpGraph),
	"CULPRIT_OP_NO_COMPLETION":         uint64(OpNoCompletion),
	"CULPRIT_OP_PROXY_UNRELIABLE":      uint64(OpProxyUnreliable),
	"CULPRIT_OP_KERNEL_UNTRUSTED":      uint64(OpKernelUntrusted),
	"CULPRIT_OP_ABANDONED":             uint64(OpAbandoned),
	"CULPRIT_OP_LEFT_INFERRED":         uint64(OpLeftInferred),
	"CULPRIT_OP_HIDDEN":                uint64(OpHidden),
	"CULPRIT_OP_END_UNSEEN":            uint64(OpEndUnseen),
	"CULPRIT_COMM_KERNEL_UNTRUSTED":    uint64(CommKernelUntrusted),
	"CULPRIT_COMM_HAS_KERNELCH":        uint64(CommHasKernelCh),
	"CULPRIT_COMM_HAS_PROXY":           uint64(CommHasProxy),
	"CULPRIT_COMM_HAS_API":             uint64(CommHasAPI),
	"CULPRIT_COMM_FOREIGN_PROXY":       uint64(CommForeignProxy),
	"CULPRIT_COMM_FINALIZED":           uint64(CommFinalized),
	"CULPRIT_COMM_HIDES_OPS":           uint64(CommHidesOps),
	"CULPRIT_CAP_COMM_IDENTITY":        CapCommIdentity,
	"CULPRIT_CAP_API_EVENTS":           CapAPIEvents,
	"CULPRIT_CAP_PROXY_STEPS":          CapProxySteps,
	"CULPRIT_CAP_PEER_WAIT":            CapPeerWait,
	"CULPRIT_CAP_KERNEL_CH":            CapKernelCh,
	"CULPRIT_CAP_KERNEL_TIMER":         CapKernelTimer,
	"CULPRIT_CAP_QPS":                  CapQPs,
	"CULPRIT_CAP_COMPLETION":           CapCompletion,
	"CULPRIT_CAP_P2P_CHANNELS":         CapP2PChannels,
	"CULPRIT_LIFE_PROCESS_START":       uint64(LifeProcessStart),
	"CULPRIT_LIFE_PROCESS_END":         uint64(LifeProcessEnd),
	"CULPRIT_LIFE_COMM_CREATED":        uint64(LifeCommCreated),
	"CULPRIT_LIFE_COMM_DESTROYED":      uint64(LifeCommDestroyed),
	"CULPRIT_LIFE_DROPPED":             uint64(LifeDropped),
	"CULPRIT_LIFE_DISTRUST":            uint64(LifeDistrust),
	"CULPRIT_LIFE_MASK_CHANGED":        uint64(LifeMaskChanged),
	"CULPRIT_LIFE_FORK":                uint64(LifeFork),
	"CULPRIT_LIFE_CALL_BEGIN":          uint64(LifeCallBegin),
	"CULPRIT_LIFE_CALL_END":            uint64(LifeCallEnd),
	"sizeof(CULPRIT_TRACE_MAGIC)":      8,
	"sizeof(CULPRIT_TRACE_SUFFIX) - 1": uint64(len(Suffix)),
}

// TestLayoutMatchesC compiles the C header and compares the offset and size of every field, the size of every struct
// and the value of every constant with what this package declares.
func TestLayoutMatchesC(t *testing.T) {
	var program, want bytes.Buffer
	fmt.Fprintf(&program, "#include <stdio.h>\n#include \"culprit_trace.h\"\nint main(void) {\n")
	for _, l := range layouts {
		typ := reflect.TypeOf(l.mirror)
		for f := range typ.Fields() {
			field := f.Tag.Get("c")
			fmt.Fprintf(&program, "  printf(\"%s.%s %%zu %%zu\\n\", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s));\n", l.c, field, l.c, field, l.c, field)
			fmt.Fprintf(&want, "%s.%s %d %d\n", l.c, field, f.Offset, f.Type.Size())
		}
		fmt.Fprintf(&program, "  printf(\"%s %%zu\\n\", sizeof(struct %s));\n", l.c, l.c)
		fmt.Fprintf(&want, "%s %d\n", l.c, typ.Size())
	}
	for name, value := range constants {
		fmt.Fprintf(&program, "  printf(\"%s %%llu\\n\", (unsigned long long)(%s));\n", name, name)
		fmt.Fprintf(&want, "%s %d\n", name, value)
	}
	fmt.Fprintf(&program, "  return 0;\n}\n")

	dir := t.TempDir()
	source, binary := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, program.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	include, err := filepath.Abs(filepath.Dir(header))
	if err != nil {
		t.Fatal(err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if out, err := exec.Command(compiler, "-std=c11", "-I", include, "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("compiling against %s (a C compiler is required): %v\n%s", header, err, out)
	}
	got, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatalf("running the layout program: %v", err)
	}
	if diff := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("layout differs from C (-Go +C):\n%s", diff)
	}
}

// TestLayoutIsComplete finds constants and structs of the header that this package does not know.
func TestLayoutIsComplete(t *testing.T) {
	source, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	structs := map[string]bool{}
	for _, l := range layouts {
		structs[l.c] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^struct (\w+) \{`).FindAllStringSubmatch(string(source), -1) {
		if !structs[m[1]] {
			t.Errorf("struct %s has no mirror in package wire", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:#define |  )(CULPRIT_\w+)(?: =| [\d(])`).FindAllStringSubmatch(string(source), -1) {
		if _, ok := constants[m[1]]; !ok {
			t.Errorf("constant %s is not compared", m[1])
		}
	}
}

// TestMirrorsHaveNoPadding makes sure that equal sizes mean equal fields: a field missing in Go would leave a hole.
func TestMirrorsHaveNoPadding(t *testing.T) {
	for _, l := range layouts {
		typ := reflect.TypeOf(l.mirror)
		end := uintptr(0)
		for f := range typ.Fields() {
			if f.Offset != end {
				t.Errorf("%s: hole before %s at %d, fields end at %d", l.c, f.Name, f.Offset, end)
			}
			end = f.Offset + f.Type.Size()
		}
		if end != typ.Size() {
			t.Errorf("%s: %d bytes of padding at the end", l.c, typ.Size()-end)
		}
	}
}

// TestCompletionLayout holds Completion to the record in the file: it is read as it lies there.
func TestCompletionLayout(t *testing.T) {
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[wire.Completion](), reflect.TypeFor[Completion]()},
		{reflect.TypeFor[wire.Direction](), reflect.TypeFor[Direction]()},
	} {
		file, own := pair[0], pair[1]
		if file.NumField() != own.NumField() || file.Size() != own.Size() {
			t.Fatalf("%v has %d fields and %d bytes, %v %d and %d", file, file.NumField(), file.Size(), own, own.NumField(), own.Size())
		}
		for i := range file.NumField() {
			a, b := file.Field(i), own.Field(i)
			if a.Name != b.Name || a.Offset != b.Offset || a.Type.Kind() != b.Type.Kind() || a.Type.Size() != b.Type.Size() {
				t.Errorf("field %d is %s %v at %d in the file, and %s %v at %d", i, a.Name, a.Type, a.Offset, b.Name, b.Type, b.Offset)
			}
		}
	}
}
