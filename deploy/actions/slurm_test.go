// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build slurm

package actions

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/internal/ports"
)

// patience bounds how long Slurm may take on a busy machine.
const patience = 3 * time.Minute

// slurm is a Slurm of its own on loopback: munged, slurmctld and a slurmd for each node.
type slurm struct {
	t   *testing.T
	dir string
}

const slurmConf = `ClusterName=culprit
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]s
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[3]s/munge.socket
CryptoType=crypto/munge
CredType=cred/munge
StateSaveLocation=%[3]s/state
SlurmdSpoolDir=%[3]s/spool-%%n
SlurmctldPidFile=%[3]s/slurmctld.pid
SlurmdPidFile=%[3]s/slurmd-%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
`

func free(t *testing.T, n int) []string {
	t.Helper()
	addrs, err := ports.Free(n)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, addr := range addrs {
		_, port, _ := net.SplitHostPort(addr)
		out = append(out, port)
	}
	return out
}

func startSlurm(t *testing.T, nodes ...string) *slurm {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("slurmd wants to be root")
	}
	s := &slurm{t: t, dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(s.dir, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	ports := free(t, 1+len(nodes))
	conf := fmt.Sprintf(slurmConf, host, ports[0], s.dir)
	for i, n := range nodes {
		conf += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%s CPUs=1 State=UNKNOWN\n", n, host, ports[1+i])
	}
	conf += "PartitionName=all Nodes=" + strings.Join(nodes, ",") + " Default=YES State=UP\n"
	s.write("slurm.conf", conf)
	s.write("munge.key", strings.Repeat("a key for this test alone.", 8))
	t.Setenv("SLURM_CONF", filepath.Join(s.dir, "slurm.conf"))
	s.start("munged", "--foreground", "--force", "--socket="+filepath.Join(s.dir, "munge.socket"), "--key-file="+filepath.Join(s.dir, "munge.key"),
		"--pid-file="+filepath.Join(s.dir, "munged.pid"), "--log-file="+filepath.Join(s.dir, "munged.log"), "--seed-file="+filepath.Join(s.dir, "munged.seed"))
	s.until("munged", func() bool {
		_, err := os.Stat(filepath.Join(s.dir, "munge.socket"))
		return err == nil
	})
	s.start("slurmctld", "-D", "-i")
	for _, n := range nodes {
		s.start("slurmd", "-D", "-N", n)
	}
	for _, n := range nodes {
		s.until(n+" to be idle", func() bool { return s.state(n) == "IDLE" })
	}
	return s
}

func (s *slurm) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// start runs a daemon until the test ends; what it says is shown when the test fails.
func (s *slurm) start(name string, args ...string) {
	s.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path = "/usr/sbin/" + name
	}
	out, err := os.CreateTemp(s.dir, name+"-*.out")
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("%v: run go run ./tools/ci run test-slurm, which installs it", err)
	}
	s.t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if text, err := os.ReadFile(out.Name()); err == nil && s.t.Failed() {
			s.t.Logf("%s:\n%s", name, text)
		}
		out.Close()
	})
}

func (s *slurm) until(what string, ok func() bool) {
	s.t.Helper()
	end := time.Now().Add(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}

// field gives what scontrol says of a node.
func (s *slurm) field(node, name string) string {
	out, err := exec.Command("scontrol", "show", "node", node).Output()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(out)) {
		if _, value, found := strings.Cut(line, name+"="); found {
			if name == "Reason" {
				return strings.TrimSpace(value)
			}
			return strings.Fields(value)[0]
		}
	}
	return ""
}

func (s *slurm) state(node string) string { return s.field(node, "State") }

// A verdict drains the accused node, and only that, in a real Slurm; its record has what Slurm said. The verdict is made up.
func TestDrainsInSlurm(t *testing.T) {
	s := startSlurm(t, "gpu-1", "gpu-2", "gpu-3")
	audit, err := action.OpenLog(filepath.Join(t.TempDir(), "actions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer audit.Close()
	r := action.NewRunner(audit, promslog.NewNopLogger(), prometheus.NewRegistry(), clock.System)
	rule := action.Rule{Name: "drain", MinConfidence: 0.95, Timeout: patience, Do: script(t, "drain-slurm.sh"), DryRun: true}
	limits := action.Limits{MaxHosts: 1, Window: time.Hour, Interval: time.Millisecond}
	consider := func(id, host string, class rca.Class) {
		now := time.Now()
		r.Apply([]action.Rule{rule}, limits, nil)
		r.Consider(incident.Incident{
			ID: id, JobID: "train", State: incident.Open, VerdictAt: &now, Analyses: []incident.Analysis{{At: now}},
			Verdict: &rca.Verdict{Class: class, Cause: rca.CauseGPU, Confidence: 0.97, Page: true, Culprits: []rca.Culprit{{Rank: 5, Host: host}}},
		})
		r.Work(t.Context())
	}

	consider("aaaaaaaaaaaa", "gpu-2", rca.Fault)
	if got := s.state("gpu-2"); got != "IDLE" {
		t.Errorf("a dry run made it %s", got)
	}
	rule.DryRun = false
	consider("bbbbbbbbbbbb", "gpu-2", rca.Unknown)
	if got := s.state("gpu-2"); got != "IDLE" {
		t.Errorf("an unknown verdict made it %s", got)
	}
	consider("aaaaaaaaaaaa", "gpu-2.example.org", rca.Fault)
	if got := s.state("gpu-2"); got != "IDLE+DRAIN" {
		t.Errorf("gpu-2 is %s; log %+v", got, audit.Entries(""))
	}
	if got := s.field("gpu-2", "Reason"); !strings.HasPrefix(got, "culprit aaaaaaaaaaaa: gpu, confidence 0.970") {
		t.Errorf("the reason is %q", got)
	}
	consider("cccccccccccc", "gpu-3", rca.Fault) // Over the budget.
	for _, n := range []string{"gpu-1", "gpu-3"} {
		if got := s.state(n); got != "IDLE" {
			t.Errorf("%s is %s", n, got)
		}
	}
	limits.MaxHosts = 3
	consider("dddddddddddd", "gpu-9", rca.Fault) // Slurm does not know it.
	entries := audit.Entries("dddddddddddd")
	if n := len(entries); n != 2 || entries[1].Event != action.Failed || !strings.Contains(entries[1].Output, "gpu-9") {
		t.Errorf("of an unknown node: %+v", entries)
	}
	if out, err := exec.Command("scontrol", "update", "NodeName=gpu-2", "State=RESUME").CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	s.until("gpu-2 to be back", func() bool { return s.state("gpu-2") == "IDLE" })
	consider("aaaaaaaaaaaa", "gpu-2", rca.Fault)
	if got := s.state("gpu-2"); got != "IDLE" {
		t.Errorf("an operator took it back, and the same incident made it %s", got)
	}
}
