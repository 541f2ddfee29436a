// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build systemd

package dist

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a root directory in which systemd runs as the first process, with a network of its own.
type machine struct {
	t      *testing.T
	leader string // The number of its first process here.
}

// boot starts the root directory that the environment names; what is written in it goes to memory.
func boot(t *testing.T, debs string) *machine {
	t.Helper()
	root := os.Getenv("SYSTEMD_ROOT")
	if root == "" {
		t.Fatal("SYSTEMD_ROOT is not set; go run ./tools/ci run test-systemd sets it")
	}
	var console bytes.Buffer
	name := fmt.Sprintf("culprit-%d", os.Getpid())
	cmd := exec.Command("systemd-nspawn", "--directory="+root, "--machine="+name, "--register=no", "--keep-unit", "--private-network", "--volatile=overlay",
		"--bind-ro="+debs+":/debs", "--boot")
	cmd.Stdout, cmd.Stderr = &console, &console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	in, err := cmd.StdinPipe() // At its end the machine would be halted.
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		<-ended
		kill.Stop()
		in.Close()
		if t.Failed() {
			t.Logf("%s", console.Bytes()[max(0, console.Len()-3000):])
		}
	})
	m := &machine{t: t}
	m.eventually("systemd", func() error {
		select {
		case <-ended:
			t.Fatal("systemd-nspawn ended")
		default:
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		if err != nil {
			return err
		}
		for _, pid := range strings.Fields(string(children)) {
			if comm, err := os.ReadFile("/proc/" + pid + "/comm"); err == nil && strings.TrimSpace(string(comm)) == "systemd" {
				m.leader = pid
				state, _ := m.try("systemctl", "is-system-running") // "degraded" where a unit of the system failed.
				if strings.Contains(state, "running") || strings.Contains(state, "degraded") {
					return nil
				}
				return fmt.Errorf("it is %s", state)
			}
		}
		return fmt.Errorf("no systemd among %q", children)
	})
	return m
}

func (m *machine) eventually(what string, try func() error) {
	m.t.Helper()
	var err error
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	m.t.Fatalf("%s: %v", what, err)
}

// try runs a command in the machine.
func (m *machine) try(args ...string) (string, error) {
	out, err := exec.Command("nsenter", append([]string{"--target=" + m.leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd=/", "--"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.try(args...)
	if err != nil {
		journal, _ := m.try("journalctl", "--no-pager", "--lines=40")
		m.t.Fatalf("%v: %v\n%s\n%s", args, err, out, journal)
	}
	return out
}

// scrape gets a page of a service in the machine by this machine's curl.
func (m *machine) scrape(url string) (string, error) {
	out, err := exec.Command("nsenter", "--target="+m.leader, "--net", "--", "curl", "--silent", "--show-error", "--fail", url).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", url, err, out)
	}
	return string(out), nil
}

// TestSystemd installs the packages under a real systemd, starts both services, scrapes them, upgrades one and removes all.
func TestSystemd(t *testing.T) {
	debs := t.TempDir()
	for _, name := range []string{"exporter", "analyzer", "shim"} {
		copyFile(t, built(t, "culprit-"+name+"_VERSION-1_"+runtime.GOARCH+".deb"), filepath.Join(debs, name+".deb"))
	}
	copyFile(t, newer(t, "culprit-exporter", "deb"), filepath.Join(debs, "newer.deb"))
	m := boot(t, debs)
	m.run("dpkg", "--install", "/debs/exporter.deb", "/debs/analyzer.deb", "/debs/shim.deb")
	if state, _ := m.try("systemctl", "is-active", "culprit-exporter"); state != "inactive" {
		t.Errorf("installed, the exporter is %s; the user starts it", state)
	}
	for _, name := range []string{"culprit-exporter", "culprit-analyzer"} {
		if out := m.run("systemd-analyze", "verify", "/usr/lib/systemd/system/"+name+".service"); out != "" {
			t.Errorf("systemd-analyze verify %s: %s", name, out)
		}
		// 0 is the most hardened, 10 the least. The exporter has to see all processes and devices.
		limit := map[string]string{"culprit-exporter": "25", "culprit-analyzer": "15"}[name]
		t.Log(lastLine(m.run("systemd-analyze", "security", "--no-pager", "--offline=yes", "--threshold="+limit, "/usr/lib/systemd/system/"+name+".service")))
	}
	m.run("sh", "-c", "echo 'CULPRIT_ANALYZER_OPTS=--prometheus.url=http://localhost:9090' > /etc/default/culprit-analyzer")
	m.run("systemctl", "enable", "--now", "culprit-exporter", "culprit-analyzer")
	for url, want := range map[string]string{
		"http://127.0.0.1:9850/metrics": "culprit_exporter_build_info", "http://127.0.0.1:9851/metrics": "culprit_analyzer_build_info",
	} {
		m.eventually("scraping "+url, func() error {
			text, err := m.scrape(url)
			if err == nil && !strings.Contains(text, want) {
				err = fmt.Errorf("no %s in %d bytes", want, len(text))
			}
			return err
		})
	}
	if got := m.run("stat", "--format=%U %a", "/dev/shm/culprit"); got != "root 1777" {
		t.Errorf("the directory of trace files is %s", got)
	}
	pid := m.run("systemctl", "show", "--property=MainPID", "--value", "culprit-exporter")
	if user := m.run("stat", "--format=%U", "/proc/"+pid); user != "culprit" {
		t.Errorf("the exporter runs as %s", user)
	}

	m.run("dpkg", "--install", "/debs/newer.deb")
	m.eventually("the upgraded exporter", func() error {
		if now := m.run("systemctl", "show", "--property=MainPID", "--value", "culprit-exporter"); now == pid || now == "0" {
			return fmt.Errorf("its process is %s, before %s", now, pid)
		}
		_, err := m.scrape("http://127.0.0.1:9850/-/healthy")
		return err
	})

	m.run("dpkg", "--purge", "culprit-exporter", "culprit-analyzer", "culprit-shim")
	for _, name := range []string{"culprit-exporter", "culprit-analyzer"} {
		if state, _ := m.try("systemctl", "is-active", name); state != "inactive" {
			t.Errorf("%s is %s after its package's end", name, state)
		}
		if state, err := m.try("systemctl", "cat", name); err == nil {
			t.Errorf("%s is still known: %s", name, state)
		}
	}
}

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
