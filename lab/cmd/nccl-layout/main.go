// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Nccl-layout prints where members of the structs lie that NCCL shares with its kernels, for the played GPU: nccl-layout LIBRARY.
package main

import (
	"fmt"
	"os"

	"github.com/culprit-project/culprit/lab/fakegpu/layout"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nccl-layout:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: nccl-layout libnccl.so.2")
	}
	l, err := layout.Read(args[0])
	if err != nil {
		return err
	}
	return l.Write(os.Stdout)
}
