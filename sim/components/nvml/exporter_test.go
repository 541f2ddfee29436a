// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package nvml_test runs the exporter under the played NVML.
package nvml_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/lab/fakegpu/nvml/nvmltest"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Where things are, from this directory.
var (
	root      = mustAbs("../../..")
	libraries = filepath.Join(root, "bin", "fakegpu")
)

func mustAbs(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return abs
}

// exporter is a running culprit-exporter that loads the played library.
type exporter struct{ url string }

func startExporter(t *testing.T, h nvmltest.Host) exporter {
	t.Helper()
	cmd := exec.Command(filepath.Join(root, "bin", "culprit-exporter"),
		"--web.listen-address=127.0.0.1:0", "--trace.dir="+t.TempDir(), "--host-name=alpha")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries, "FAKEGPU_DIR="+string(h))
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make build builds it", err)
	}
	var text strings.Builder
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(text.String())
		}
	})
	lines := bufio.NewScanner(log)
	address := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return exporter{"http://" + m[1]}
		}
	}
	t.Fatal("the exporter ended")
	return exporter{}
}

func (e exporter) get(path string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, e.url+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "5")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// series gives the values of culprit_nvml_* by name and labels, and the collectors' success.
func (e exporter) series() (map[string]string, error) {
	body, err := e.get("/metrics")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.SplitSeq(string(body), "\n") {
		name, v, ok := strings.Cut(line, "} ")
		if ok && (strings.HasPrefix(name, "culprit_nvml_") || strings.HasPrefix(name, "culprit_exporter_collector_success")) {
			out[name+"}"] = v
		}
	}
	return out, nil
}

// facts gives the kinds of the node's evidence about GPUs, by device.
func (e exporter) facts() (map[string]string, error) {
	body, err := e.get(nodeapi.StatePath)
	if err != nil {
		return nil, err
	}
	var state nodeapi.State
	if err := json.Unmarshal(body, &state); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, f := range state.Facts {
		if f.Component == "gpu" {
			out[f.Device+" "+f.Kind] = f.Text
		}
	}
	return out, nil
}

// shows waits until all of the series have these values; "" none.
func (e exporter) shows(t *testing.T, want map[string]string) {
	t.Helper()
	nvmltest.Eventually(t, func() error {
		got, err := e.series()
		if err != nil {
			return err
		}
		for name, v := range want {
			if got[name] != v {
				return fmt.Errorf("%s is %q, want %q", name, got[name], v)
			}
		}
		return nil
	})
}

func (e exporter) tells(t *testing.T, want map[string]string) {
	t.Helper()
	nvmltest.Eventually(t, func() error {
		got, err := e.facts()
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("facts (-want +got):\n%s", diff)
		}
		return nil
	})
}

const healthy = `culprit_exporter_collector_success{collector="nvml"}`

func exported(t *testing.T) (nvmltest.Host, exporter) {
	t.Helper()
	h, err := nvmltest.NewHost(t.TempDir(), "alpha", 4)
	if err != nil {
		t.Fatal(err)
	}
	e := startExporter(t, h)
	e.shows(t, map[string]string{healthy: "1", `culprit_nvml_gpu_answers{gpu="3"}`: "1"})
	return h, e
}

// TestExporterFollowsTheControlFile has what a control file asks for in the exporter's series and facts.
func TestExporterFollowsTheControlFile(t *testing.T) {
	h, e := exported(t)
	first, err := e.series()
	if err != nil {
		t.Fatal(err)
	}
	e.tells(t, map[string]string{})
	h.Control(t, 0, "rows.failed 1") // Once it is seen, counters have been looked at.
	e.tells(t, map[string]string{"gpu0 row_remap_failed": ""})
	for gpu := range 4 {
		h.Control(t, gpu, "utilization 95")
	}
	h.Control(t, 2, "utilization 95", "speed 0.5", "throttle hw_thermal", "pcie.width 8", "pcie.gen 3", "pcie.replays 7", "ecc.corrected 4",
		"ecc.uncorrected 1", "rows.pending 1", "rows.failed 1", "nvlink.down 0,1", "nvlink.errors 3", "temperature 93", "power 123", "xid 48")
	e.shows(t, map[string]string{
		healthy:                                                         "1",
		`culprit_nvml_sm_clock_hertz{gpu="1"}`:                          "1.41e+09",
		`culprit_nvml_sm_clock_hertz{gpu="2"}`:                          "7.05e+08",
		`culprit_nvml_sm_max_clock_hertz{gpu="2"}`:                      "1.41e+09",
		`culprit_nvml_utilization_ratio{gpu="2"}`:                       "0.9500000000000001",
		`culprit_nvml_pcie_link_width{gpu="2"}`:                         "8",
		`culprit_nvml_pcie_link_max_width{gpu="2"}`:                     "16",
		`culprit_nvml_pcie_link_generation{gpu="2"}`:                    "3",
		`culprit_nvml_pcie_replays_total{gpu="2"}`:                      "7",
		`culprit_nvml_clock_limited{gpu="2",reason="hw_thermal"}`:       "1",
		`culprit_nvml_clock_limited{gpu="2",reason="hw_slowdown"}`:      "1",
		`culprit_nvml_clock_limited{gpu="2",reason="power_cap"}`:        "0",
		`culprit_nvml_clock_limited{gpu="1",reason="hw_thermal"}`:       "0",
		`culprit_nvml_ecc_errors_total{gpu="2",severity="corrected"}`:   "4",
		`culprit_nvml_ecc_errors_total{gpu="2",severity="uncorrected"}`: "1",
		`culprit_nvml_ecc_errors_total{gpu="1",severity="uncorrected"}`: "0",
		`culprit_nvml_row_remap_pending{gpu="2"}`:                       "1",
		`culprit_nvml_row_remap_failed{gpu="2"}`:                        "1",
		`culprit_nvml_remapped_rows{gpu="2",severity="uncorrected"}`:    "1",
		`culprit_nvml_nvlink_links{gpu="2",state="inactive"}`:           "2",
		`culprit_nvml_nvlink_links{gpu="1",state="inactive"}`:           "0",
		`culprit_nvml_temperature_celsius{gpu="2"}`:                     "93",
		`culprit_nvml_power_watts{gpu="2"}`:                             "123",
		`culprit_nvml_xid_errors_total{gpu="2",xid="48"}`:               "1",
	})
	e.tells(t, map[string]string{
		"gpu2 xid":               "GPU 2 reported Xid 48: double-bit ECC error",
		"gpu2 ecc_uncorrectable": "",
		"gpu2 nvlink_down":       "",
		"gpu2 row_remap_failed":  "",
		"gpu2 clock_throttled":   "GPU 2 runs at 705 MHz instead of 1410 MHz: hw_slowdown, hw_thermal",
	})
	h.Control(t, 2, "utilization 95", "xid 48 2")
	e.shows(t, map[string]string{
		`culprit_nvml_sm_clock_hertz{gpu="2"}`:                    "1.41e+09",
		`culprit_nvml_clock_limited{gpu="2",reason="hw_thermal"}`: "0",
		`culprit_nvml_pcie_link_width{gpu="2"}`:                   "16",
		`culprit_nvml_xid_errors_total{gpu="2",xid="48"}`:         "2",
	})
	// Every GPU has the same series, and none went.
	now, err := e.series()
	if err != nil {
		t.Fatal(err)
	}
	for name := range first {
		if _, ok := now[name]; !ok {
			t.Errorf("%s is gone", name)
		}
	}
}

// others gives the series of all GPUs but one, without their values.
func others(series map[string]string, gpu string) map[string]bool {
	out := map[string]bool{}
	for name := range series {
		if strings.HasPrefix(name, "culprit_nvml_") && !strings.Contains(name, `gpu="`+gpu+`"`) {
			out[name] = true
		}
	}
	return out
}

// TestExporterLostGPU has a GPU that falls off the bus and says so, and another whose driver calls hang. Both cost their own
// series only, an XID of another GPU still arrives, and both come back.
func TestExporterLostGPU(t *testing.T) {
	for _, tt := range []struct {
		name, control, kind string
	}{
		{name: "lost", control: "lost 1", kind: "gpu_lost"},
		{name: "hangs", control: "nvml.hang 1", kind: "driver_hang"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, e := exported(t)
			before, err := e.series()
			if err != nil {
				t.Fatal(err)
			}
			h.Control(t, 1, "xid 79", tt.control)
			e.shows(t, map[string]string{
				healthy:                                           "0",
				`culprit_nvml_gpu_answers{gpu="1"}`:               "0",
				`culprit_nvml_gpu_answers{gpu="2"}`:               "1",
				`culprit_nvml_power_watts{gpu="1"}`:               "",
				`culprit_nvml_xid_errors_total{gpu="1",xid="79"}`: "1",
			})
			h.Control(t, 2, "xid 31")
			e.shows(t, map[string]string{`culprit_nvml_xid_errors_total{gpu="2",xid="31"}`: "1"})
			now, err := e.series()
			if err != nil {
				t.Fatal(err)
			}
			delete(now, `culprit_nvml_xid_errors_total{gpu="2",xid="31"}`)
			if diff := cmp.Diff(others(before, "1"), others(now, "1")); diff != "" {
				t.Errorf("series of the other GPUs (-before +now):\n%s", diff)
			}
			nvmltest.Eventually(t, func() error {
				facts, err := e.facts()
				if err != nil {
					return err
				}
				if facts["gpu1 "+tt.kind] == "" || facts["gpu1 xid"] != "GPU 1 reported Xid 79: GPU has fallen off the bus" {
					return fmt.Errorf("facts %v", facts)
				}
				return nil
			})
			h.Control(t, 1, "xid 79")
			e.shows(t, map[string]string{healthy: "1", `culprit_nvml_gpu_answers{gpu="1"}`: "1", `culprit_nvml_power_watts{gpu="1"}`: "60"})
			start := time.Now()
			if _, err := e.series(); err != nil {
				t.Fatal(err)
			}
			t.Logf("a scrape took %v", time.Since(start))
		})
	}
}
