// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/pulse"
)

func TestRead(t *testing.T) {
	r, err := Read("x", []byte("\ufeffbytes_total;qp;Peer;rank;time_ms;link_gbps\r\n"+
		"100;7;1;0;10;400\r\n350;7;1;0;12;400\r\n350;7;1;0;14;400\r\n40;7;1;0;16;400\r\n5;8;;0;16;400\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Flows) != 2 || r.LinkGbps != 400 || !r.Zeros || r.CutOff {
		t.Fatalf("%+v", r)
	}
	f := r.Flows[0]
	want := []pulse.Epoch{{At: 12 * time.Millisecond, Bytes: 250}, {At: 16 * time.Millisecond, Bytes: 40}} // The counter began anew.
	if f.Rank != 0 || f.Peer != 1 || f.Channel != "7" || len(f.Epochs) != 2 || f.Epochs[0] != want[0] || f.Epochs[1] != want[1] || f.First != 10*time.Millisecond {
		t.Errorf("%+v", f)
	}
	if f := r.Flows[1]; f.Peer != -1 || len(f.Epochs) != 0 {
		t.Errorf("%+v", f)
	}
}

func TestReadErrors(t *testing.T) {
	const header = "time_seconds,rank,peer,bytes,size_bytes,link_gbps\n1,0,1,5,,\n"
	for text, want := range map[string]string{
		header + "x,0,1,5,,\n":                                  `line 3: time "x"`,
		header + "1,0,1,5,,\n1e300,0,1,5,,\n":                   `line 4: time "1e300"`,
		header + "NaN,0,1,5,,\n":                                "line 3: time",
		header + "2,-1,1,5,,\n":                                 `line 3: rank "-1"`,
		header + "2,0,99999999,5,,\n":                           "line 3: peer",
		header + "2,0,1,-5,,\n":                                 `line 3: bytes "-5"`,
		header + "2,0,1,5,x,\n":                                 "line 3: size_bytes",
		header + "2,0,1,5,,-1\n":                                "line 3: link_gbps",
		header + "2,0,1,5\n":                                    "line 3: 4 columns, the header has 6",
		header + "0.5,0,1,5,,\n":                                "line 3: its time is before",
		header + "2,0,\"1,5,,\n":                                "line 3",
		header + "2,0,1," + strings.Repeat("9", 5000) + ",,\n":  "line 3: bytes \"999",
		"time_seconds,rank,peer,bytes\n":                        "no flow moves any bytes",
		"time_seconds,rank,peer,bytes,bytes_total\n1,0,1,5,6\n": ErrNotFlows.Error(),
		"time_seconds,rank,bytes\n1,0,5\n":                      ErrNotFlows.Error(),
		"start,end,rank,op,bytes\n1,2,0,AllReduce,5\n":          ErrNotFlows.Error(),
		"rank,op,duration,peer,bytes\n0,AllReduce,5,1,6\n":      ErrNotFlows.Error(),
		"time_seconds,rank,peer,bytes,group\n1,0,1,5," + strings.Repeat("g", 300) + "\n": "line 2: group has more than 256 bytes",
	} {
		r, err := Read("x", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %+v, %v, want %s", text, r, err, want)
		}
		if errors.Is(err, ErrNotFlows) == Sniff([]byte(text)) {
			t.Errorf("%.60q: recognised %v", text, Sniff([]byte(text)))
		}
	}
}

// TestReadCutOff: a file whose last line is not whole is used up to that line.
func TestReadCutOff(t *testing.T) {
	for _, text := range []string{
		"time_seconds,rank,peer,bytes\n1,0,1,5\n2,0,1,6\n3,0",
		"time_seconds,rank,peer,bytes_total\n1,0,1,5\n2,0,1,600\n3,0,1,6",
	} {
		r, err := Read("x", []byte(text))
		if err != nil || !r.CutOff || r.Flows[0].Last != 2*time.Second {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
	if r, err := Read("x", []byte("time_seconds,rank,peer,bytes\n1,0,1,5\n2,0,1,6")); err != nil || r.CutOff || r.Flows[0].Last != 2*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
}

// Whatever the file holds, reading and judging it end, and a verdict names only ranks that the file has.
func FuzzRead(f *testing.F) {
	g := newRing(4)
	g.ops, g.slices, g.after, g.interval = 4, 12, 3, 1e-4
	g.stops[1] = 0.062
	f.Add([]byte(g.record()))
	g.totals, g.header, g.label = true, "time_seconds,rank,peer,bytes_total,operation,size_bytes,group,link_gbps", ",AllGather,4194304,dp,400"
	f.Add([]byte(g.record()))
	f.Add([]byte("time_ns;qp;rank;peer;bytes\n1;a;0;1;5\n1;a;1;0;5\n9000000000;a;0;1;0\n9000000000;a;1;0;0\n"))
	f.Add([]byte("time_us\trank\tpeer\tbytes_total\n1\t0\t\t5\n2\t0\t\t4\n3\t1\t1\t0\n4\t1\t1\t9"))
	f.Add([]byte("time_ms,rank,peer,bytes,group\n1,0,1048575,5,\"a\nb\"\n1,7,0,5,x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read("x", data)
		if err != nil {
			return
		}
		v, ev, _ := Analyze([]*Recording{r, r})
		if v.Summary == "" || v.Page {
			t.Errorf("%+v", v)
		}
		for _, c := range v.Culprits {
			if c.Rank >= ev.WorldSize {
				t.Errorf("rank %d of %d", c.Rank, ev.WorldSize)
			}
		}
	})
}
