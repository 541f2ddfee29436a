// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Command generate makes package wire's structs, the lists of numbers that the exporter's history keeps, and the table of fields
// from ncclshim/culprit_trace.h, the one place where a field of the trace file has its name, type and meaning.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// root is the repository's, from the folder of package wire, in which go generate runs this.
const root = "../../.."

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes the files, for the folder of package wire.
func run(wire string) error {
	files, err := generated(wire)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generated gives the files by their names.
func generated(wire string) (map[string][]byte, error) {
	header, err := os.ReadFile(filepath.Join(wire, root, "ncclshim", "culprit_trace.h"))
	if err != nil {
		return nil, err
	}
	records, err := parse(string(header))
	if err != nil {
		return nil, err
	}
	code, err := goFile(records)
	if err != nil {
		return nil, fmt.Errorf("formatting the structs: %w", err)
	}
	walk, err := codec(records)
	if err != nil {
		return nil, fmt.Errorf("formatting the walk over the fields: %w", err)
	}
	return map[string][]byte{
		filepath.Join(wire, "records.go"):                             code,
		filepath.Join(wire, root, "exporter", "history", "fields.go"): walk,
		filepath.Join(wire, root, "ncclshim", "trace-fields.md"):      table(records),
	}, nil
}
