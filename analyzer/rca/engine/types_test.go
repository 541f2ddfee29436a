// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestC3OperationTypeSet: operation, algorithm, protocol, data type and size are compared, each on its own.
func TestC3OperationTypeSet(t *testing.T) {
	for field, edit := range map[string]func(*rca.Op){
		"operation": func(o *rca.Op) { o.Func = "ReduceScatter" },
		"algorithm": func(o *rca.Op) { o.Algo = "tree" },
		"protocol":  func(o *rca.Op) { o.Proto = "ll128" },
		"datatype":  func(o *rca.Op) { o.Datatype = "bfloat16" },
		"size":      func(o *rca.Op) { o.Bytes *= 2 },
	} {
		j := newHungJob(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 1, 2, 3}, func(r int, o *rca.Op) {
			if r == 2 {
				edit(o)
			}
		})
		v := j.verdict()
		if v.Class != rca.Inconsistent || !slices.Equal(rcatest.CulpritRanks(v), []int{2}) || !strings.Contains(v.Summary, field) {
			t.Errorf("%s: %s %v: %s", field, v.Class, rcatest.CulpritRanks(v), v.Summary)
		}
	}
}
