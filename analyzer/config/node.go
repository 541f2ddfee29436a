// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"github.com/VictoriaMetrics/metricsql"
)

// FactQuery is a PromQL query whose every series is a piece of a node's own evidence (X2), from an exporter other than
// ours. It joins what culprit-exporter says of its node, and accuses nobody by itself.
type FactQuery struct {
	// Query is a template over .Hosts, a regular expression of the hosts asked about. Only what is out of the ordinary
	// should come back.
	Query string `yaml:"query"`
	// Component and Kind are those of culprit-exporter's facts: gpu, nic, pcie, cpu, memory, storage; xid, port_down, ….
	Component string `yaml:"component"`
	Kind      string `yaml:"kind"`
	// Labels of the series: of the host (a port behind it does not count), and, where there are such, of the device, the
	// GPU's index and its UUID, by which the fact is one rank's.
	Host   string `yaml:"host_label"`
	Device string `yaml:"device_label"`
	GPU    string `yaml:"gpu_label"`
	UUID   string `yaml:"uuid_label"`
	// Mask, unless 0, selects bits of the value; a series in which none of them is set is ordinary.
	Mask     uint64  `yaml:"mask"`
	Expected float64 `yaml:"expected"` // What would be ordinary, for the words.
}

// throttled are the bits of DCGM's clocks event reasons that slow a GPU down: HW slowdown (0x8), SW thermal (0x20), HW
// thermal (0x40) and HW power brake (0x80); idle, application clocks and the power cap are ordinary.
const throttled = 0x8 | 0x20 | 0x40 | 0x80

// defaultNodeEvidence has dcgm-exporter's and node_exporter's metrics under the names that those give them.
func defaultNodeEvidence() []FactQuery {
	gpu := func(kind, query string) FactQuery {
		return FactQuery{Query: query, Component: "gpu", Kind: kind, Host: "Hostname", Device: "device", GPU: "gpu", UUID: "UUID"}
	}
	node := func(component, kind, device string, expected float64, query string) FactQuery {
		return FactQuery{Query: query, Component: component, Kind: kind, Host: "instance", Device: device, Expected: expected}
	}
	const (
		// The exporter itself says which host it is on, so the scrape job tells that it is one: others can show series of these names.
		dcgm = `{job=~".*dcgm.*",Hostname=~"{{ .Hosts }}"}`
		inst = `{instance=~"({{ .Hosts }})(:[0-9]+)?"}`
	)
	// Over a minute where there are two samples in one, else over five.
	rate := func(name string, above float64) string {
		return fmt.Sprintf("(rate(%[1]s%[2]s[1m]) or rate(%[1]s%[2]s[5m])) > %[3]g", name, inst, above)
	}
	newer := gpu("clock_throttled", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"+dcgm)
	older := gpu("clock_throttled", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"+dcgm)
	newer.Mask, older.Mask = throttled, throttled
	nvlink := gpu("nvlink_errors", "increase(DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"+dcgm+"[10m]) + increase(DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"+dcgm+"[10m]) > 0")
	replays := gpu("pcie_replays", "increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER"+dcgm+"[10m]) > 100")
	replays.Component = "pcie"
	inactive := node("nic", "port_down", "device", 4, "node_infiniband_state_id"+inst+" != 4")
	return []FactQuery{
		// The value is the last XID and stays: only one that has come lately counts.
		gpu("xid", "DCGM_FI_DEV_XID_ERRORS"+dcgm+" > 0 and changes(DCGM_FI_DEV_XID_ERRORS"+dcgm+"[10m]) > 0"),
		gpu("ecc_uncorrectable", "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"+dcgm+"[10m]) > 0"),
		gpu("row_remap_failure", "DCGM_FI_DEV_ROW_REMAP_FAILURE"+dcgm+" > 0"),
		newer, older, nvlink, replays, inactive,
		node("nic", "link_downed", "device", 0, "increase(node_infiniband_link_downed_total"+inst+"[10m]) > 0"),
		node("cpu", "cpu_pressure", "", 0, rate("node_pressure_cpu_waiting_seconds_total", 0.2)),
		node("memory", "memory_pressure", "", 0, rate("node_pressure_memory_stalled_seconds_total", 0.1)),
		node("storage", "io_pressure", "", 0, rate("node_pressure_io_stalled_seconds_total", 0.5)),
		node("cpu", "cpu_thermal_throttle", "cpu", 0, rate("node_cpu_core_throttles_total", 1)),
		node("memory", "oom_kill", "", 0, "increase(node_vmstat_oom_kill"+inst+"[10m]) > 0"),
	}
}

// Fill gives the query for some hosts.
func (q *FactQuery) Fill(hosts []string) (string, error) {
	t, err := template.New("node_evidence").Option("missingkey=error").Parse(q.Query)
	if err != nil {
		return "", err
	}
	quoted := make([]string, len(hosts))
	for i, h := range hosts {
		// For the regular expression, and for the string of PromQL that it stands in. What could end that string stands for any
		// character: which quotes it has is up to whoever configured it.
		text := strconv.Quote(strings.NewReplacer(`"`, ".", "'", ".", "`", ".").Replace(regexp.QuoteMeta(h)))
		quoted[i] = text[1 : len(text)-1]
	}
	var b strings.Builder
	if err := t.Execute(&b, struct{ Hosts string }{strings.Join(quoted, "|")}); err != nil {
		return "", err
	}
	return b.String(), nil
}

func (q *FactQuery) check() error {
	var errs []error
	query, err := q.Fill([]string{"h"})
	if err == nil && query != "" {
		_, err = metricsql.Parse(query)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("query: %w", err))
	}
	for name, v := range map[string]string{"query": q.Query, "component": q.Component, "kind": q.Kind, "host_label": q.Host} {
		if v == "" {
			errs = append(errs, fmt.Errorf("%s: must not be empty", name))
		}
	}
	return errors.Join(errs...)
}
