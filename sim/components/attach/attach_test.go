// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package attach_test looks, by probes, at jobs on real NCCL that nobody prepared.
package attach_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/culprit-project/culprit/internal/ports"
	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/lab/ncclrun/runtest"
	"github.com/culprit-project/culprit/lab/train/jobtest"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const root = "../../.."

// newest runs a test on the newest release of NCCL.
func newest(t *testing.T, test func(t *testing.T, lib nccl.Library)) {
	t.Helper()
	releases, err := nccl.Select("short")
	if err != nil {
		t.Fatal(err)
	}
	runtest.OnEach(t, root, releases[:1], test)
}

// TestAttach looks at jobs that were started with neither plugin nor hooks. It needs root, for probes.
func TestAttach(t *testing.T) {
	newest(t, func(t *testing.T, lib nccl.Library) {
		for _, tt := range []struct {
			name, flags string
			stop        bool
			want        string
		}{
			{"not called", "--fault op-not-entered=sleep:rank=1:step=3", false, "Rank 1 "},
			{"stopped", "", true, "Rank 1 "},
			{"no communicator", "--fault init-hang:rank=1", false, "Rank 1 "},
			{"well", "", false, "The job moves"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				j := runtest.Start(t, root, lib, runtest.Spec{Ranks: 4, Hosts: 1, Flags: "--layout dp4 --steps 0 --grace 1 " + tt.flags})
				switch {
				case strings.Contains(tt.flags, "init-hang"):
					runtest.AwaitFault(j, "init-hang")
				case tt.flags != "":
					runtest.AwaitFault(j, "op-not-entered")
				default:
					j.AwaitStep(3)
				}
				if tt.stop {
					if err := syscall.Kill(j.PID(1), syscall.SIGSTOP); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = syscall.Kill(j.PID(1), syscall.SIGCONT) })
				}
				jobtest.Poll(t, tt.want, func() error {
					out, err := exec.Command(filepath.Join(root, "bin", "culprit-exporter"), "attach", "--for=1s", "--pid="+strconv.Itoa(j.PID(0))).CombinedOutput()
					named := strings.HasPrefix(tt.want, "Rank")
					if !strings.HasPrefix(string(out), tt.want) || strings.Count(string(out), "holds the job up") > 1 || named != (err == nil) {
						return fmt.Errorf("%w\n%s", errors.Join(errors.New("another answer"), err), out)
					}
					return nil
				})
			})
		}
	})
}

// TestProbesFollow has the exporter follow a job that is started after it, through to the rank that stays away.
func TestProbesFollow(t *testing.T) {
	newest(t, func(t *testing.T, lib nccl.Library) {
		addresses, err := ports.Free(1)
		if err != nil {
			t.Fatal(err)
		}
		address := addresses[0]
		exporter := exec.Command(filepath.Join(root, "bin", "culprit-exporter"), "--collector.uprobe", "--trace.dir="+t.TempDir(), "--web.listen-address="+address)
		if err := exporter.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = exporter.Process.Kill(); _ = exporter.Wait() })
		j := runtest.Start(t, root, lib, runtest.Spec{Ranks: 4, Hosts: 1, Flags: "--layout dp4 --steps 0 --grace 1 --fault op-not-entered=sleep:rank=2:step=40"})
		runtest.AwaitFault(j, "op-not-entered")
		jobtest.Poll(t, "rank 2 behind the others", func() error {
			called, err := operations(address)
			if err != nil {
				return err
			}
			if len(called) != 4 || called[2] == 0 || called[0] != called[2]+1 || called[1] != called[0] || called[3] != called[0] {
				return fmt.Errorf("operations called: %v", called)
			}
			return nil
		})
	})
}

// operations gives how many operations each rank has called on the communicator of all that has most.
func operations(address string) (map[int32]uint64, error) {
	resp, err := http.Get("http://" + address + nodeapi.StatePath)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var state nodeapi.State
	if err := json.NewDecoder(resp.Body).Decode(&state); err != nil {
		return nil, err
	}
	most := map[int32]uint64{}
	for i := range state.Processes {
		p := &state.Processes[i]
		for j := range p.Comms {
			most[p.Rank] = max(most[p.Rank], p.Comms[j].OpsCalled)
		}
	}
	return most, nil
}
