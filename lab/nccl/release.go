// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Package is the name of the wheels in the public package index. The cu12 wheels carry the same release as the cu13 ones.
const Package = "nvidia-nccl-cu12"

// Release is one release of NCCL and the wheel that holds it.
type Release struct {
	Version string `json:"version"`
	Wheel   string `json:"wheel"`  // File name in the index.
	SHA256  string `json:"sha256"` // Of the wheel, in hex.
	// Torch are the minor releases of PyTorch that pin this release.
	Torch []string `json:"torch,omitempty"`
	// Sets are the names of the smaller lists that this release is in: "short" and "ci".
	Sets []string `json:"sets,omitempty"`
}

//go:embed releases.json
var releasesJSON []byte

// Releases gives every known release, newest first.
func Releases() []Release {
	var all []Release
	if err := json.Unmarshal(releasesJSON, &all); err != nil {
		panic(fmt.Sprintf("releases.json is broken: %v", err)) // It is compiled in, and a test reads it.
	}
	slices.SortFunc(all, func(a, b Release) int { return -CompareVersions(a.Version, b.Version) })
	return all
}

// None asks for no release at all.
const None = "none"

// Select gives the releases of a list, separated by commas or spaces, of versions, minors (2.27 is its newest patch), "all", "ci", "short"
// and "none", newest first and each once.
func Select(list string) ([]Release, error) {
	all := Releases()
	chosen := map[string]bool{}
	for _, name := range names(list) {
		if name == None {
			continue
		}
		some := matching(all, name)
		if len(some) == 0 {
			return nil, fmt.Errorf("no NCCL release or list %q; known: %s, all, ci, short, none", name, strings.Join(versions(all), ", "))
		}
		for _, r := range some {
			chosen[r.Version] = true
		}
	}
	return slices.DeleteFunc(all, func(r Release) bool { return !chosen[r.Version] }), nil
}

// names divides a list. An empty one is one name, which nothing has.
func names(list string) []string {
	if out := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }); len(out) > 0 {
		return out
	}
	return []string{""}
}

func matching(all []Release, name string) []Release {
	var out []Release
	for _, r := range all {
		if name == "all" || r.Version == name || slices.Contains(r.Sets, name) {
			out = append(out, r)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, r := range all {
		if strings.HasPrefix(r.Version, name+".") {
			return []Release{r}
		}
	}
	return nil
}

func versions(releases []Release) []string {
	out := make([]string, len(releases))
	for i, r := range releases {
		out[i] = r.Version
	}
	return out
}

// CompareVersions orders dotted versions by their numbers. What is no number counts as 0.
func CompareVersions(a, b string) int {
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(version string) []int {
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			n = 0
		}
		out = append(out, n)
	}
	return out
}
