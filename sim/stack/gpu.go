// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// gpuDir is the directory of a played host's GPUs, where the launcher of real NCCL looks for it, too.
func (s *Stack) gpuDir(host int) string {
	return filepath.Join(s.traceRoot, "fakegpu", fmt.Sprintf("host%d", host))
}

// playGPUs makes the directories of the played GPUs, and gives the environment of each host's exporter.
func (s *Stack) playGPUs() ([][]string, error) {
	env := make([][]string, len(s.hosts))
	if s.cfg.GPUs == 0 {
		return env, nil
	}
	library := filepath.Join(s.cfg.BinDir, "fakegpu")
	if _, err := os.Stat(filepath.Join(library, "libnvidia-ml.so.1")); err != nil {
		return nil, fmt.Errorf("playing GPUs: %w", err)
	}
	for i := range s.hosts {
		dir := s.gpuDir(i)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("playing GPUs: %w", err)
		}
		node := fmt.Sprintf("name host%d\ngpus %d\n", i, s.cfg.GPUs)
		if err := os.WriteFile(filepath.Join(dir, "node"), []byte(node), 0o644); err != nil {
			return nil, fmt.Errorf("playing GPUs: %w", err)
		}
		env[i] = []string{"LD_LIBRARY_PATH=" + library, "FAKEGPU_DIR=" + dir}
	}
	return env, nil
}

// ControlGPU asks something of a played GPU of a host, in the lines of its control file; none: a healthy one.
func (s *Stack) ControlGPU(host, gpu int, lines ...string) error {
	path := filepath.Join(s.gpuDir(host), fmt.Sprintf("gpu%d.control", gpu))
	aside := path + ".new"
	if err := os.WriteFile(aside, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("asking of a GPU: %w", err)
	}
	if err := os.Rename(aside, path); err != nil {
		return fmt.Errorf("asking of a GPU: %w", err)
	}
	return nil
}
