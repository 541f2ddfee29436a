// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/model"
	"github.com/culprit-project/culprit/analyzer/rca/observe"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

func BenchmarkHang(b *testing.B) {
	for _, n := range []int{1024, 10240} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ev, culprit := rcatest.BigHang(n)
			b.ReportAllocs()
			defer reportCPU(b, cpu(b))
			for b.Loop() {
				v := model.Analyze(ev, rca.Options{})
				if len(v.Culprits) != 1 || v.Culprits[0].Rank != culprit {
					b.Fatalf("got %v, want %d: %s", rcatest.CulpritRanks(v), culprit, v.Summary)
				}
			}
		})
	}
}

// BenchmarkRead is the part of it that reads the evidence.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1024, 10240} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ev, _ := rcatest.BigHang(n)
			b.ReportAllocs()
			defer reportCPU(b, cpu(b))
			for b.Loop() {
				observe.Read(ev, rca.Options{})
			}
		})
	}
}

// cpu is the time that the process has computed. On a machine that computes other things too it says more than the time that passed.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportCPU(b *testing.B, since time.Duration) {
	b.Helper()
	b.ReportMetric(float64((cpu(b)-since).Microseconds())/float64(b.N)/1e3, "cpu-ms/op")
}
