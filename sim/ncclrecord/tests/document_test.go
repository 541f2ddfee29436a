// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/culprit-project/culprit/sim/ncclrecord/job"
	"github.com/culprit-project/culprit/sim/ncclrecord/rules"
)

func TestDocument(t *testing.T) {
	var want bytes.Buffer
	if err := rules.Document(&want, "../testdata", job.Culprit); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs/nccl-behaviour.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/nccl-behaviour.md is not what the recordings say: run make nccl-behaviour")
	}
}
