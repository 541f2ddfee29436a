// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package sysfile reads the small files of procfs and sysfs below a root that may be a test's or the node's, mounted
// elsewhere.
package sysfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Root is where procfs or sysfs is mounted.
type Root string

// Path gives a file's place.
func (r Root) Path(elem ...string) string {
	return filepath.Join(append([]string{string(r)}, elem...)...)
}

// Text reads a file without the white space around it. What is no UTF-8, which a label cannot hold, is replaced.
func (r Root) Text(elem ...string) (string, error) {
	b, err := os.ReadFile(r.Path(elem...))
	return strings.ToValidUTF8(string(bytes.TrimSpace(b)), "?"), err
}

// Uint reads a file that holds one number, decimal or with 0x.
func (r Root) Uint(elem ...string) (uint64, error) {
	s, err := r.Text(elem...)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing %s: %w", r.Path(elem...), err)
	}
	return v, nil
}

// Glob lists the paths below the root that match, relative to it and sorted.
func (r Root) Glob(pattern string) []string {
	names, err := filepath.Glob(filepath.Join(escape(string(r)), pattern))
	if err != nil {
		return nil // Only a malformed pattern.
	}
	for i, name := range names {
		if rel, err := filepath.Rel(string(r), name); err == nil {
			names[i] = rel
		}
	}
	return names
}

func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Link gives the last element of where a symbolic link points, such as a device's driver.
func (r Root) Link(elem ...string) (string, error) {
	target, err := os.Readlink(r.Path(elem...))
	if err != nil {
		return "", err
	}
	return filepath.Base(target), nil
}

// Fields reads a file of lines "key value …" and gives the value of each key; a colon behind the key is dropped.
func (r Root) Fields(elem ...string) (map[string]string, error) {
	b, err := os.ReadFile(r.Path(elem...))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok {
			fields[strings.TrimSuffix(key, ":")] = strings.TrimSpace(value)
		}
	}
	return fields, nil
}

// Pressure is one line of a file of the kernel's pressure stall information.
type Pressure struct {
	Share   float64 // Of the last 10 s in which tasks were held up, 0 to 1.
	Seconds float64 // In which they were so far.
}

// Pressure reads such a file. Its lines are called some, for some task, and full, for all of them.
func (r Root) Pressure(elem ...string) (map[string]Pressure, error) {
	text, err := r.Text(elem...)
	if err != nil {
		return nil, err
	}
	lines := map[string]Pressure{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		var p Pressure
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("parsing %s: %w", r.Path(elem...), err)
			}
			switch key {
			case "avg10":
				p.Share = v / 100
			case "total":
				p.Seconds = v / 1e6
			}
		}
		lines[fields[0]] = p
	}
	return lines, nil
}
