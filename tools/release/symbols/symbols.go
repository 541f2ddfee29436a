// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package symbols tells which release of glibc a program or library needs.
package symbols

import (
	"debug/elf"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Oldest is the release of glibc that everything shipped runs with: that of RHEL 7. NCCL's own builds need no older one.
const Oldest = "2.17"

// Glibc gives the newest version of glibc's symbols that an ELF file imports; "" where it imports none.
func Glibc(name string) (string, error) {
	f, err := elf.Open(name)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	defer f.Close()
	imported, err := f.DynamicVersionNeeds()
	if errors.Is(err, elf.ErrNoSymbols) {
		return "", nil // Linked statically.
	}
	if err != nil {
		return "", fmt.Errorf("reading the version needs of %s: %w", name, err)
	}
	newest := ""
	for _, library := range imported {
		for _, need := range library.Needs {
			if v, ok := strings.CutPrefix(need.Dep, "GLIBC_"); ok && (newest == "" || Newer(v, newest)) {
				newest = v
			}
		}
	}
	return newest, nil
}

// Newer compares versions of numbers with points between.
func Newer(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, errM := strconv.Atoi(x[i])
		n, errN := strconv.Atoi(y[i])
		if errM != nil || errN != nil {
			return a > b // GLIBC_PRIVATE counts as newer than all numbers.
		}
		if m != n {
			return m > n
		}
	}
	return len(x) > len(y)
}
