// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrongCalls runs the program as people call it wrongly. It exits with an answer that says what to do.
func TestWrongCalls(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"file": "", "password.yml": "basic_auth_users: {alice: secret}\n", "tls.yml": "tls_server_config: {cert_file: absent.crt, key_file: absent.key}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args, want string
		status     int
	}{
		{"--trace.dir=file", "--trace.dir=file is not a directory: name the one that jobs write trace files to", 1},
		{"--history.dir=absent", "--history.dir=absent does not exist: make it, on a tmpfs", 1},
		{"--history.size=16G1", "--history.size=16G1 is no size, such as 16MB or 1GB", 2},
		{"--history.dir-size=much", "--history.dir-size=much is no size, such as 16MB or 1GB", 2},
		{"--web.config.file=password.yml", "--web.config.file=password.yml: a password of basic_auth_users is no bcrypt hash: write what htpasswd -nB USER prints", 1},
		{"--web.config.file=tls.yml", "--web.config.file=tls.yml: failed to read cert_file (absent.crt)", 1},
		{"install-shim --from=. --to=/nope", "--from=. has no lib*.so: name the folder of libnccl-profiler-culprit.so, /usr/lib/culprit in the image", 1},
	} {
		args := append(strings.Fields(c.args), "--web.listen-address=127.0.0.1:0")
		if !strings.Contains(c.args, "--trace.dir") {
			args = append(args, "--trace.dir=.")
		}
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), asExporter+"=1")
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != c.status || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "Listening on") {
			t.Errorf("%s: status %d, want %d and %q:\n%s", c.args, cmd.ProcessState.ExitCode(), c.status, c.want, out)
		}
	}
}
