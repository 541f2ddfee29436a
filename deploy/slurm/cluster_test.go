// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build slurm

package slurm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/internal/ports"
	"github.com/culprit-project/culprit/sim/stack"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// hosts are as many slurmd on this machine, each with an exporter.
const hosts = 2

// cluster is Slurm's real daemons on loopback.
type cluster struct {
	t   *testing.T
	dir string
	env []string
}

// configuration of Slurm. The daemons run as whoever tests, and share this machine: the nodes have ports of their own.
const configuration = `ClusterName=culprit
SlurmctldHost=HOST(127.0.0.1)
SlurmctldPort=CTLPORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=DIR/munge.socket
CredType=cred/munge
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/%n
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog=DIR/prolog
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

func free(t *testing.T) string {
	t.Helper()
	addrs, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	return port
}

// start starts munge, the controller and the nodes, whose tasks write trace files where the stack's exporters look. more are further
// lines of the configuration.
func start(t *testing.T, dir string, s *stack.Stack, more string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir, env: append(os.Environ(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	prolog, err := filepath.Abs("culprit-task-prolog")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("HOST", name, "DIR", dir, "CTLPORT", free(t)).Replace(configuration) + more
	traces := strings.TrimSuffix(s.TraceDir(0), "0")
	for i := range hosts {
		text += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%s CPUs=8 State=UNKNOWN\n", s.HostName(i), name, free(t))
		if err := os.MkdirAll(filepath.Join(dir, s.HostName(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key)
	write(t, filepath.Join(dir, "munge.key"), string(key), 0o400)
	write(t, filepath.Join(dir, "slurm.conf"), text, 0o644)
	// Nodes of one machine: each has its exporter's directory, and its own name.
	write(t, filepath.Join(dir, "culprit.conf"), "CULPRIT_LIB="+bin+"\nCULPRIT_DIR="+traces+"${SLURMD_NODENAME#node}\nCULPRIT_HOSTNAME=$SLURMD_NODENAME\n", 0o644)
	write(t, filepath.Join(dir, "prolog"), "#!/bin/sh\nCULPRIT_SLURM_CONF="+dir+"/culprit.conf exec "+prolog+"\n", 0o755)
	c.daemon("munged", "--foreground", "--force", "--socket="+dir+"/munge.socket", "--key-file="+dir+"/munge.key", "--pid-file="+dir+"/munge.pid",
		"--log-file="+dir+"/munge.log", "--seed-file="+dir+"/munge.seed")
	c.eventually("munge", func() error { _, err := os.Stat(dir + "/munge.socket"); return err })
	c.daemon("slurmctld", "-D")
	for i := range hosts {
		c.daemon("slurmd", "-D", "-N", s.HostName(i))
	}
	c.eventually("nodes", func() error {
		out, err := c.command("sinfo", "--noheader", "--format=%D %t").CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) != fmt.Sprintf("%d idle", hosts) {
			err = fmt.Errorf("sinfo says %s", out)
		}
		return err
	})
	return c
}

func (c *cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = c.env, c.dir
	return cmd
}

// daemon runs a program until the test ends; its log is shown when the test fails.
func (c *cluster) daemon(name string, args ...string) {
	c.t.Helper()
	if found, err := exec.LookPath("/usr/sbin/" + name); err == nil {
		name = found
	}
	log, err := os.CreateTemp(c.dir, filepath.Base(name)+"-*.log")
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := c.command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("%v; apt-get install slurmctld slurmd slurm-client munge", err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		log.Close()
		if c.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			c.t.Logf("%s: %s", name, text[max(0, len(text)-2000):])
		}
	})
}

func (c *cluster) eventually(what string, try func() error) {
	c.t.Helper()
	var err error
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	c.t.Fatalf("%s: %v", what, err)
}

// submit has a batch script run, and gives its job's number. It is cancelled when the test ends.
func (c *cluster) submit(script string, args ...string) string {
	c.t.Helper()
	file, err := os.CreateTemp(c.dir, "*.sh")
	if err != nil {
		c.t.Fatal(err)
	}
	write(c.t, file.Name(), "#!/bin/bash\n"+script, 0o755)
	out, err := c.command("sbatch", append(append([]string{"--parsable", "--output=" + c.dir + "/job-%j.out"}, args...), file.Name())...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	id := strings.TrimSpace(string(out))
	c.t.Cleanup(func() {
		_ = c.command("scancel", "--signal=KILL", "--full", id).Run()
		if c.t.Failed() {
			text, _ := os.ReadFile(c.dir + "/job-" + id + ".out")
			c.t.Logf("job %s: %s", id, text[max(0, len(text)-2000):])
		}
	})
	return id
}

// train is a script's line that runs ranks in a step, two a node: real processes that call the real shim as NCCL does.
func train(t *testing.T, args string) string {
	t.Helper()
	program, err := filepath.Abs("../../bin/ringjob")
	if err != nil {
		t.Fatal(err)
	}
	return "export MEET=$(mktemp -d $SLURM_SUBMIT_DIR/meet-XXXXXX)\n" +
		"srun --nodes=2 --ntasks=4 --distribution=block --overlap bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE=2 " +
		"exec " + program + " --rendezvous=$MEET --layout=dp4 --steps=0 --report-every=0 " + args + "'\n"
}

// jobs are the names of the jobs that the exporters see, with how many ranks each has.
func (c *cluster) jobs(s *stack.Stack) (map[string]int, error) {
	found := map[string]int{}
	for i := range hosts {
		resp, err := http.Get(s.ExporterURL(i) + nodeapi.StatePath)
		if err != nil {
			return nil, err
		}
		var state nodeapi.State
		err = json.NewDecoder(resp.Body).Decode(&state)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		for _, p := range state.Processes {
			found[p.JobID]++
		}
	}
	return found, nil
}

func newStack(t *testing.T) (*stack.Stack, string) {
	t.Helper()
	// Not in /tmp, which job_container/tmpfs gives each job anew.
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(root, "build"), "slurm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := stack.Start(t.Context(), stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"), Dir: dir, Hosts: hosts,
		Interval: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("starting the cluster (make build tools first): %v", err)
	}
	t.Cleanup(s.Close)
	return s, dir
}

// TestSlurm has two jobs, a job of two steps and an array, none of which sets a variable. The fault of one step is named on its page
// with Slurm's job and step.
func TestSlurm(t *testing.T) {
	s, dir := newStack(t)
	c := start(t, dir, s, "")
	healthy := c.submit(train(t, ""), "--nodes=2", "--ntasks-per-node=2")
	array := c.submit(train(t, ""), "--nodes=2", "--ntasks-per-node=2", "--array=1-2")
	faulty := c.submit("srun --ntasks=1 true\n"+train(t, "--fault=link-stall:rank=2:step=40"), "--nodes=2", "--ntasks-per-node=2")
	const ranks = 4
	c.eventually("jobs of the exporters", func() error {
		found, err := c.jobs(s)
		if err != nil {
			return err
		}
		// The tasks of an array are jobs of their own: one has the array's number, the others the next free ones.
		if len(found) != 4 || found[healthy] != ranks || found[array] != ranks || found[faulty+".1"] != ranks {
			return fmt.Errorf("%v, want %d ranks of %s, %s, another of that array, and %s.1", found, ranks, healthy, array, faulty)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	page, err := s.WaitPage(ctx, faulty+".1")
	if err != nil {
		t.Fatal(err)
	}
	if page.Labels["rank"] != "2" || page.Labels["job_id"] != faulty+".1" || page.Labels["host"] != s.HostName(1) {
		t.Errorf("the page has labels %v", page.Labels)
	}
	t.Logf("%s", page.Annotations["summary"])
	for _, id := range []string{healthy, array} {
		if pages := s.Pages(id); len(pages) > 0 {
			t.Errorf("the healthy job %s has pages: %+v", id, pages)
		}
	}
}

// TestPrivateTmp has Slurm give each job a /tmp and a /dev/shm of its own, as job_container/tmpfs does: trace files in CULPRIT_DIR
// outside of both are seen.
func TestPrivateTmp(t *testing.T) {
	s, dir := newStack(t)
	base := filepath.Join(dir, "containers")
	if err := os.Mkdir(base, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "job_container.conf"), "AutoBasePath=true\nBasePath="+base+"\n", 0o644)
	marker, err := os.CreateTemp("", "culprit-marker-") //nolint:usetesting // It is about /tmp itself.
	if err != nil {
		t.Fatal(err)
	}
	marker.Close()
	defer os.Remove(marker.Name())
	c := start(t, dir, s, "JobContainerType=job_container/tmpfs\nPrologFlags=Contain\n")
	id := c.submit("ls /tmp /dev/shm\n"+train(t, ""), "--nodes=2", "--ntasks-per-node=2")
	c.eventually("ranks", func() error {
		found, err := c.jobs(s)
		if err == nil && found[id] != 4 {
			err = fmt.Errorf("%v, want 4 ranks of %s", found, id)
		}
		return err
	})
	out, err := os.ReadFile(filepath.Join(dir, "job-"+id+".out"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Fields(string(out)); slices.Contains(lines, filepath.Base(marker.Name())) {
		t.Errorf("/tmp is the host's: %s", out)
	}
}

// TestSPANK has the SPANK plugin instead of the TaskProlog.
func TestSPANK(t *testing.T) {
	s, dir := newStack(t)
	out, err := exec.Command("make", "-C", "spank", "O="+dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lib, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "plugstack.conf"), "required "+dir+"/spank_culprit.so lib="+lib+" dir=/run/culprit\n", 0o644)
	c := start(t, dir, s, "PlugStackConfig="+dir+"/plugstack.conf\n")
	write(t, filepath.Join(dir, "prolog"), "#!/bin/sh\n", 0o755)
	for _, test := range []struct {
		name      string
		env, args []string
		want      map[string]string
	}{
		{"nothing set", []string{"LD_LIBRARY_PATH="}, nil, map[string]string{"NCCL_PROFILER_PLUGIN": plugin, "LD_LIBRARY_PATH": lib, "CULPRIT_DIR": "/run/culprit"}},
		{
			"another plugin",
			[]string{"NCCL_PROFILER_PLUGIN=inspector", "LD_LIBRARY_PATH=/opt"},
			nil,
			map[string]string{"NCCL_PROFILER_PLUGIN": plugin, "CULPRIT_CHAIN": "libnccl-profiler-inspector.so", "LD_LIBRARY_PATH": lib + ":/opt"},
		},
		{"switched off", nil, []string{"--culprit=off"}, map[string]string{"NCCL_PROFILER_PLUGIN": "", "CULPRIT_DIR": ""}},
		{"switched off by the job", []string{"CULPRIT_DISABLE=1"}, nil, map[string]string{"NCCL_PROFILER_PLUGIN": ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			srun := c.command("srun", append(append([]string{"--ntasks=1"}, test.args...), "printenv")...)
			srun.Env = append(srun.Env, test.env...)
			out, err := srun.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := map[string]string{}
			for line := range strings.Lines(string(out)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				got[name] = value
			}
			for name, want := range test.want {
				if got[name] != want {
					t.Errorf("%s is %q, want %q", name, got[name], want)
				}
			}
		})
	}
}
