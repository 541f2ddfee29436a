// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const reference = "../../docs/metrics.md"

// TestEveryMetricIsDocumented compares the names in the source with docs/metrics.md, both ways.
func TestEveryMetricIsDocumented(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	ours, _, _ := strings.Cut(string(text), "## culprit-analyzer")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| ((?:`[a-z0-9_]+`(?:, )?)+) \\| (?:gauge|counter|histogram)").FindAllStringSubmatch(ours, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			documented[strings.Trim(name, "`")] = true
		}
	}
	exported := exportedNames(t)
	for name := range exported {
		if !documented[name] {
			t.Errorf("%s is exported and not in %s", name, reference)
		}
	}
	for name := range documented {
		if !exported[name] {
			t.Errorf("%s is in %s and not exported", name, reference)
		}
	}
	if len(exported) < 80 {
		t.Errorf("only %d metrics found: the patterns no longer fit the source", len(exported))
	}
}

// exportedNames finds the names in the source of the collectors and of what registers metrics elsewhere.
func exportedNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	// The toolkit's collector makes build_info's name.
	names := map[string]bool{"culprit_exporter_build_info": true}
	prefixes := map[string]string{"nccl": "culprit_nccl_", "host": "culprit_host_", "rdma": "culprit_rdma_", "pci": "culprit_pci_", "nvml": "culprit_nvml_", "ras": "culprit_nccl_ras_"}
	short := regexp.MustCompile(`\b(nccl|host|rdma|pci|nvml|ras)Desc\("([a-z0-9_]+)",`)
	full := regexp.MustCompile(`(?:NewDesc\(|Name:\s+)"([a-z0-9_]+)",`)
	for _, file := range append(files, "../kafka/sink.go", "../api/api.go", "../stall/post.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range short.FindAllStringSubmatch(string(source), -1) {
			names[prefixes[m[1]]+m[2]] = true
		}
		for _, m := range full.FindAllStringSubmatch(string(source), -1) {
			names[m[1]] = true
		}
	}
	for _, descs := range pressureDesc {
		for _, d := range descs {
			names[regexp.MustCompile(`culprit_host_[a-z_]+`).FindString(d.String())] = true
		}
	}
	delete(names, "culprit_host_pressure_cpu_stalled_seconds_total") // The kernel's is always zero: it is not exported.
	return names
}
