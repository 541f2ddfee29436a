// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestReleases(t *testing.T) {
	hex := regexp.MustCompile(`^[0-9a-f]{64}$`)
	seen := map[string]bool{}
	for i, r := range Releases() {
		if !hex.MatchString(r.SHA256) || seen[r.SHA256] {
			t.Errorf("%s: sum %q is none of its own", r.Version, r.SHA256)
		}
		seen[r.SHA256] = true
		if !strings.HasPrefix(r.Wheel, "nvidia_nccl_cu12-"+r.Version+"-py3-none-manylinux") || !strings.HasSuffix(r.Wheel, "x86_64.whl") {
			t.Errorf("%s: wheel %s", r.Version, r.Wheel)
		}
		if i > 0 && CompareVersions(Releases()[i-1].Version, r.Version) <= 0 {
			t.Errorf("%s is not older than the one before it", r.Version)
		}
	}
}

func TestSelect(t *testing.T) {
	for list, want := range map[string][]string{
		"short":                {"2.32.3", "2.24.3"},
		"ci":                   {"2.32.3", "2.30.7", "2.27.5", "2.24.3"},
		"2.24.3, 2.30.7":       {"2.30.7", "2.24.3"},
		"2.24.3 2.30.7":        {"2.30.7", "2.24.3"},
		"2.27":                 {"2.27.7"},
		"2.27,2.27.7,short":    {"2.32.3", "2.27.7", "2.24.3"},
		"none":                 {},
		"2.99.1":               nil,
		"2.27.4":               nil,
		"":                     nil,
		"2.30.7,latest,2.24.3": nil,
	} {
		got, err := Select(list)
		if (err != nil) != (want == nil) {
			t.Errorf("%q: error %v", list, err)
		}
		if err == nil && !slices.Equal(versions(got), want) {
			t.Errorf("%q: %v, want %v", list, versions(got), want)
		}
	}
	all, err := Select("all")
	if err != nil || len(all) != len(Releases()) {
		t.Errorf("all: %d of %d releases, %v", len(all), len(Releases()), err)
	}
	// The short list is the newest and the oldest.
	short, err := Select("short")
	if err != nil || short[0].Version != all[0].Version || short[1].Version != all[len(all)-1].Version {
		t.Errorf("short: %v %v", versions(short), err)
	}
}

func TestCompareVersions(t *testing.T) {
	for _, x := range []struct {
		a, b string
		want int
	}{
		{"2.30.7", "2.4.9", 1},
		{"2.27.7", "2.27.7", 0},
		{"2.27", "2.27.1", -1},
	} {
		if got := CompareVersions(x.a, x.b); got != x.want {
			t.Errorf("%s against %s: %d", x.a, x.b, got)
		}
	}
}
