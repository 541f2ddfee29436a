// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ints(ns ...int64) *List {
	l := &List{}
	for _, n := range ns {
		l.Items = append(l.Items, n)
	}
	return l
}

func pow(base, exp, sign int64) *big.Int {
	n := new(big.Int).Exp(big.NewInt(base), big.NewInt(exp), nil)
	return n.Mul(n, big.NewInt(sign))
}

func TestDecodePlain(t *testing.T) {
	for p := range 6 {
		t.Run(fmt.Sprint("protocol ", p), func(t *testing.T) {
			data := read(t, fmt.Sprintf("plain%d.pkl", p))
			if !Sniff(data) {
				t.Error("not recognised")
			}
			res, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if res.Size != len(data) || len(res.Refused) != 0 {
				t.Errorf("size %d of %d, refused %v", res.Size, len(data), res.Refused)
			}
			d := res.Value.(*Dict)
			if d.Len() != 12 {
				t.Errorf("%d keys", d.Len())
			}
			integers := ints(0, 255, 65535, -1, math.MaxInt32, math.MinInt32, 1<<40, -1<<40, math.MaxInt64, math.MinInt64)
			integers.Items = append(integers.Items, pow(2, 70, 1), pow(2, 70, -1))
			want := map[string]any{
				"none":   nil,
				"bools":  &List{Items: []any{true, false}},
				"ints":   integers,
				"floats": &List{Items: []any{0.5, -1e300, math.Inf(1)}},
				"text":   &List{Items: []any{"", "plain", "übergroß \U0001f600", "line\nquote'\\"}},
				"bytes":  []byte("\x00\xff raw"),
				"tuple":  Tuple{int64(1)},
			}
			for k, w := range want {
				if got := d.Get(k); !reflect.DeepEqual(got, w) {
					t.Errorf("%s = %#v, want %#v", k, got, w)
				}
			}
			if n := len(d.Get("many").(*List).Items); n != 3000 {
				t.Errorf("many has %d items", n)
			}
			tuples := d.Get("tuples").(Tuple)
			for i, n := range []int{0, 2, 3, 4} {
				if len(tuples[i].(Tuple)) != n {
					t.Errorf("tuple %d has %d items, want %d", i, len(tuples[i].(Tuple)), n)
				}
			}
			shared := d.Get("shared").(*List)
			if shared.Items[0] != shared.Items[1] {
				t.Error("the memo does not share")
			}
			if v := d.Values[slices.Index(d.Keys, any(int64(7)))]; v != "int key" {
				t.Errorf("int key gives %v", v)
			}
		})
	}
}

// A pickle that would run a command gives an opaque value, names the command, and runs nothing.
func TestDecodeRunsNothing(t *testing.T) {
	for p := range 6 {
		before, err := os.ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		res, err := Decode(read(t, fmt.Sprintf("evil%d.pkl", p)))
		if err != nil {
			t.Fatalf("protocol %d: %v", p, err)
		}
		if len(res.Refused) != 1 || !strings.HasSuffix(res.Refused[0], ".system") {
			t.Errorf("protocol %d: refused %v", p, res.Refused)
		}
		d := res.Value.(*Dict)
		if o, ok := d.Get("entries").(*List).Items[0].(*Opaque); !ok || !o.Call {
			t.Errorf("protocol %d: entry is %#v", p, d.Get("entries"))
		}
		if d.Get("version") != "2.9" {
			t.Errorf("protocol %d: the rest is lost", p)
		}
		if after, _ := os.ReadDir("."); len(after) != len(before) {
			t.Fatalf("protocol %d: the command ran", p)
		}
	}
}

func TestDecodePlainConstructors(t *testing.T) {
	for p := range 6 {
		res, err := Decode(read(t, fmt.Sprintf("ordered%d.pkl", p)))
		if err != nil {
			t.Fatalf("protocol %d: %v", p, err)
		}
		d := res.Value.(*Dict)
		o, ok := d.Get("o").(*Dict)
		if !ok || o.Get("a") != int64(1) || o.Get("b") != int64(2) {
			t.Errorf("protocol %d: OrderedDict is %#v", p, d.Get("o"))
		}
		for k, n := range map[string]int64{"s": 3, "f": 4} {
			if s, ok := d.Get(k).(*Set); !ok || len(s.Items) != 1 || s.Items[0] != n {
				t.Errorf("protocol %d: set %s is %#v", p, k, d.Get(k))
			}
		}
	}
}

func TestDecodeCycle(t *testing.T) {
	res, err := Decode(read(t, "cycle.pkl"))
	if err != nil {
		t.Fatal(err)
	}
	if l := res.Value.(*List); l.Items[0] != l {
		t.Errorf("got %#v", l.Items)
	}
}

// Every prefix of a pickle gives what was complete, with an error that says so, and never panics.
func TestDecodeTruncated(t *testing.T) {
	for _, p := range []int{0, 2, 4, 5} {
		data := read(t, fmt.Sprintf("plain%d.pkl", p))
		most := 0
		for n := range min(len(data), 1200) {
			res, err := Decode(data[:n])
			if !errors.Is(err, ErrTruncated) {
				t.Fatalf("protocol %d, %d bytes: %v", p, n, err)
			}
			if d, ok := res.Value.(*Dict); ok {
				if most > 3 && !reflect.DeepEqual(d.Get("bools"), &List{Items: []any{true, false}}) {
					t.Fatalf("protocol %d: %d bytes lose what fewer bytes gave", p, n)
				}
				most = max(most, d.Len())
			}
		}
		if most < 8 {
			t.Errorf("protocol %d: at most %d keys were saved", p, most)
		}
	}
}

func TestDecodeInvalid(t *testing.T) {
	huge := append([]byte{opProto, 2, opBinunicode8}, binary.LittleEndian.AppendUint64(nil, math.MaxUint64)...)
	for name, data := range map[string][]byte{
		"unknown instruction": {opProto, 2, 0xff},
		"nothing at stop":     {opProto, 2, opStop},
		"protocol 9":          {opProto, 9, opNone, opStop},
		"pop of nothing":      {opPop},
		"tuple of nothing":    {opTuple2},
		"tuple below mark":    {opNone, opMark, opTuple1},
		"no mark":             {opNone, opAppends},
		"append to None":      {opNone, opNone, opAppend},
		"odd dict":            {opMark, opNone, opDict},
		"odd items":           {opEmptyDict, opMark, opNone, opSetitems},
		"unwritten memo":      {opBinget, 5},
		"bad int":             []byte("Iabc\n"),
		"bad float":           []byte("Fabc\n"),
		"bad string":          []byte("Sabc\n"),
		"bad put":             []byte("Np-1\n"),
		"huge integer":        append([]byte{opLong4, 0, 0x10, 0, 0}, make([]byte, 4096)...),
	} {
		if res, err := Decode(data); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %#v, %v", name, res, err)
		}
	}
	if _, err := Decode(huge); !errors.Is(err, ErrTruncated) {
		t.Errorf("a string of 2^64 bytes: %v", err)
	}
}

// A pickle of nothing but values costs a bounded multiple of what an honest one does.
func TestDecodeManyValues(t *testing.T) {
	data := bytes.Repeat([]byte{opNone}, maxValues+2)
	if _, err := Decode(data); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// A memo index far away costs a map entry, not an array up to it.
func TestDecodeFarMemo(t *testing.T) {
	data := append([]byte{opNewtrue, opLongBinput}, 0xff, 0xff, 0xff, 0xff)
	data = append(data, opPop, opLongBinget, 0xff, 0xff, 0xff, 0xff, opStop)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := Decode(data)
	runtime.ReadMemStats(&after)
	if err != nil || res.Value != true {
		t.Fatalf("%v, %v", res.Value, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("%d bytes allocated", used)
	}
}

func FuzzDecode(f *testing.F) {
	names, err := filepath.Glob("testdata/*.pkl")
	if err != nil || len(names) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 2000)])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		res, err := Decode(data)
		if err == nil && (res.Size <= 0 || res.Size > len(data)) {
			t.Errorf("size %d of %d", res.Size, len(data))
		}
		if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTruncated) {
			t.Errorf("unwrapped error %v", err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := read(b, "plain4.pkl")
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
